import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Client as OldClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as OldStdioTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as OldHttpTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { JsonObject } from "../src/core/json.ts";
import { describeEnd, runChild } from "./child.ts";
import { createTestUser, NotTriedError, type TestUser } from "./packed-command.ts";
import { startServing, useFreePort } from "./serving.ts";

const GUIDE = join(import.meta.dirname, "../docs/guides/use-with-your-client.md");
const LIMIT_MS = 120_000;
const FOUND_MS = 30_000;
const ASK_AGAIN_MS = 500;

/** One question for each reference server, the action that must be found, and a call of it. */
const listQuestions = (home: string) => [
  { query: "read the whole knowledge graph", action: "mcp__memory__read_graph", args: {}, result: "entities" },
  { query: "echo the input back", action: "mcp__everything__echo", args: { message: "Good day" }, result: "Good day" },
  { query: "list allowed directories", action: "mcp__filesystem__list_allowed_directories", args: {}, result: home },
  {
    query: "think step by step about a problem",
    action: "mcp__sequential-thinking__sequentialthinking",
    args: { thought: "One.", nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 },
    result: "thoughtNumber",
  },
];

type Question = ReturnType<typeof listQuestions>[number];
type ReportRow = (what: string, problem?: string) => void;

interface ToolClient {
  listTools(): Promise<{ readonly tools: readonly { readonly name: string }[] }>;
  callTool(call: { readonly name: string; readonly arguments: JsonObject }): Promise<unknown>;
  close(): Promise<void>;
}

/**
 * Does what the guide tells a new user of Claude Code with four servers: runs the commands of the page, and connects with
 * the entries that they wrote.
 */
export async function checkGuide(folder: string, qmBin: string, report: ReportRow): Promise<void> {
  const user = await createTestUser(folder, [qmBin]);
  await writeFile(join(user.home, ".claude.json"), JSON.stringify({ mcpServers: listServers(user.home) }, null, 2));
  const page = await readFile(GUIDE, "utf8");
  await runCommands(user, listCommands(page, "# Use it with your client"), report);
  const { mcpServers } = JSON.parse(await readFile(join(user.home, ".claude.json"), "utf8"));
  const { command, args } = mcpServers.qm;
  // Clients have another environment than the user's shell.
  const server = { command, args, env: { HOME: user.home }, cwd: user.home };
  await checkTools("SDK 1.x, stdio", () => connectOld(new OldStdioTransport(server)), user, report);
  await checkTools("SDK 2.x, stdio", () => connectNew(new StdioClientTransport(server)), user, report);

  await useFreePort(user);
  const [serve, ...more] = listCommands(page, "## Over HTTP");
  const serving = await startServing(user, serve ?? "");
  try {
    await runCommands(user, more, report);
    const { url, headers } = JSON.parse(await readFile(join(user.home, ".cursor/mcp.json"), "utf8")).mcpServers.qm;
    const options = { requestInit: { headers } };
    const old = () => connectOld(new OldHttpTransport(new URL(url), options));
    await checkTools("SDK 1.x, HTTP", old, user, report);
    const modern = () => connectNew(new StreamableHTTPClientTransport(new URL(url), options));
    await checkTools("SDK 2.x, HTTP", modern, user, report);
  } finally {
    serving.kill();
  }
}

function listServers(home: string) {
  const { resolve } = createRequire(import.meta.url);
  const entry = (name: string, ...args: readonly string[]) => ({
    command: process.execPath,
    args: [resolve(`@modelcontextprotocol/server-${name}/dist/index.js`), ...args],
  });
  return {
    memory: { ...entry("memory"), env: { MEMORY_FILE_PATH: join(home, "memory.jsonl") } },
    everything: entry("everything"),
    filesystem: entry("filesystem", home),
    "sequential-thinking": entry("sequential-thinking"),
  };
}

/** The commands in the first block after a heading: lines that begin with `$`, without their comments. */
function listCommands(page: string, heading: string): readonly string[] {
  const block = page.slice(page.indexOf(`${heading}\n`)).split("```")[1] ?? "";
  const commands = [...block.matchAll(/^\$ (qm .*?)(?: +#.*)?$/gm)].map(([, command = ""]) => command);
  if (commands.length === 0) throw new Error(`the guide has no commands under ${heading}`);
  return commands;
}

/** Runs commands at a terminal, takes the default of `qm init` and agrees to everything else. */
async function runCommands({ work, env }: TestUser, commands: readonly string[], report: ReportRow): Promise<void> {
  for (const command of commands) {
    const options = { cwd: work, env, limitMs: LIMIT_MS, input: command.startsWith("qm init") ? "\n" : "y\n" };
    const ended = await runChild("script", ["--quiet", "--return", "--command", command, "/dev/null"], options);
    if (typeof ended.code === "string" && ended.code.includes("ENOENT"))
      throw new NotTriedError("there is no `script`, which opens a terminal");
    report(command, ended.code === 0 ? undefined : describeEnd(command, ended));
  }
}

async function connectOld(transport: OldStdioTransport | OldHttpTransport): Promise<ToolClient> {
  const client = new OldClient({ name: "old", version: "1" });
  // Its types do not compile with our strict settings.
  await client.connect(transport as never);
  return client as never;
}

async function connectNew(transport: StdioClientTransport | StreamableHTTPClientTransport): Promise<ToolClient> {
  const client = new Client({ name: "new", version: "1" }, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
  await client.connect(transport);
  return client as ToolClient;
}

async function checkTools(name: string, connect: () => Promise<ToolClient>, { home }: TestUser, report: ReportRow) {
  try {
    const client = await connect();
    const { tools } = await client.listTools();
    const hasTools = ["search_actions", "invoke_action"].every((tool) => tools.some((each) => each.name === tool));
    report(`${name}: lists the tools`, hasTools ? undefined : JSON.stringify(tools));
    const end = Date.now() + FOUND_MS;
    for (const question of listQuestions(home)) {
      const found = await waitForAction(client, question, end);
      report(`${name}: finds ${question.action}`, found.includes(question.action) ? undefined : found);
      const called = await callTool(client, "invoke_action", { action_name: question.action, args: question.args });
      report(`${name}: calls ${question.action}`, called.includes(question.result) ? undefined : called);
    }
    await client.close();
  } catch (thrown) {
    report(name, String(thrown));
  }
}

/** Servers are asked in the background, so an action may be found only after a while. Returns the last answer. */
async function waitForAction(client: ToolClient, { query, action }: Question, end: number): Promise<string> {
  for (;;) {
    const answer = await callTool(client, "search_actions", { query });
    if (answer.includes(action) || Date.now() > end) return answer;
    await delay(ASK_AGAIN_MS);
  }
}

async function callTool(client: ToolClient, name: string, args: JsonObject): Promise<string> {
  return JSON.stringify(await client.callTool({ name, arguments: args }));
}
