import { loadavg } from "node:os";
import { benchOptions } from "../options.ts";
import { printed, type Table } from "../table.ts";
import { benchAnswers } from "./answers.ts";
import { compiledLexical } from "./compiled.ts";
import { dataFolder, readData } from "./data.ts";
import { benchQuality } from "./quality.ts";
import { rankers } from "./rankers.ts";
import { benchSpeed } from "./speed.ts";

const { only, quick, json } = benchOptions(["answers", "quality", "speed"]);

const notes: string[] = [];
const say = (line: string): void => {
  notes.push(line);
  if (!json) console.log(line);
};
const tables: Table[] = [];
const show = (made: readonly Table[]): void => {
  tables.push(...made);
  if (!json) console.log(made.map(printed).join("\n"));
};

const loadBefore = loadavg()[0];
const data = readData();
const { lexical, remove } = await compiledLexical();
try {
  if (data === undefined) {
    say(
      `no quality figures: ${dataFolder} has no sets/<name>/{tools,queries}.jsonl.gz (set QM_BENCH_DATA to another folder)`,
    );
  } else {
    if (only === undefined || only === "answers") show(await benchAnswers(data));
    if (only === undefined || only === "quality")
      show(await benchQuality(data, await rankers(lexical, say), { quick }));
  }
  if (only === undefined || only === "speed") show(benchSpeed(lexical, data, { quick }));
} finally {
  remove();
}
const load = { before: loadBefore, after: loadavg()[0] };
console.log(
  json
    ? JSON.stringify({ node: process.version, load, notes, tables }, null, 2)
    : `load ${load.before} at the beginning, ${load.after} at the end`,
);
