import MiniSearch from "minisearch";
import type { Action } from "../../src/index.ts";
import { heapInUse, ratio, type Sample } from "../measure.ts";
import { short, type Table, times } from "../table.ts";
import type { Lexical } from "./compiled.ts";
import { type Entry, entriesOf, textsOf } from "./corpus.ts";
import type { Data, Tool } from "./data.ts";
import { miniFields } from "./peers/minisearch.ts";
import { viewOf } from "./ranker.ts";
import { chance, sample } from "./sample.ts";
import { manyTools, someQueries } from "./synthetic.ts";

/** The cost of searching, building and storing an index compared to MiniSearch, and how it grows. */
export function benchSpeed(
  lexical: Lexical,
  data: Data | undefined,
  { quick }: { readonly quick: boolean },
): readonly Table[] {
  const sizes = quick ? [1_000, 10_000] : [1_000, 10_000, 100_000];
  const rounds = 3;
  const tools = manyTools(data?.union ?? [], Math.max(...sizes));
  const queries = queriesOf(data, tools, quick ? 60 : 120);
  const runs = sizes.map((size) => runOf(lexical, entriesOf(tools.slice(0, size)), queries, rounds));
  return [beside(runs), growth(runs)];
}

/** One third each: queries of models, short sentences, long sentences. */
function queriesOf(data: Data | undefined, tools: readonly Tool[], count: number): readonly string[] {
  if (data === undefined) return someQueries(tools, count);
  const third = Math.ceil(count / 3);
  const of = (set: string): readonly string[] =>
    data.sets.find(({ name }) => name === set)?.queries.map(({ query }) => query) ?? [];
  return [
    ...sample(
      data.agent.flatMap(({ searches }) => searches),
      third,
    ),
    ...sample(of("pieces"), third),
    ...sample(of("bfcl"), third),
  ];
}

/** One figure per round. */
interface Run {
  readonly size: number;
  readonly ours: Measured;
  readonly hiding: Measured;
  readonly mini: Measured;
}

interface Measured {
  readonly p50: Sample;
  readonly p99: Sample;
  readonly build: Sample;
  /** Bytes per action. */
  readonly memory: number;
}

interface Contender {
  build(): (query: string) => void;
}

function runOf(
  { createLexicalIndex, createHitOrder }: Lexical,
  entries: readonly Entry[],
  queries: readonly string[],
  rounds: number,
): Run {
  const actions = entries.map(({ action }) => action);
  const next = chance(11);
  const hidden = new Set<Action>(actions.filter(() => next() < 1 / 3));
  const order = createHitOrder();
  const texts = entries.map(({ action }, id) => ({ id, ...textsOf(action) }));
  const searchingWith = (hide: ReadonlySet<Action>) => (): ((query: string) => void) => {
    const index = createLexicalIndex(actions);
    const view = viewOf(actions, hide);
    return (query) => void index.search(query, view, { limit: 10, order });
  };
  const contenders: Record<"ours" | "hiding" | "mini", Contender> = {
    ours: { build: searchingWith(new Set()) },
    hiding: { build: searchingWith(hidden) },
    mini: {
      build() {
        const index = new MiniSearch({ fields: miniFields });
        index.addAll(texts);
        return (query) => void index.search(query).slice(0, 10);
      },
    },
  };
  const measured = measureAll(contenders, queries, rounds, actions.length);
  return { size: actions.length, ...measured };
}

function measureAll<Name extends string>(
  contenders: Record<Name, Contender>,
  queries: readonly string[],
  rounds: number,
  size: number,
): Record<Name, Measured> {
  const names = Object.keys(contenders) as Name[];
  const built = names.map((name) => buildOf(contenders[name], rounds, size));
  const times = names.map(() => ({ p50: [] as number[], p99: [] as number[] }));
  for (let round = -1; round < rounds; round++) {
    const taken = names.map(() => [] as number[]);
    // Query by query, so that other load on the machine affects all of them.
    for (const query of queries) {
      for (const [at] of names.entries()) {
        const start = performance.now();
        built[at]?.search(query);
        taken[at]?.push(performance.now() - start);
      }
    }
    if (round < 0) continue;
    for (const [at, figures] of taken.entries()) {
      const sorted = figures.toSorted((a, b) => a - b);
      times[at]?.p50.push(sorted[Math.floor(sorted.length * 0.5)] ?? Number.NaN);
      times[at]?.p99.push(sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN);
    }
  }
  return Object.fromEntries(
    names.map((name, at) => [
      name,
      {
        p50: sampleOf(times[at]?.p50 ?? []),
        p99: sampleOf(times[at]?.p99 ?? []),
        build: sampleOf(built[at]?.took ?? []),
        memory: built[at]?.memory ?? Number.NaN,
      },
    ]),
  ) as Record<Name, Measured>;
}

function buildOf({ build }: Contender, rounds: number, size: number) {
  const took: number[] = [];
  // The first build warms up. After that, memory is measured without the garbage of earlier builds.
  let search = build();
  for (let round = 0; round < rounds; round++) {
    const start = performance.now();
    search = build();
    took.push(performance.now() - start);
  }
  search = () => undefined;
  const before = memoryInUse();
  search = build();
  search("warm");
  return { search, took, memory: (memoryInUse() - before) / size };
}

/** Includes typed arrays, which are outside the heap. */
function memoryInUse(): number {
  return heapInUse() + process.memoryUsage().arrayBuffers;
}

function sampleOf(figures: readonly number[]): Sample {
  return figures.map((figure) => ({ clock: figure, processor: figure }));
}

function beside(runs: readonly Run[]): Table {
  const row = (name: string, of: (run: Run) => readonly [Sample, Sample]) => [
    name,
    ...runs.map((run) => {
      const [a, b] = of(run);
      return times(ratio(a, b, "clock"));
    }),
  ];
  return {
    title: "search: time compared to MiniSearch with its defaults (x1 is equal)",
    head: ["", ...runs.map(({ size }) => short(size))],
    rows: [
      row("a search, p50", ({ ours, mini }) => [ours.p50, mini.p50]),
      row("a search, p99", ({ ours, mini }) => [ours.p99, mini.p99]),
      row("a search with a third hidden, p50", ({ hiding, mini }) => [hiding.p50, mini.p50]),
      row("a search with a third hidden, p99", ({ hiding, mini }) => [hiding.p99, mini.p99]),
      row("building the index", ({ ours, mini }) => [ours.build, mini.build]),
      ["memory an action", ...runs.map(({ ours, mini }) => times(only(ours.memory / mini.memory)))],
    ],
    notes: [
      "The actions themselves are not counted. The queries are one third each: queries of models, short sentences, long sentences.",
    ],
  };
}

function growth(runs: readonly Run[]): Table {
  const steps = runs.slice(1).map((run, index) => [runs[index] ?? run, run] as const);
  const row = (name: string, of: (run: Run) => Sample) => [
    name,
    ...steps.map(([small, large]) => times(ratio(of(large), of(small), "clock"))),
  ];
  return {
    title: "search: cost for ten times as many actions (x1 is constant, x10 is linear)",
    head: ["", ...steps.map(([small, large]) => `${short(small.size)} → ${short(large.size)}`)],
    rows: [
      row("ours: a search, p50", ({ ours }) => ours.p50),
      row("ours: a search, p99", ({ ours }) => ours.p99),
      row("ours: building", ({ ours }) => ours.build),
      ["ours: memory an action", ...steps.map(([small, large]) => times(only(large.ours.memory / small.ours.memory)))],
      row("MiniSearch: a search, p50", ({ mini }) => mini.p50),
      row("MiniSearch: a search, p99", ({ mini }) => mini.p99),
      row("MiniSearch: building", ({ mini }) => mini.build),
      [
        "MiniSearch: memory an action",
        ...steps.map(([small, large]) => times(only(large.mini.memory / small.mini.memory))),
      ],
    ],
  };
}

const only = (figure: number) => ({ median: figure, min: figure, max: figure });
