import { escapeUnsafe, toOneLine } from "../../core/display-text.ts";
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { systemRuntime } from "../../app/system-runtime.ts";
import { loadConfig } from "../../config/config-file.ts";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { clients, getClientDefinition } from "../../mcp/clients/clients.ts";
import {
  applyFileChange,
  type ClientConnectRequest,
  chooseClientFile,
  type FileChange,
  listClientConnections,
  planConnect,
  planDisconnect,
} from "../../mcp/clients/connect.ts";
import { putEntry } from "../../mcp/clients/edit-entry.ts";
import { createNotAgreedError } from "../approver.ts";
import type { ConnectOptions } from "../commands/clients.ts";
import { type CommandContext, withWorkspace } from "../context.ts";
import { confirmAtTerminal } from "../terminal.ts";
import {
  buildGatewayEntry,
  detectClientEnvironment,
  type GatewayEntry,
  getGatewayAddresses,
  isProgramBuilt,
  ownBin,
} from "./gateway-entry.ts";

/**
 * What a change takes away and puts in, as lines. Nothing around it is shown: there may be other servers' secrets.
 */
function formatFileChange({ before = "", edits }: FileChange): readonly string[] {
  const text = before.replace(/^\uFEFF/, "");
  return edits.flatMap(({ offset, length, content }) => [
    `line ${text.slice(0, offset).split("\n").length}:`,
    ...prefixLines("-", text.slice(offset, offset + length)),
    ...prefixLines("+", content),
  ]);
}

function prefixLines(sign: string, part: string): readonly string[] {
  const lines = part.split(/\r?\n/);
  while (lines.length > 0 && lines[0]?.trim() === "") lines.shift();
  while (lines.length > 0 && lines.at(-1)?.trim() === "") lines.pop();
  // What is put in begins in the middle of a line, so its first line has no indentation of its own.
  const indent = /^[ \t]*/.exec(lines.at(-1) ?? "")?.[0] ?? "";
  return lines.map((line) => `${sign} ${line.startsWith(indent) ? line.slice(indent.length) : line}`);
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/;

/** `qm connect` without a client. */
export async function runClientsList(context: CommandContext): Promise<void> {
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
    ["client", "there", "connected", "file"],
    listed.map(({ name, files, connected }) => {
      const [connection] = connected;
      const own = files.filter(({ scope }) => scope === "user");
      const file = own.find(({ isThere }) => isThere) ?? own[0];
      return [
        name,
        describePresence(file, around.home),
        connection === undefined ? "" : { text: `as ${connection.name}`, paint: out.good },
        connection?.path ?? file?.path ?? "",
      ];
    }),
  );
  out.line();
  out.line(out.dim("`qm connect <client>` connects one, `qm import` takes over what they have."));
}

function describePresence(
  file: { readonly path: string; readonly isThere: boolean } | undefined,
  home: string,
): string {
  if (file === undefined) return "no";
  const folder = dirname(file.path);
  return file.isThere ? "yes" : folder !== home && existsSync(folder) ? "no file yet" : "no";
}

/** `qm connect <client>`, there and back. */
export async function runConnect(context: CommandContext, clientName: string, options: ConnectOptions): Promise<void> {
  const { io } = context;
  const client = getClientDefinition(clientName);
  if (!NAME.test(options.name))
    throw new QmError("invalid_arguments", `${quoteName(options.name)} is no name for a server`, {
      hint: "Use letters, digits, - and _.",
    });
  const connecting: ClientConnectRequest = {
    client,
    scope: options.project ? "project" : "user",
    name: options.name,
    around: detectClientEnvironment(io),
    own: await loadOwnAddresses(context),
  };
  if (options.undo) return applyConnection(context, await planDisconnect(connecting), connecting, options, undefined);
  const made = await withWorkspace(context, "ledger", (workspace) =>
    buildGatewayEntry(context, workspace, client, options),
  );
  if (options.print) return printEntry(context, connecting, made);
  return applyConnection(context, await planConnect(connecting, made.entry), connecting, options, made);
}

/** A configuration that cannot be read is no reason not to say who is connected, or not to undo it. */
async function loadOwnAddresses({ io, globals }: CommandContext) {
  const loaded = await loadConfig(globals.config, { cwd: io.cwd }).catch(() => undefined);
  return getGatewayAddresses(loaded?.config.gateway);
}

async function printEntry(
  { out }: CommandContext,
  connecting: ClientConnectRequest,
  { entry, token }: GatewayEntry,
): Promise<void> {
  const { client, name } = connecting;
  const { path, keys } = await chooseClientFile(connecting);
  if (out.isJson) return out.json({ client: client.name, path, name, entry: maskEntry({ entry, token }) });
  const { text } = putEntry("", { format: client.format, keys, name }, entry);
  out.line(escapeUnsafe(maskToken(text, token)).trimEnd());
  out.note(`For ${path}`);
}

async function applyConnection(
  { io, out }: CommandContext,
  change: FileChange,
  { client, name }: ClientConnectRequest,
  options: ConnectOptions,
  made: GatewayEntry | undefined,
): Promise<void> {
  const token = made?.token;
  const { undo = false, dryRun = false, yes = false, project = false } = options;
  const isSame = change.after === change.before;
  if (!out.isJson && !isSame) {
    out.line(toOneLine(change.path));
    for (const line of formatFileChange(change)) {
      const text = escapeUnsafe(maskToken(line, token));
      out.line(`  ${text.startsWith("+") ? out.good(text) : text.startsWith("-") ? out.bad(text) : out.dim(text)}`);
    }
  }
  if (!isSame && !dryRun && !yes && !(await confirmAtTerminal(io, undo ? "Take it out?" : "Write it?")))
    throw createNotAgreedError("changed");
  const isWritten = !isSame && !dryRun;
  const { backup } = isWritten ? await applyFileChange(change, systemRuntime) : {};
  if (out.isJson)
    return out.json({
      client: client.name,
      path: change.path,
      name,
      changed: !isSame,
      written: isWritten,
      ...(made === undefined ? {} : { entry: maskEntry(made) }),
      ...(backup === undefined ? {} : { backup }),
    });
  const title = client.title;
  if (isSame)
    return out.line(undo ? `${title} is not connected as ${name}.` : `${title} is connected as ${name} already.`);
  if (dryRun) return out.line(out.dim("Nothing was changed."));
  out.line(undo ? `${title} is not connected any more.` : `${title} is connected. ${client.restartHint}`);
  if (backup !== undefined) out.note(`The file as it was: ${backup}`);
  if (undo) return;
  const words = [client.name, ...(project ? ["--project"] : []), ...(name === "qm" ? [] : ["--name", name])];
  out.note(`To undo it: qm connect ${words.join(" ")} --undo`);
  if (project) out.note("The entry has paths of this machine in it: think before you commit it.");
  if (token !== undefined) out.note("The token is written out in the file.");
  if (!options.http && !isProgramBuilt()) out.note(`qm: warning: ${ownBin} is not there yet: npm run build makes it`);
}

function maskEntry({ entry, token }: GatewayEntry): unknown {
  return JSON.parse(maskToken(JSON.stringify(entry), token));
}

/** Also what an earlier connection wrote: whose token it is makes no difference. */
function maskToken(text: string, token: string | undefined): string {
  const known = token === undefined ? text : text.replaceAll(JSON.stringify(token).slice(1, -1), "<token>");
  return known.replace(/(Bearer )(?!\$\{|\{|<token>)[^"']+/g, "$1<token>");
}
