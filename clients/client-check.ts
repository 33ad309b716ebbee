import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { isRecord } from "../src/core/json.ts";
import { type ChildResult, describeEnd, runChild } from "./child.ts";
import { createTestUser, installPackages, type TestUser } from "./packed-command.ts";
import type { RealClient } from "./real-clients.ts";
import { startScriptedModel } from "./scripted-model.ts";
import { startServing, useFreePort } from "./serving.ts";

const LIMIT_MS = 120_000;
const GREETING = "Good morning from the workspace.";
const ANSWER = "The scripted answer.";
const CALLS = [
  { tool: "search_actions", args: { query: "read a text file" } },
  { tool: "invoke_action", args: { action_name: "file__read", args: { path: "greeting.txt" } } },
];

/** The result of each step: `yes`, or what went wrong. */
export interface ClientRow {
  readonly stdio: string;
  readonly http: string;
  readonly undone: string;
  readonly task: string;
}

/** Installs a client and uses it with Quartermaster. Throws a `NotTriedError` if it cannot be installed. */
export async function checkClient(client: RealClient, folder: string, qmBin: string): Promise<ClientRow> {
  const bin = await installPackages(join(folder, "client"), [`${client.package}@${client.version}`]);
  const user = await createTestUser(folder, [qmBin, bin]);
  const path = join(user.home, client.file);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, client.before);
  await writeFile(join(user.work, "greeting.txt"), GREETING);
  await runQm(user, ["init"]);

  // Clients complete their own file when they run, so the first run comes before the comparison.
  await runClient(client, user, ["mcp", "list"]);
  const before = await readFile(path, "utf8");
  const stdio = await checkConnection(client, user);
  const afterStdio = await readFile(path, "utf8");
  await useFreePort(user);
  const serving = await startServing(user, "qm serve");
  const http = await checkConnection(client, user, "--http").finally(() => serving.kill());
  const afterHttp = await readFile(path, "utf8");

  await runQm(user, ["connect", client.name, "--yes"]);
  const task = await runTask(client, user);
  const changed = [afterStdio, afterHttp].find((after) => after !== before);
  return { stdio, http, undone: changed === undefined ? "yes" : `the file differs:\n${before}\n---\n${changed}`, task };
}

/** Connects, asks the client whether it reaches Quartermaster, and disconnects. */
async function checkConnection(client: RealClient, user: TestUser, ...options: readonly string[]): Promise<string> {
  await runQm(user, ["connect", client.name, "--yes", ...options]);
  const listed = await runClient(client, user, ["mcp", "list"]);
  await runQm(user, ["connect", client.name, "--undo", "--yes"]);
  return client.connected.test(`${listed.out}\n${listed.err}`) ? "yes" : describeEnd("mcp list", listed);
}

async function runTask(client: RealClient, user: TestUser): Promise<string> {
  const model = await startScriptedModel(CALLS, ANSWER);
  try {
    const { args, env } = client.task(model.url);
    const ended = await runClient(client, user, args, env);
    const [found = "", read = ""] = model.results;
    const problems = [
      ...(ended.code === 0 && ended.out.includes(ANSWER) ? [] : [describeEnd("the task", ended)]),
      ...(found.includes("file__read") ? [] : [`the model did not get the search result: ${found}`]),
      ...(read.includes(GREETING) ? [] : [`the model did not get the file: ${read}`]),
      ...((await hasRecordedCall(user)) ? [] : ["the ledger has no successful call of file__read"]),
    ];
    return problems.length === 0 ? "yes" : [...problems, ...model.notes].join("\n");
  } finally {
    await model.close();
  }
}

async function hasRecordedCall(user: TestUser): Promise<boolean> {
  const { out } = await runQm(user, ["events", "--type", "call.ended", "--action", "file__read", "--json"]);
  const { events } = JSON.parse(out) as { readonly events: readonly { readonly data: unknown }[] };
  return events.some(({ data }) => isRecord(data) && data.status === "done");
}

function runClient(client: RealClient, { work, env }: TestUser, args: readonly string[], more = {}) {
  return runChild(client.bin, args, { cwd: work, env: { ...env, ...client.env, ...more }, limitMs: LIMIT_MS });
}

async function runQm({ work, env }: TestUser, args: readonly string[]): Promise<ChildResult> {
  const ended = await runChild("qm", args, { cwd: work, env, limitMs: LIMIT_MS });
  if (ended.code !== 0) throw new Error(describeEnd(`qm ${args.join(" ")}`, ended));
  return ended;
}
