import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { summarizeAction } from "../../src/core/action.ts";
import type { Action } from "../../src/index.ts";
import { createCatalogSearch } from "../../src/search/search.ts";
import { formatHits, formatNotes } from "../../src/surface/search-results.ts";
import type { Table } from "../table.ts";
import { type Entry, entriesOf } from "./corpus.ts";
import { type AgentTask, type Data, unionId } from "./data.ts";
import { percent } from "./quality.ts";
import { viewOf } from "./ranker.ts";

/** The part of a sentence that an answer must have: a longer one is cut at a word before the hundredth character. */
const SENTENCE = 80;

/** What a model learns from the default answer to each of its search strings, among the set's own tools and among all. */
export async function benchAnswers({ sets, union, agent }: Data): Promise<readonly Table[]> {
  const rows: string[][] = [];
  const all = entriesOf(union);
  for (const { name, tools, queries } of sets) {
    const relevant = new Map(queries.map(({ id, relevant }) => [id, relevant]));
    const tasks = agent.filter((task) => task.set === name && relevant.has(task.id));
    if (tasks.length === 0) continue;
    const measure = async (entries: readonly Entry[], toId: (id: string) => string) =>
      measureAnswers(entries, tasks, ({ id }) => new Set(relevant.get(id)?.map(toId)));
    rows.push([`${name}, own tools`, ...(await measure(entriesOf(tools), (id) => id))]);
    rows.push([`${name}, all tools`, ...(await measure(all, (id) => unionId(name, id)))]);
  }
  return [
    {
      title: "search: default answers to what a model sends to a tool search",
      head: ["", "found %", "actionable %", "hits", "tokens, median", "95 %", "most"],
      rows,
      notes: [
        "found: a relevant tool is in the answer. actionable: with its first sentence and all required arguments.",
        "Each search string counts alone, by words. Tokens are o200k.",
      ],
    },
  ];
}

async function measureAnswers(
  entries: readonly Entry[],
  tasks: readonly AgentTask[],
  getRelevant: (task: AgentTask) => ReadonlySet<string>,
): Promise<readonly string[]> {
  const byName = new Map(entries.map((entry) => [entry.action.name as string, entry]));
  const search = createCatalogSearch({ maxResults: 20, preferredNamespaces: [], onPrepared: () => undefined });
  const view = viewOf(entries.map(({ action }) => action));
  const tokens: number[] = [];
  let [found, actionable, hits] = [0, 0, 0];
  for (const task of tasks) {
    const relevant = getRelevant(task);
    for (const query of task.searches) {
      const result = await search(view, { query });
      const { items, text } = formatHits(result.hits, formatNotes("Nothing available", result));
      const right = items.flatMap(({ name }) => {
        const entry = byName.get(name);
        return entry !== undefined && relevant.has(entry.id) ? [entry.action] : [];
      });
      const lines = text.split("\n");
      if (right.length > 0) found++;
      if (right.some((action) => lines.some((line) => isActionable(line, action)))) actionable++;
      hits += items.length;
      tokens.push(countTokens(text));
    }
  }
  tokens.sort((a, b) => a - b);
  const at = (share: number): string => String(tokens[Math.min(tokens.length - 1, Math.floor(share * tokens.length))]);
  const mean = (hits / tokens.length).toFixed(1);
  return [percent(found / tokens.length), percent(actionable / tokens.length), mean, at(0.5), at(0.95), at(1)];
}

/** Reads the line as a model does, not the fields that it was made of. */
function isActionable(line: string, action: Action): boolean {
  const { required } = action.inputSchema;
  const names = Array.isArray(required) ? required : [];
  const sentence = summarizeAction(action).replaceAll(/\s+/g, " ").trim();
  const shown = sentence.length <= 100 ? sentence : sentence.slice(0, SENTENCE);
  const [signature = ""] = line.startsWith(`${action.name}(`) ? line.slice(action.name.length).split(") [", 1) : [];
  return signature !== "" && line.includes(shown) && names.every((name) => signature.includes(`${name}: `));
}
