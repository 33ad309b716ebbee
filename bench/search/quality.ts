import { short, type Table } from "../table.ts";
import { entriesOf } from "./corpus.ts";
import type { Data, Query, TestSet } from "./data.ts";
import { unionId } from "./data.ts";
import { judged, type Metrics, mean } from "./metrics.ts";
import { offTopic } from "./off-topic.ts";
import type { Ranker, Ranking } from "./ranker.ts";
import { sample } from "./sample.ts";

const DEPTH = 10;
/** Sets whose test queries have near-duplicates in their train parts. */
const LEAKY = ["azuremcp", "haintents"];

/** How well each ranker finds the relevant tools: among each set's own tools, and among all tools. */
export async function benchQuality(
  data: Data,
  rankers: readonly Ranker[],
  { quick }: { readonly quick: boolean },
): Promise<readonly Table[]> {
  const most = quick ? { own: 50, union: 8, tasks: 10 } : { own: 300, union: 30, tasks: 50 };
  const own = await onOwnTools(data, rankers, most);
  const union = await onUnion(data, rankers, most);
  const sampled = (count: number): string =>
    `Every ranker gets the same sample of at most ${short(count)} test queries per set.`;
  return [
    ...tables("among the set's own tools", own.figures, rankers, [sampled(most.own)]),
    ...tables("among all tools", union.figures, rankers, [
      `${short(data.union.length)} tools. ${sampled(most.union)} Some of the others take long here.`,
      "A usable tool of another set counts as wrong, so use these figures only to compare rankers.",
    ]),
    agentTable(own.agent, union.agent, rankers),
    ...(await offTopic(data, rankers)),
  ];
}

/** The maximum number of queries per set, and of tasks. */
interface Most {
  readonly own: number;
  readonly union: number;
  readonly tasks: number;
}

/** By row, by ranker. */
type Figures = ReadonlyMap<string, ReadonlyMap<string, Metrics>>;
type Shares = ReadonlyMap<string, ReadonlyMap<string, number>>;

interface Judged {
  readonly figures: Figures;
  readonly agent: Shares;
}

async function onOwnTools({ sets, agent }: Data, rankers: readonly Ranker[], most: Most): Promise<Judged> {
  const figures = new Map<string, Map<string, Metrics>>();
  const shares = new Map<string, Map<string, number>>();
  for (const set of sets) {
    const entries = entriesOf(set.tools);
    for (const ranker of rankers) {
      const ranking = await ranker.build(entries);
      for (const [row, queries] of rowsOf(set, most.own)) {
        put(figures, row, ranker.name, await metricsOf(ranking, queries, (id) => id));
      }
      const tasks = sample(tasksOf(set, agent), most.tasks);
      if (tasks.length > 0) put(shares, set.name, ranker.name, await agentShare(ranking, tasks, (id) => id));
      ranking.close?.();
    }
  }
  return { figures, agent: shares };
}

async function onUnion({ sets, union, agent }: Data, rankers: readonly Ranker[], most: Most): Promise<Judged> {
  const figures = new Map<string, Map<string, Metrics>>();
  const shares = new Map<string, Map<string, number>>();
  const entries = entriesOf(union);
  for (const ranker of rankers) {
    const ranking = await ranker.build(entries);
    for (const set of sets) {
      const idOf = (id: string): string => unionId(set.name, id);
      put(figures, set.name, ranker.name, await metricsOf(ranking, sample(testOf(set), most.union), idOf));
      const tasks = sample(tasksOf(set, agent), most.tasks);
      if (tasks.length > 0) put(shares, set.name, ranker.name, await agentShare(ranking, tasks, idOf));
    }
    ranking.close?.();
  }
  return { figures, agent: shares };
}

const testOf = ({ queries }: TestSet): readonly Query[] => queries.filter(({ split }) => split === "test");

function rowsOf(set: TestSet, most: number): readonly (readonly [string, readonly Query[]])[] {
  const heldOut = set.queries.filter(({ split_ht }) => split_ht === "test");
  return [
    [set.name, sample(testOf(set), most)],
    ...(LEAKY.includes(set.name) ? [[`${set.name}${HELD_OUT}`, sample(heldOut, most)] as const] : []),
  ];
}

const HELD_OUT = ", held-out tools";

async function metricsOf(ranking: Ranking, queries: readonly Query[], idOf: (id: string) => string): Promise<Metrics> {
  const all: Metrics[] = [];
  for (const { query, relevant } of queries) {
    all.push(judged(await ranking.rank(query, DEPTH), relevant.map(idOf)));
  }
  return mean(all);
}

interface Task {
  readonly searches: readonly string[];
  readonly relevant: readonly string[];
}

function tasksOf(set: TestSet, agent: Data["agent"]): readonly Task[] {
  const relevant = new Map(set.queries.map((query) => [query.id, query.relevant]));
  return agent
    .filter((task) => task.set === set.name)
    .flatMap(({ id, searches }) => {
      const tools = relevant.get(id);
      return tools === undefined ? [] : [{ searches, relevant: tools }];
    });
}

/** The share of a task's tools among the first five results of its search strings. */
async function agentShare(ranking: Ranking, tasks: readonly Task[], idOf: (id: string) => string): Promise<number> {
  let sum = 0;
  for (const { searches, relevant } of tasks) {
    const found = new Set<string>();
    for (const search of searches) for (const id of await ranking.rank(search, 5)) found.add(id);
    sum += relevant.filter((id) => found.has(idOf(id))).length / relevant.length;
  }
  return sum / tasks.length;
}

function put<T>(rows: Map<string, Map<string, T>>, row: string, column: string, value: T): void {
  const held = rows.get(row) ?? new Map<string, T>();
  rows.set(row, held.set(column, value));
}

const measures = [
  ["Recall@1", "recall1"],
  ["Recall@5", "recall5"],
  ["nDCG@10", "ndcg10"],
  ["MRR", "mrr"],
] as const;

function tables(
  where: string,
  figures: Figures,
  rankers: readonly Ranker[],
  notes: readonly string[] = [],
): readonly Table[] {
  const sets = [...figures.keys()].filter((row) => !row.endsWith(HELD_OUT));
  const macro = (name: string): Metrics => mean(sets.map((set) => at(figures, set, name)));
  const head = ["", ...rankers.map(({ name }) => name)];
  return [
    ...measures.map(([title, key]) => ({
      title: `search: ${title}, test queries ${where}, in percent`,
      head,
      rows: [
        ...[...figures.keys()].map((row) => [row, ...rankers.map(({ name }) => percent(at(figures, row, name)[key]))]),
        ["macro average of the sets", ...rankers.map(({ name }) => percent(macro(name)[key]))],
      ],
      notes,
    })),
  ];
}

function at(figures: Figures, row: string, column: string): Metrics {
  const found = figures.get(row)?.get(column);
  if (found === undefined) throw new Error(`no figures for ${row}, ${column}`);
  return found;
}

function agentTable(own: Shares, union: Shares, rankers: readonly Ranker[]): Table {
  const row = (shares: Shares, set: string): readonly string[] =>
    rankers.map(({ name }) => percent(shares.get(set)?.get(name) ?? Number.NaN));
  return {
    title:
      "search: what a model sends to a tool search (2 to 8 words), share of the task's tools among the first five, in percent",
    head: ["", ...rankers.map(({ name }) => name)],
    rows: [...own.keys()].flatMap((set) => [
      [`${set}, own tools`, ...row(own, set)],
      [`${set}, all tools`, ...row(union, set)],
    ]),
  };
}

export function percent(share: number): string {
  return Number.isFinite(share) ? (100 * share).toFixed(1) : "–";
}
