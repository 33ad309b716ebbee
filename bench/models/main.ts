import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { loadTokenCounter } from "../../src/surface/open-surface.ts";
import { dataFolder, readData } from "../search/data.ts";
import { printed } from "../table.ts";
import { type Cell, modelNames, runCells, schemes } from "./cells.ts";
import { measureCell, measureRecoveries, toCellTable, toRecoveryTable } from "./tables.ts";
import { createCatalogTasks, createFileTasks, mixTasks } from "./tasks.ts";

const { values } = parseArgs({
  options: {
    n: { type: "string", default: "100" },
    seed: { type: "string", default: "1" },
    only: { type: "string" },
    json: { type: "boolean", default: false },
  },
});
const [n, seed] = [Number(values.n), Number(values.seed)];
if (!Number.isInteger(n) || n < 1 || n > 1000 || !Number.isInteger(seed))
  throw new Error("--n is a number of tasks, 1 to 1000, and --seed a whole number");

const all: readonly Cell[] = (["strong", "light"] as const).flatMap((tier) =>
  (Object.keys(schemes) as Cell["scheme"][]).flatMap((scheme) =>
    modelNames
      // The strong model needs no help. The other failures are compared on the universal surface.
      .filter(
        (model) => tier === "strong" || model === "weak" || (model !== "strong" && scheme.startsWith("universal")),
      )
      .map((model) => ({ scheme, model, tier })),
  ),
);
const { only } = values;
const cells = all.filter(
  ({ scheme, model, tier }) => only === undefined || [scheme, model, tier].includes(only as never),
);
if (cells.length === 0) throw new Error("--only is a scheme, a model or a tier of the table");

const data = readData();
const { actions, tasks } = data === undefined ? { actions: [], tasks: [] } : createCatalogTasks(data);
if (data === undefined)
  console.error(`only tasks with files: ${dataFolder} has no sets/<name>/{tools,queries}.jsonl.gz (set QM_BENCH_DATA)`);

const root = mkdtempSync(join(tmpdir(), "qm-bench-models-"));
try {
  const mixed = mixTasks(tasks, createFileTasks(root, n), n);
  console.error(`${cells.length} cells of ${mixed.length} tasks, ${actions.length} tools beside the file actions`);
  const world = { actions, tasks: mixed, root, seed, countTokens: await loadTokenCounter() };
  let at = 0;
  const runs = await runCells(world, cells, ({ scheme, model, tier }) => {
    console.error(`${++at}/${cells.length} ${scheme}, ${model}, ${tier}`);
  });
  const [figures, recoveries] = [runs.map(measureCell), measureRecoveries(runs)];
  if (values.json) console.log(JSON.stringify({ simulated: true, n, seed, cells: figures, recoveries }, null, 2));
  else
    console.log(
      [toCellTable(figures), ...(recoveries.length === 0 ? [] : [toRecoveryTable(recoveries)])].map(printed).join("\n"),
    );
} finally {
  rmSync(root, { recursive: true, force: true });
}
