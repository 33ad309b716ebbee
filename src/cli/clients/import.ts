import { dirname, resolve } from "node:path";
import { systemRuntime } from "../../app/system-runtime.ts";
import { CONFIG_FILE } from "../../config/config-file.ts";
import { addConfiguredServers } from "../../config/edit-config.ts";
import { checkServerEntry, serverName } from "../../config/mcp-schema.ts";
import {
  escapeUnsafe,
  formatCount,
  listCharacterWarnings,
  quoteShellWord,
  toOneLine,
  toVisibleJson,
  toVisibleLine,
} from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { canonicalJson, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import { createSecretNameMatcher } from "../../ledger/secret-names.ts";
import { findSecretSpans } from "../../ledger/secret-text.ts";
import { type ClientDefinition, type ClientScope, getClientDefinition } from "../../mcp/clients/clients.ts";
import { normalizeServerName } from "../../mcp/clients/extract-secrets.ts";
import { type ImportPlan, type PlannedServer, planImport } from "../../mcp/clients/plan-import.ts";
import { type ClientServerList, readClients } from "../../mcp/clients/read-clients.ts";
import type { LearnedServer } from "../../mcp/provider/learn-servers.ts";
import type { SecretStore } from "../../mcp/secret-store.ts";
import { parseServerSpec } from "../../workspace/config-mapping.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { identifyApprover, requireApproval } from "../approver.ts";
import type { ImportOptions } from "../commands/clients.ts";
import { askServers, showAskedServers } from "../commands/servers/connection.ts";
import { type Context, withWorkspace } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { detectClientEnvironment, getGatewayAddresses } from "./gateway-entry.ts";

type Names = readonly string[];
type ServerLists = readonly ClientServerList[];

/** `qm import`: preview, question, secrets, configuration, in this order. */
export async function runImport(context: Context, clients: Names, options: ImportOptions) {
  const { found } = await readClients({ ...detectClientEnvironment(context.io), only: clients });
  requireKnownNames(found, options);
  if (found.some(({ problems }) => problems.length > 0)) context.end(exitCodes.failed);
  await withWorkspace(context, "ledger", async (workspace) => {
    const { io, out } = context;
    const path = workspace.configPath ?? resolve(io.cwd, CONFIG_FILE);
    const plan = await planServers(context, workspace, path, found, options);
    const amount = formatCount(plan.servers.length, "server");
    const isWritten = options.dryRun !== true && plan.servers.length > 0;
    const isStarted = isWritten && options.start !== false;
    // With --json the answer is on stdout; the person who is asked reads the plan on stderr.
    if (!out.isJson) printImportPlan(context, path, plan, found, clients);
    else if (isWritten) out.note(toVisibleJson(maskPlannedServers(plan), 2));
    if (isWritten) {
      const person = await identifyApprover(context, workspace);
      const question = `Add ${amount}${isStarted ? `, ${describeStarting(plan.servers)}` : ""}?`;
      await requireApproval(context, person, { question, done: "imported", yes: options.yes });
    }
    const backup = isWritten ? await writeServers(path, plan.servers, workspace.secrets) : undefined;
    if (isWritten && !out.isJson) {
      out.line(`Added ${amount} to ${path}. \`qm servers list\` shows them.`);
      const target = quoteShellWord(path);
      out.note(`To undo: ${backup === undefined ? `rm ${target}` : `mv ${quoteShellWord(backup)} ${target}`}`);
    }
    const asked = isStarted ? await askImported(context, path, plan.servers) : undefined;
    if (out.isJson)
      return out.json({
        config: path,
        servers: maskPlannedServers(plan),
        skipped: plan.skipped,
        problems: found.flatMap(({ client, path, problems }) =>
          problems.map((problem) => ({ client: client.name, path, problem })),
        ),
        written: isWritten,
        ...omitUndefined({ backup, asked }),
      });
    if (!isWritten) return out.line(out.dim(options.dryRun ? "Nothing was changed." : "There is nothing to add."));
    showImported(context, asked ?? []);
    out.note("Next: `qm connect <client>` lets a client use them; with --move it leaves its own list of servers.");
  });
}

/** The part of a question that says what `askImported` will do. */
export function describeStarting({ length }: readonly PlannedServer[]): string {
  return `and start ${length === 1 ? "it once to read its" : "each once to read their"} tools`;
}

export function showImported(context: Context, asked: readonly LearnedServer[]): void {
  showAskedServers(context, asked);
  const failed = asked.filter(({ problem }) => problem !== undefined).map(({ name }) => name);
  if (failed.length > 0)
    context.out.line(`Not asked yet: ${failed.join(", ")}. Try again: qm servers start ${failed.join(" ")}`);
}

const ASK_LIMIT_MS = 120_000;

/** Reads the tools of the imported servers. One that cannot be asked is reported, and the import stays done. */
export async function askImported(context: Context, path: string, imported: readonly PlannedServer[]) {
  const { io, end } = context;
  const agreed = new Map(
    imported.map(({ name, entry }) => [name, parseServerSpec(name, { ...entry }, dirname(path)).launch]),
  );
  const asked = await withWorkspace(context, "calls", ({ servers }) => {
    // Start only what the person has seen: another process may have changed the file since.
    const names = servers
      .list()
      .filter(({ spec }) => canonicalJson(agreed.get(spec.name)) === canonicalJson(spec.launch))
      .map(({ spec }) => spec.name);
    return askServers(context, servers, names, ASK_LIMIT_MS);
  });
  if (io.signal.aborted) end(exitCodes.interrupted);
  return asked;
}

/** A misspelt name must not pass for an import with nothing to do. */
function requireKnownNames(found: ServerLists, { only = [] }: ImportOptions): void {
  const names = found.flatMap(({ servers }) => servers.map(({ name }) => name));
  const missing = only.find((name) => !names.some((each) => each === name || normalizeServerName(each) === name));
  if (missing === undefined) return;
  const message = `no client has a server called ${quoteName(missing)}${didYouMean(missing, names)}`;
  throw new QmError("not_found", message, { hint: "Run `qm import --dry-run` to see their servers." });
}

export function planServers(
  { io }: Pick<Context, "io">,
  workspace: Workspace,
  path: string,
  found: ServerLists,
  options: ImportOptions,
) {
  const { config, secrets } = workspace;
  const { project = false, only } = options;
  return planImport(found, {
    configured: config.servers,
    own: getGatewayAddresses(config.gateway),
    // The same detection that redacts secrets in the ledger.
    judge: { isSecretName: createSecretNameMatcher(), findSpans: (text) => findSecretSpans(text, []) },
    storedSecret: (name) => secrets.get(name),
    env: io.env,
    project,
    ...(dirname(path) === io.cwd ? {} : { projectFolder: io.cwd }),
    ...omitUndefined({ only }),
    check(name, entry) {
      const issue = serverName.safeParse(name).error?.issues[0] ?? checkServerEntry(entry)[0];
      return issue && `not valid in the configuration: ${[...issue.path.map(String), issue.message].join(": ")}`;
    },
  });
}

/** The servers in a client's own list that are also configured here: a connected client has their tools twice. */
export async function listDoubledServers(
  context: Pick<Context, "io">,
  workspace: Workspace,
  client: ClientDefinition,
  scope: ClientScope,
): Promise<Names> {
  if (workspace.configPath === undefined) return [];
  const { found } = await readClients({ ...detectClientEnvironment(context.io), only: [client.name] });
  const lists = found
    .filter((list) => list.scope === scope)
    .map((list) => ({ ...list, servers: list.servers.filter(({ entry }) => entry?.enabled !== false) }));
  const { skipped } = await planServers(context, workspace, workspace.configPath, lists, { project: true });
  return skipped.filter(({ known }) => known === "configured").map(({ called }) => called);
}

export function printImportPlan(
  { out }: Context,
  path: string,
  plan: ImportPlan,
  found: ServerLists,
  clients: Names,
): void {
  for (const name of clients) {
    const lists = found.filter(({ client }) => client.name === name);
    if (lists.every(({ servers, problems }) => servers.length === 0 && problems.length === 0))
      out.line(`${getClientDefinition(name).title} has no MCP servers.`);
  }
  if (found.length === 0 && clients.length === 0)
    out.line("No client on this machine has a readable list of MCP servers.");
  if (plan.servers.length > 0) out.line(`${formatCount(plan.servers.length, "server")} for ${escapeUnsafe(path)}:`);
  for (const server of plan.servers) {
    const source = `from ${getClientDefinition(server.client).title}, ${toOneLine(server.path)}`;
    out.line("", `${out.bold(server.name)}  ${out.dim(source)}`);
    // Not a table, which would cut the text that the person is asked about.
    for (const [what, text] of listServerFacts(server)) out.line(`  ${what.padEnd(8)}  ${toVisibleLine(text)}`);
    for (const warning of listCharacterWarnings(JSON.stringify(server.entry)))
      out.line(`  careful   it ${escapeUnsafe(warning)}`);
  }
  if (plan.skipped.length > 0) {
    out.line("", "Left out:");
    out.table(
      ["server", "client", "why"],
      plan.skipped.map(({ called, client, why }) => [called, client, why]),
      { whole: [0, 1], indent: 2 },
    );
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
    ...Object.entries(env).flatMap(([name, value]) => row("variable", `${name}=${value}`)),
    ...Object.entries(headers).flatMap(([name, value]) => row("header", `${name}: ${value}`)),
    ...row("enabled", enabled === false ? "no, it is switched off in the client" : undefined),
    ...secrets.flatMap(({ name, where: at }) =>
      row("secret", `${name}, in plain text in ${at}, goes to the secret store`),
    ),
    ...notes.flatMap((note) => row("note", note)),
  ];
}

function quoteWord(word: string): string {
  return /^[\w@%+=:,./${}-]+$/.test(word) ? word : quoteShellWord(word);
}

export function maskPlannedServers({ servers }: ImportPlan) {
  const mask = ({ name, where }: PlannedServer["secrets"][number]) => ({ name, where });
  return servers.map(({ secrets, ...server }) => ({ ...server, secrets: secrets.map(mask) }));
}

/** Secrets first: unused secrets do less harm than a configuration without its secrets. */
export async function writeServers(path: string, servers: readonly PlannedServer[], store: SecretStore) {
  const stored: string[] = [];
  try {
    for (const { name, value } of servers.flatMap(({ secrets }) => secrets)) {
      if ((await store.get(name)) === value) continue;
      await store.set(name, value);
      stored.push(name);
    }
    const entries = servers.map(({ name, entry, client }) => [name, { ...entry, source: `imported from ${client}` }]);
    return (await addConfiguredServers(path, Object.fromEntries(entries), systemRuntime)).backup;
  } catch (thrown) {
    for (const name of stored) await store.delete(name);
    throw thrown;
  }
}
