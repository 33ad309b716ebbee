import { tool as langchainTool } from "@langchain/core/tools";
import { Client, InMemoryTransport } from "@modelcontextprotocol/client";
import { McpServer } from "@modelcontextprotocol/server";
import { DatabaseSync } from "@photostructure/sqlite";
import { generateText, type LanguageModel, tool as sdkTool } from "ai";
import { z } from "zod";

/** The tool that every contender runs. */
export const input = z.object({ a: z.number(), b: z.number() });
export const inputJson = {
  type: "object",
  properties: { a: { type: "number" }, b: { type: "number" } },
  required: ["a", "b"],
  additionalProperties: false,
} as const;
export const description = "Adds two numbers.";
export const args = { a: 2, b: 3 };

export async function add({ a, b }: z.output<typeof input>): Promise<{ sum: number }> {
  return { sum: a + b };
}

/** One call of the tool through a library's own path. Rejects unless the tool ran. */
export type Call = () => Promise<unknown>;

export const langchainZod = (): Call => {
  const made = langchainTool(add, { name: "add", description, schema: input });
  return () => made.invoke(args);
};

export const langchainJson = (): Call => {
  const made = langchainTool((given) => add(given as typeof args), { name: "add", description, schema: inputJson });
  return () => made.invoke(args);
};

/** `step` is one step of `generateText` in which the model makes `calls` calls. `bare` is a step answered with text. */
export function aiSdk(calls: number): { readonly step: Call; readonly bare: Call } {
  const tools = { add: sdkTool({ description, inputSchema: input, execute: add }) };
  const asked = Array.from({ length: calls }, (_, index) => ({
    type: "tool-call" as const,
    toolCallId: String(index),
    toolName: "add",
    input: JSON.stringify(args),
  }));
  const calling = modelThatAnswers("tool-calls", asked);
  const talking = modelThatAnswers("stop", [{ type: "text", text: "5" }]);
  const prompt = "2 + 3?";
  return {
    async step() {
      const { toolResults } = await generateText({ model: calling, tools, prompt });
      if (toolResults.length !== calls) throw new Error("the AI SDK did not run the tool");
    },
    bare: () => generateText({ model: talking, tools, prompt }),
  };
}

type Model = Extract<LanguageModel, { specificationVersion: "v3" }>;
type Generated = Awaited<ReturnType<Model["doGenerate"]>>;

// Not the package's own mock, which stores every request.
function modelThatAnswers(reason: Generated["finishReason"]["unified"], content: Generated["content"]): Model {
  const answer: Generated = {
    content,
    finishReason: { unified: reason, raw: undefined },
    usage: {
      inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: 1, text: 1, reasoning: 0 },
    },
    warnings: [],
  };
  return {
    specificationVersion: "v3",
    provider: "bench",
    modelId: "bench",
    supportedUrls: {},
    doGenerate: async () => answer,
    doStream: () => Promise.reject(new Error("not streamed here")),
  };
}

/** Client and server in this process, connected by a transport that passes objects without serializing them. */
export async function mcp(): Promise<{ readonly call: Call; close(): Promise<void> }> {
  const server = new McpServer({ name: "bench", version: "1.0.0" });
  server.registerTool("add", { description, inputSchema: input }, async (given) => ({
    content: [{ type: "text", text: JSON.stringify(await add(given)) }],
  }));
  const client = new Client({ name: "bench", version: "1.0.0" });
  const [here, there] = InMemoryTransport.createLinkedPair();
  await server.connect(there);
  await client.connect(here);
  return {
    async call() {
      const { isError } = await client.callTool({ name: "add", arguments: args });
      if (isError) throw new Error("the MCP server did not run the tool");
    },
    close: () => client.close(),
  };
}

/** The minimum cost of recording: the handler, and three rows written to a file with plain SQL. */
export function recordedByHand(path: string): { readonly call: Call; readonly close: () => void } {
  const db = new DatabaseSync(path);
  db.exec("pragma journal_mode = wal; pragma synchronous = normal");
  db.exec("create table events (id integer primary key, session text, seq integer, data text, unique (session, seq))");
  const begin = db.prepare("begin immediate");
  const insert = db.prepare("insert into events (session, seq, data) values (?, ?, ?)");
  const commit = db.prepare("commit");
  let seq = 0;
  const call = async (): Promise<void> => {
    const { sum } = await add(args);
    begin.run();
    for (const step of ["received", "decided", "ended"])
      insert.run("local", ++seq, JSON.stringify({ step, args, sum }));
    commit.run();
  };
  return { call, close: () => db.close() };
}
