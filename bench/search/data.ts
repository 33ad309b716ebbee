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
  readonly split_ht: string;
}

export interface TestSet {
  readonly name: string;
  readonly tools: readonly Tool[];
  readonly queries: readonly Query[];
}

/** What a model sent to a tool search for a task of a set. */
export interface AgentTask {
  readonly set: string;
  readonly id: string;
  readonly searches: readonly string[];
}

export interface Data {
  readonly sets: readonly TestSet[];
  /** Tools without queries, each with an id of its own. */
  readonly others: readonly Tool[];
  readonly agent: readonly AgentTask[];
}

/** Where the data is looked for; it is not part of the project. */
export const dataFolder =
  process.env.QM_BENCH_DATA ?? fileURLToPath(new URL("../../../shared/bench/", import.meta.url));

/** Undefined when it is not there. */
export function readData(): Data | undefined {
  const folder = join(dataFolder, "sets");
  if (!existsSync(folder)) return undefined;
  const sets = readdirSync(folder).sort().map((name) => ({
    name,
    tools: lines<Tool>(join(folder, name, "tools.jsonl.gz")),
    queries: lines<Query>(join(folder, name, "queries.jsonl.gz")),
  }));
  const catalogs = join(dataFolder, "catalog");
  const others = !existsSync(catalogs)
    ? []
    : readdirSync(catalogs).sort().flatMap((file) => lines<Tool>(join(catalogs, file)).map((tool) => prefixed(basename(file, ".jsonl.gz"), tool)));
  const agent = join(dataFolder, "agent", "queries.jsonl");
  return { sets, others, agent: existsSync(agent) ? lines<AgentTask>(agent) : [] };
}

/** With an id that says which set it is of, as every id does in the union. */
export function prefixed(set: string, tool: Tool): Tool {
  return { ...tool, id: unionId(set, tool.id) };
}

export const unionId = (set: string, id: string): string => `${set}::${id}`;

function lines<T>(path: string): readonly T[] {
  const bytes = readFileSync(path);
  const text = path.endsWith(".gz") ? gunzipSync(bytes).toString() : bytes.toString();
  return text.split("\n").filter(Boolean).map((line) => JSON.parse(line) as T);
}
