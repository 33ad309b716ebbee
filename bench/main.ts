import { loadavg } from "node:os";
import { builtLibrary } from "./built.ts";
import { benchCatalog } from "./catalog.ts";
import { benchInvoke } from "./invoke.ts";
import { machine } from "./machine.ts";
import { benchOptions } from "./options.ts";
import { printed, type Table } from "./table.ts";

const benches = { invoke: benchInvoke, catalog: benchCatalog };

const values = benchOptions(Object.keys(benches));
const chosen = Object.entries(benches).filter(([name]) => values.only === undefined || values.only === name);
const loadBefore = loadavg()[0];
const { library, remove } = await builtLibrary();
const tables: Table[] = [];
try {
  if (!values.json) console.log(`${Object.entries(machine).flat().join(" ")}, load ${loadBefore}\n`);
  for (const [, bench] of chosen) {
    const made = await bench(library, values);
    tables.push(...made);
    if (!values.json) console.log(made.map(printed).join("\n"));
  }
} finally {
  remove();
}
const load = { before: loadBefore, after: loadavg()[0] };
console.log(values.json ? JSON.stringify({ machine, load, tables }, null, 2) : `load at the end ${load.after}`);
