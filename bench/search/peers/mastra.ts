import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { type Entry, textsOf } from "../corpus.ts";
import type { Ranker, Ranking } from "../ranker.ts";

const folder = fileURLToPath(new URL("../../peers/", import.meta.url));
const entry = join(folder, "node_modules", "@mastra", "core", "dist", "processors", "index.js");

/** The part of the package that is used: its tool search, through the tool for models. */
interface Processors {
  readonly ToolSearchProcessor: new (options: {
    tools: Record<string, { id: string; description: string }>;
    search: { topK: number };
  }) => {
    processInputStep(step: object): Promise<{ tools: { search_tools: { execute: Execute } } }>;
  };
}
type Execute = (input: { query: string }, context: object) => Promise<{ results: readonly { name: string }[] }>;

/** Mastra's `ToolSearchProcessor`, or an empty list and a printed reason. It is large, so it is installed on first use. */
export async function mastra(say: (line: string) => void): Promise<readonly Ranker[]> {
  if (!existsSync(entry)) {
    say("installing @mastra/core into bench/peers, once (about 130 MB) …");
    const { status, stderr } = spawnSync("npm", ["ci", "--no-audit", "--no-fund"], { cwd: folder, encoding: "utf8" });
    if (status !== 0 || !existsSync(entry)) {
      say(`skipped Mastra: npm ci in bench/peers failed. ${stderr.trim().split("\n").at(-1) ?? ""}`);
      return [];
    }
  }
  try {
    const processors = (await import(pathToFileURL(entry).href)) as Processors;
    return [{ name: "Mastra ToolSearchProcessor", build: (entries) => searching(processors, entries) }];
  } catch (thrown) {
    say(`skipped Mastra: it could not be loaded. ${thrown}`);
    return [];
  }
}

async function searching({ ToolSearchProcessor }: Processors, entries: readonly Entry[]): Promise<Ranking> {
  const ids = new Map(entries.map(({ id, action }) => [action.name as string, id]));
  const tools = Object.fromEntries(
    entries.map(({ action }) => {
      const { name, server, description, parameters } = textsOf(action);
      return [action.name, { id: action.name, description: `${name} ${server} ${description} ${parameters}` }];
    }),
  );
  // It scans all tools ten times a search. More results would only cost more.
  const processor = new ToolSearchProcessor({ tools, search: { topK: 10 } });
  const messageList = { addSystem: () => undefined };
  const { tools: given } = await processor.processInputStep({ tools: {}, messageList, messages: [], stepNumber: 0 });
  return {
    async rank(query, limit) {
      const { results } = await given.search_tools.execute({ query }, {});
      return results.slice(0, limit).map(({ name }) => ids.get(name) ?? "");
    },
  };
}
