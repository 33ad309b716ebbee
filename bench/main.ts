import { availableParallelism, cpus, loadavg, totalmem } from "node:os";
import { parseArgs } from "node:util";
import { builtLibrary } from "./built.ts";
import { benchCatalog } from "./catalog.ts";
import { benchInvoke } from "./invoke.ts";
import { printed, type Table } from "./table.ts";

const benches = { invoke: benchInvoke, catalog: benchCatalog };

const { values } = parseArgs({
  options: {
    only: { type: "string" },
    quick: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});
const chosen = Object.entries(benches).filter(([name]) => values.only === undefined || values.only === name);
if (chosen.length === 0) throw new Error(`--only is one of ${Object.keys(benches).join(", ")}`);

const machine = {
  node: process.version,
  processor: cpus()[0]?.model ?? "unknown",
  cores: availableParallelism(),
  memoryGiB: Math.round(totalmem() / 2 ** 30),
};
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
