import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { systemRuntime } from "../../app/system-runtime.ts";
import { loadConfig } from "../../config/config-file.ts";
import { escapeUnsafe, toOneLine } from "../../core/display-text.ts";
import { omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import {
  applyFileChange,
  type ClientConnectRequest,
  chooseClientFile,
  type FileChange,
} from "../../mcp/clients/client-file.ts";
import { clients, getClientDefinition } from "../../mcp/clients/clients.ts";
import { listClientConnections, planConnect, planDisconnect } from "../../mcp/clients/connect.ts";
import { putEntry } from "../../mcp/clients/edit-entry.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { requireYes } from "../approver.ts";
import type { ConnectOptions } from "../commands/clients.ts";
import { type Context, withWorkspace } from "../context.ts";
import { createUsageError } from "../exit-codes.ts";
import {
  buildGatewayEntry,
  detectClientEnvironment,
  formatUndoCommand,
  type GatewayEntry,
  getGatewayAddresses,
  ownBin,
} from "./gateway-entry.ts";
import { listDoubledServers } from "./import.ts";

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/;

export async function createConnectRequest(
  context: Context,
  clientName: string,
  { name, project, undo }: ConnectOptions,
): Promise<ClientConnectRequest> {
  const client = getClientDefinition(clientName);
  if (!NAME.test(name))
    throw createUsageError(`${quoteName(name)} is not a valid server name`, "Use letters, digits, - and _.");
  const around = detectClientEnvironment(context.io);
  const own = await loadOwnAddresses(context);
  const acceptsForm = undo === true && own.isAssumed;
  return { client, scope: project ? "project" : "user", name, around, own, acceptsForm };
}

export async function runConnect(context: Context, clientName: string, options: ConnectOptions): Promise<void> {
  const request = await createConnectRequest(context, clientName, options);
  const { client, scope } = request;
  if (options.undo) return applyConnection(context, await planDisconnect(request), request, options);
  const { made, doubled } = await withWorkspace(context, "ledger", async (workspace: Workspace) => ({
    made: await buildGatewayEntry(context, workspace, client, options),
    doubled: await listDoubledServers(context, workspace, client, scope),
  }));
  if (options.print) return printEntry(context, request, made);
  await applyConnection(context, [await planConnect(request, made.entry)], request, options, made);
  if (context.out.isJson || options.dryRun || doubled.length === 0) return;
  const move = `qm connect ${client.name}${options.project ? " --project" : ""} --move`;
  context.out.note(`${client.title} now has ${doubled.join(", ")} twice. To take them out of its own list: ${move}`);
}

export async function runClientsList(context: Context): Promise<void> {
  const { io, out } = context;
  const around = detectClientEnvironment(io);
  const own = await loadOwnAddresses(context);
  const listed = await Promise.all(
    clients.map(async (client) => ({
      name: client.name,
      title: client.title,
      files: client
        .files(around)
        .filter(({ part }) => part === undefined)
        .map(({ path, scope }) => ({ path, scope, isThere: existsSync(path) })),
      connected: await listClientConnections(client, around, own),
    })),
  );
  if (out.isJson) return out.json({ clients: listed });
  out.table(
    ["client", "installed", "connected", "file"],
    listed.map(({ name, files, connected: [connection] }) => {
      const userFiles = files.filter(({ scope }) => scope === "user");
      const { path, isThere } = userFiles.find((file) => file.isThere) ?? userFiles[0] ?? { path: "", isThere: false };
      const folder = dirname(path);
      const hasFolder = path !== "" && folder !== around.home && existsSync(folder);
      return [
        name,
        isThere ? "yes" : hasFolder ? "no file yet" : "no",
        connection === undefined ? "" : { text: `as ${connection.name}`, paint: out.good },
        connection?.path ?? path,
      ];
    }),
  );
  out.line("", out.dim("`qm connect <client>` connects one, `qm import` imports their servers."));
}

/** An invalid or missing configuration must prevent neither the list nor an undo: the default address is assumed. */
async function loadOwnAddresses({ io, globals }: Context) {
  const loaded = await loadConfig(globals.config, { cwd: io.cwd }).catch(() => undefined);
  return { ...getGatewayAddresses(loaded?.config.gateway), isAssumed: loaded?.path === undefined };
}

async function printEntry({ out }: Context, request: ClientConnectRequest, made: GatewayEntry): Promise<void> {
  const { client, name } = request;
  const { path, keys } = await chooseClientFile(request);
  const { text } = putEntry("", { format: client.format, keys, name }, made.entry);
  const masked = escapeUnsafe(maskToken(text, made.token)).trimEnd();
  out.answer({ client: client.name, path, name, entry: maskEntry(made) }, masked);
  if (!out.isJson) out.note(`For ${path}`);
}

async function applyConnection(
  context: Context,
  changes: readonly FileChange[],
  { client, name }: ClientConnectRequest,
  options: ConnectOptions,
  made?: GatewayEntry,
) {
  const { out } = context;
  const { undo = false, dryRun = false, yes = false, project = false, absolute, http } = options;
  const path = changes[0]?.path ?? "";
  const token = made?.token;
  const isSame = changes.every(({ before, after }) => before === after);
  printFileChanges(context, changes, { undo, token });
  const isWritten = !isSame && !dryRun;
  if (isWritten)
    await requireYes(context, { question: undo ? "Remove this entry?" : "Write this change?", done: "changed", yes });
  const [backup] = isWritten ? await applyFileChanges(changes) : [];
  const restored = changes.flatMap(({ moved = [] }) => moved);
  if (out.isJson) {
    const entry = made === undefined ? undefined : maskEntry(made);
    const extras = omitUndefined({ entry, backup, restored: undo ? restored : undefined });
    return out.json({ client: client.name, path, name, changed: !isSame, written: isWritten, ...extras });
  }
  const { title } = client;
  if (isSame) return out.line(`${title} is ${undo ? "not" : "already"} connected as ${name}.`);
  if (dryRun) return out.line(out.dim("Nothing was changed."));
  out.line(undo ? `${title} is disconnected.` : `${title} is connected. ${client.restartHint}`);
  if (backup !== undefined) out.note(`Backup: ${backup}`);
  if (undo && restored.length > 0) out.note("The servers are still in quartermaster.yaml: `qm servers remove <name>`.");
  if (undo) return;
  out.note(`To undo: ${formatUndoCommand(context, client, options)}`);
  if (project && http !== true)
    out.note(
      absolute
        ? "The entry has paths of this machine in it: do not commit it."
        : "The entry needs `qm` on each machine: install the packed package in the project or globally.",
    );
  if (token !== undefined) out.note("The file contains the token in plain text.");
  if (http && client.gateway.http !== undefined) out.note("Keep `qm serve` running: the client connects to it.");
  if (!http && (!project || absolute) && !existsSync(ownBin))
    out.note(`qm: warning: ${ownBin} does not exist yet: run npm run build`);
}

/** Shows the edits of our entry, and only the names of other entries, which may hold secrets. */
export function printFileChanges(
  { out }: Context,
  changes: readonly FileChange[],
  { undo = false, token }: { readonly undo?: boolean; readonly token?: string | undefined },
): void {
  if (out.isJson) return;
  for (const change of changes.filter(({ before, after }) => before !== after)) {
    out.line(toOneLine(change.path));
    const moved = (change.moved ?? []).map((name) => `${undo ? "+" : "-"} ${JSON.stringify(name)}: …`);
    for (const line of [...moved, ...formatFileChange(change)]) {
      const text = escapeUnsafe(maskToken(line, token));
      out.line(`  ${text.startsWith("+") ? out.good(text) : text.startsWith("-") ? out.bad(text) : out.dim(text)}`);
    }
  }
}

/** Returns the backups. */
export async function applyFileChanges(changes: readonly FileChange[]): Promise<readonly string[]> {
  const backups: string[] = [];
  for (const change of changes) {
    const { backup } = await applyFileChange(change, systemRuntime);
    if (backup !== undefined) backups.push(backup);
  }
  return backups;
}

/** The lines that a change removes and adds. Not the lines around it, which may hold the secrets of other servers. */
function formatFileChange({ before = "", edits, moved = [] }: FileChange): readonly string[] {
  const text = before.replace(/^\uFEFF/, "");
  return edits.flatMap(({ offset, length, content }) => [
    ...(moved.length > 0 ? [] : [`line ${text.slice(0, offset).split("\n").length}:`]),
    ...prefixLines("-", text.slice(offset, offset + length)),
    ...prefixLines("+", content),
  ]);
}

function prefixLines(sign: string, part: string): readonly string[] {
  const lines = part.split(/\r?\n/);
  while (lines.length > 0 && lines[0]?.trim() === "") lines.shift();
  while (lines.length > 0 && lines.at(-1)?.trim() === "") lines.pop();
  // An insertion starts within a line, so its first line has no indentation.
  const indent = /^[ \t]*/.exec(lines.at(-1) ?? "")?.[0] ?? "";
  return lines.map((line) => `${sign} ${line.startsWith(indent) ? line.slice(indent.length) : line}`);
}

export function maskEntry({ entry, token }: GatewayEntry): unknown {
  return JSON.parse(maskToken(JSON.stringify(entry), token));
}

/** Masks every bearer token, also one that an earlier connection wrote. */
function maskToken(text: string, token: string | undefined): string {
  const known = token === undefined ? text : text.replaceAll(JSON.stringify(token).slice(1, -1), "<token>");
  return known.replace(/(Bearer )(?!\$\{|\{|<token>)[^"']+/g, "$1<token>");
}
