import { loadavg } from "node:os";
import { builtLibrary, type Library } from "./built.ts";
import { benchCatalog } from "./catalog.ts";
import { benchInvoke } from "./invoke.ts";
import { machine } from "./machine.ts";
import { benchOptions } from "./options.ts";
import { benchSize } from "./size.ts";
import { benchStart } from "./start.ts";
import { printed, type Table } from "./table.ts";
import { type BenchResult, type Target, targetTable } from "./targets.ts";

type Bench = (options: { readonly quick: boolean }, library: Library) => BenchResult | Promise<BenchResult>;
const benches: Record<string, Bench> = {
  invoke: benchInvoke,
  catalog: benchCatalog,
  start: benchStart,
  size: benchSize,
};

const values = benchOptions(Object.keys(benches));
const chosen = Object.entries(benches).filter(([name]) => values.only === undefined || values.only === name);
const loadBefore = loadavg()[0];
const { library, remove } = await builtLibrary();
const tables: Table[] = [];
const targets: Target[] = [];
const show = (...made: readonly Table[]): void => {
  tables.push(...made);
  if (!values.json) console.log(made.map(printed).join("\n"));
};
try {
  if (!values.json) console.log(`${Object.entries(machine).flat().join(" ")}, load ${loadBefore}\n`);
  for (const [, bench] of chosen) {
    const result = await bench(values, library);
    show(...result.tables);
    targets.push(...result.targets);
  }
} finally {
  remove();
}
show(
  targetTable(targets, [
    "The targets of the gateway are in `npm run bench:gateway`: calls per second, processor time of a call, the first",
    "tools/list, memory after many calls.",
  ]),
);
const load = { before: loadBefore, after: loadavg()[0] };
console.log(values.json ? JSON.stringify({ machine, load, tables }, null, 2) : `load at the end ${load.after}`);
