import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";

/** A tool as its source describes it. */
export interface Tool {
  readonly id: string;
  readonly name: string;
  readonly description?: string;
  readonly title?: string;
  readonly server?: string;
  readonly category?: string;
  readonly inputSchema?: unknown;
}

export interface Query {
  readonly id: string;
  readonly query: string;
  readonly relevant: readonly string[];
  readonly split: string;
  /** `test` only when none of its tools has a query in another split. */
  readonly split_ht: string;
}

export interface TestSet {
  readonly name: string;
  readonly tools: readonly Tool[];
  readonly queries: readonly Query[];
}

/** The queries that a model sent to a tool search, knowing only the task. */
export interface AgentTask {
  readonly set: string;
  readonly id: string;
  readonly searches: readonly string[];
}

export interface Data {
  readonly sets: readonly TestSet[];
  /** The tools of all sets and of catalogs without queries, with ids from `unionId`. */
  readonly union: readonly Tool[];
  readonly agent: readonly AgentTask[];
}

/** The folder of the data, which is not part of the project. */
export const dataFolder =
  process.env.QM_BENCH_DATA ?? fileURLToPath(new URL("../../../shared/bench/", import.meta.url));

/** Undefined if the data is missing. */
export function readData(): Data | undefined {
  const folder = join(dataFolder, "sets");
  if (!existsSync(folder)) return undefined;
  const sets = filesIn(folder).map((name) => ({
    name,
    tools: lines<Tool>(join(folder, name, "tools.jsonl.gz")),
    queries: lines<Query>(join(folder, name, "queries.jsonl.gz")),
  }));
  const catalogs = filesIn(join(dataFolder, "catalog")).map((file) => ({
    name: basename(file, ".jsonl.gz"),
    tools: lines<Tool>(join(dataFolder, "catalog", file)),
  }));
  const union = [...sets, ...catalogs].flatMap(({ name, tools }) =>
    tools.map((tool) => ({ ...tool, id: unionId(name, tool.id) })),
  );
  const agent = join(dataFolder, "agent", "queries.jsonl");
  return { sets, union, agent: existsSync(agent) ? lines<AgentTask>(agent) : [] };
}

export const unionId = (set: string, id: string): string => `${set}::${id}`;

function filesIn(folder: string): readonly string[] {
  return existsSync(folder) ? readdirSync(folder).sort() : [];
}

function lines<T>(path: string): readonly T[] {
  const bytes = readFileSync(path);
  const text = path.endsWith(".gz") ? gunzipSync(bytes).toString() : bytes.toString();
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as T);
}
