import { loadavg } from "node:os";
import { builtLibrary } from "../built.ts";
import { machine } from "../machine.ts";
import { measure, ratio, type Sample, spreadOf } from "../measure.ts";
import { benchOptions } from "../options.ts";
import { micros, printed, short, type Table, times } from "../table.ts";
import { arrays } from "./arrays.ts";
import { byHand } from "./by-hand.ts";
import { ours } from "./ours.ts";
import { recordsOf } from "./records.ts";
import { type Side, tasks } from "./side.ts";

const { only, quick, json } = benchOptions(tasks);
const sizes = quick ? [1_000, 10_000] : [1_000, 10_000, 100_000];
const chosen = tasks.filter((task) => only === undefined || only === task);

const loadBefore = loadavg()[0];
if (!json) console.log(`${Object.entries(machine).flat().join(" ")}, load ${loadBefore}\n`);
const { library, remove } = await builtLibrary();
const samples = new Map<string, Sample>();
try {
  for (const size of sizes) {
    const records = recordsOf(size);
    const sides: readonly Side[] = [await ours(library, records), await byHand(records), arrays(records)];
    try {
      const contenders = sides.flatMap((side) =>
        chosen.map((task) => ({
          name: key(side.name, task, size),
          calls: 1,
          run: async () => {
            const found = await side[task]();
            // All sides must return the same count, so that none is faster by doing less.
            if (found !== records.expected[task])
              throw new Error(`${side.name} ${task}: ${found} of ${records.expected[task]}`);
          },
        })),
      );
      for (const [name, sample] of await measure(contenders, quick ? 3 : 5)) samples.set(name, sample);
    } finally {
      for (const side of sides) await side.close();
    }
  }
} finally {
  remove();
}

const against = (other: string): Table => ({
  title: `Time compared to ${other}`,
  head: ["", ...sizes.map((size) => `${short(size)} notes`)],
  rows: chosen.map((task) => [
    task,
    ...sizes.map((size) => times(ratio(sampleOf("infospace", task, size), sampleOf(other, task, size), "clock"))),
  ]),
});
const growth: Table = {
  title: "Growth: the time for the smallest size, and its multiples for more notes",
  head: [
    "",
    `${short(sizes[0] ?? 0)} notes`,
    ...sizes.slice(1).map((size) => `x${short(size / (sizes[0] ?? 1))} notes`),
  ],
  rows: chosen.map((task) => [
    task,
    micros(spreadOf(sampleOf("infospace", task, sizes[0] ?? 0), "clock")),
    ...sizes
      .slice(1)
      .map((size) =>
        times(ratio(sampleOf("infospace", task, size), sampleOf("infospace", task, sizes[0] ?? 0), "clock")),
      ),
  ]),
};
const tables = [against("arrays"), against("SQLite by hand"), growth];
const load = { before: loadBefore, after: loadavg()[0] };
console.log(
  json
    ? JSON.stringify({ machine, load, tables }, null, 2)
    : `${tables.map(printed).join("\n")}\nload at the end ${load.after}`,
);

function key(side: string, task: string, size: number): string {
  return `${side} ${task} ${size}`;
}

function sampleOf(side: string, task: string, size: number): Sample {
  return samples.get(key(side, task, size)) ?? [];
}
