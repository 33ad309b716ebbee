import { dirname, resolve } from "node:path";
import { systemRuntime } from "../../app/system-runtime.ts";
import { CONFIG_FILE } from "../../config/config-file.ts";
import { addConfiguredServers } from "../../config/edit-servers.ts";
import { serverName, serverSchema } from "../../config/mcp-schema.ts";
import { escapeUnsafe, formatCount, listCharacterWarnings, quoteShellWord, toOneLine, toVisibleJson, toVisibleLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import { createSecretNameMatcher } from "../../ledger/secret-names.ts";
import { findSecretSpans } from "../../ledger/secret-text.ts";
import { getClientDefinition } from "../../mcp/clients/clients.ts";
import type { SecretDetector } from "../../mcp/clients/extract-secrets.ts";
import { normalizeServerName } from "../../mcp/clients/extract-secrets.ts";
import { type ImportPlan, type PlannedServer, planImport } from "../../mcp/clients/plan-import.ts";
import { type ClientServerList, readClients } from "../../mcp/clients/read-clients.ts";
import type { ServerEntry } from "../../mcp/clients/server-entry.ts";
import type { SecretStore } from "../../mcp/secret-store.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { identifyApprover, requireYes } from "../approver.ts";
import type { ImportOptions } from "../commands/clients.ts";
import { type CommandContext, withWorkspace } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { detectClientEnvironment, getGatewayAddresses } from "./gateway-entry.ts";

interface ImportLookup {
  readonly found: readonly ClientServerList[];
  /** The clients that were named. None: all are looked at. */
  readonly asked: readonly string[];
}

/** What an import would do, for a person. */
function printImportPlan(
  { out }: CommandContext,
  path: string,
  plan: ImportPlan,
  { found, asked }: ImportLookup,
): void {
  for (const name of asked) {
    const lists = found.filter(({ client }) => client.name === name);
    if (lists.every(({ servers, problems }) => servers.length === 0 && problems.length === 0))
      out.line(`${getClientDefinition(name).title} has no MCP servers.`);
  }
  if (found.length === 0 && asked.length === 0)
    out.line("No client on this machine has a list of MCP servers that could be read.");
  if (plan.servers.length > 0) out.line(`${formatCount(plan.servers.length, "server")} for ${escapeUnsafe(path)}:`);
  for (const server of plan.servers) {
    out.line();
    out.line(
      `${out.bold(server.name)}  ${out.dim(`from ${getClientDefinition(server.client).title}, ${toOneLine(server.path)}`)}`,
    );
    // Lines, not a table: a table is cut at the width of the terminal, and somebody is asked about what it says.
    for (const [what, text] of listServerFacts(server)) out.line(`  ${what.padEnd(8)}  ${toVisibleLine(text)}`);
    for (const warning of listCharacterWarnings(JSON.stringify(server.entry)))
      out.line(`  careful   it ${escapeUnsafe(warning)}`);
  }
  if (plan.skipped.length > 0) {
    out.line();
    out.line("Left out:");
    const rows = plan.skipped.map(({ called, client, why }) => [called, client, why]);
    out.table(["server", "client", "why"], rows, 2);
  }
  for (const { client, path, problems } of found)
    for (const problem of problems) out.note(`qm: warning: ${client.title}: ${toOneLine(path)}: ${toOneLine(problem)}`);
  out.line();
}

function listServerFacts({ entry, secrets, notes }: PlannedServer): readonly (readonly [what: string, text: string])[] {
  const { command, args = [], env = {}, cwd, url, headers = {}, enabled } = entry;
  const row = (what: string, text: string | undefined) => (text === undefined ? [] : [[what, text] as const]);
  return [
    ...row("runs", command === undefined ? undefined : [command, ...args].map(quoteWord).join(" ")),
    ...row("in", cwd),
    ...row("reaches", url),
    ...Object.entries(env).map(([name, value]) => ["variable", `${name}=${value}`] as const),
    ...Object.entries(headers).map(([name, value]) => ["header", `${name}: ${value}`] as const),
    ...row("enabled", enabled === false ? "no, as it is switched off there" : undefined),
    ...secrets.map(
      ({ name, where }) => ["secret", `${name}, which is written out in ${where}, goes to the secret store`] as const,
    ),
    ...notes.map((note) => ["note", note] as const),
  ];
}

/** References as they are: quotes would be right, and would make them hard to see. */
function quoteWord(word: string): string {
  return /^[\w@%+=:,./${}-]+$/.test(word) ? word : quoteShellWord(word);
}

interface ImportWriteResult {
  readonly written: boolean;
  readonly backup: string | undefined;
}

/** What would be added, as data, with the names of secrets alone. */
function maskPlannedServers({ servers }: ImportPlan) {
  return servers.map(({ secrets, ...server }) => ({
    ...server,
    secrets: secrets.map(({ name, where }) => ({ name, where })),
  }));
}

/** The same as data. No secret is in it, only their names. */
function toImportPlanJson(
  path: string,
  plan: ImportPlan,
  found: readonly ClientServerList[],
  { written, backup }: ImportWriteResult,
) {
  return {
    config: path,
    servers: maskPlannedServers(plan),
    skipped: plan.skipped,
    problems: found.flatMap(({ client, path, problems }) =>
      problems.map((problem) => ({ client: client.name, path, problem })),
    ),
    written,
    ...(backup === undefined ? {} : { backup }),
  };
}

/** `qm import`: preview, question, secrets, configuration, in this order. */
export async function runImport(
  context: CommandContext,
  clients: readonly string[],
  options: ImportOptions,
): Promise<void> {
  const { found } = await readClients({ ...detectClientEnvironment(context.io), only: clients });
  requireKnownNames(found, options);
  if (found.some(({ problems }) => problems.length > 0)) context.end(exitCodes.failed);
  await withWorkspace(context, "ledger", async (workspace) => {
    const { io, out } = context;
    const path = workspace.configPath ?? resolve(io.cwd, CONFIG_FILE);
    const plan = await planServers(context, workspace, path, found, options);
    const isDone = options.dryRun === true || plan.servers.length === 0;
    if (!out.isJson) printImportPlan(context, path, plan, { found, asked: clients });
    // With --json the answer is on stdout; whoever is asked reads what it is about beside it.
    else if (!isDone) out.note(toVisibleJson(maskPlannedServers(plan), 2));
    if (!isDone) {
      const question = `Add ${formatCount(plan.servers.length, "server")}?`;
      const person = await identifyApprover(context, workspace);
      await requireYes(context, person, { question, done: "imported", yes: options.yes });
    }
    const backup = isDone ? undefined : await writeServers(path, plan.servers, workspace.secrets);
    if (out.isJson) return out.json(toImportPlanJson(path, plan, found, { written: !isDone, backup }));
    if (isDone) return out.line(out.dim(options.dryRun ? "Nothing was changed." : "There is nothing to add."));
    out.line(`Added ${formatCount(plan.servers.length, "server")} to ${path}. \`qm servers list\` shows them.`);
    const undo =
      backup === undefined ? `rm ${quoteShellWord(path)}` : `mv ${quoteShellWord(backup)} ${quoteShellWord(path)}`;
    out.note(`To undo it: ${undo}`);
  });
}

function planServers(
  { io }: CommandContext,
  { config, secrets }: Workspace,
  path: string,
  found: readonly ClientServerList[],
  { project = false, only }: ImportOptions,
): Promise<ImportPlan> {
  return planImport(found, {
    configured: config.servers,
    own: getGatewayAddresses(config.gateway),
    judge,
    storedSecret: (name) => secrets.get(name),
    env: io.env,
    project,
    ...(dirname(path) === io.cwd ? {} : { projectFolder: io.cwd }),
    ...(only === undefined ? {} : { only }),
    check: checkEntry,
  });
}

/** The same eyes that keep secrets out of the ledger. */
const judge: SecretDetector = {
  isSecretName: createSecretNameMatcher(),
  findSpans: (text) => findSecretSpans(text, []),
};

function checkEntry(name: string, entry: ServerEntry): string | undefined {
  const issue = serverName.safeParse(name).error?.issues[0] ?? serverSchema.safeParse(entry).error?.issues[0];
  return issue && `the configuration cannot hold it: ${[...issue.path.map(String), issue.message].join(": ")}`;
}

/** A name that was typed and is nowhere is a typing error, not nothing to do. */
function requireKnownNames(found: readonly ClientServerList[], { only = [] }: ImportOptions): void {
  const names = found.flatMap(({ servers }) => servers.map(({ name }) => name));
  const missing = only.find((name) => !names.some((each) => each === name || normalizeServerName(each) === name));
  if (missing === undefined) return;
  throw new QmError("not_found", `no client has a server called ${quoteName(missing)}${didYouMean(missing, names)}`, {
    hint: "`qm import --dry-run` shows the servers there are.",
  });
}

/** Secrets first: a configuration whose secrets are missing is worse than secrets that nobody refers to. */
async function writeServers(
  path: string,
  servers: readonly PlannedServer[],
  store: SecretStore,
): Promise<string | undefined> {
  const stored: string[] = [];
  try {
    for (const { name, value } of servers.flatMap(({ secrets }) => secrets)) {
      if ((await store.get(name)) === value) continue;
      await store.set(name, value);
      stored.push(name);
    }
    const entries = Object.fromEntries(
      servers.map(({ name, entry, client }) => [name, { ...entry, source: `imported from ${client}` }]),
    );
    return (await addConfiguredServers(path, entries, systemRuntime)).backup;
  } catch (thrown) {
    for (const name of stored) await store.delete(name);
    throw thrown;
  }
}
