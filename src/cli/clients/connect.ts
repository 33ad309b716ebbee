import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { loadConfig } from "../../config/load.ts";
import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import { applyChange } from "../../mcp/clients/apply.ts";
import { clientNamed, clients } from "../../mcp/clients/clients.ts";
import {
  type Connecting,
  connectionsOf,
  type FileChange,
  fileOf,
  planConnect,
  planDisconnect,
} from "../../mcp/clients/connect.ts";
import { withEntry } from "../../mcp/clients/edit.ts";
import { systemRuntime } from "../../system-runtime.ts";
import { confirmed } from "../ask.ts";
import type { ConnectOptions } from "../commands/connect.ts";
import { notAgreed } from "../commands/servers/agreement.ts";
import { type Context, withWorkspace } from "../context.ts";
import { oneLine, plain } from "../text.ts";
import { changeLines } from "./change-lines.ts";
import { type GatewayEntry, gatewayEntry, isBuilt } from "./gateway-entry.ts";
import { ownAddresses, ownBin, surroundingsOf } from "./own.ts";

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/;

/** `qm connect` without a client. */
export async function listClients(context: Context): Promise<void> {
  const { io, out } = context;
  const around = surroundingsOf(io);
  const own = await ownAddressesOf(context);
  const listed = await Promise.all(
    clients.map(async (client) => ({
      name: client.name,
      title: client.title,
      files: client
        .files(around)
        .filter(({ part }) => part === undefined)
        .map(({ path, scope }) => ({ path, scope, isThere: existsSync(path) })),
      connected: await connectionsOf(client, around, own),
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
        presence(file, around.home),
        connection === undefined ? "" : { text: `as ${connection.name}`, paint: out.good },
        connection?.path ?? file?.path ?? "",
      ];
    }),
  );
  out.line();
  out.line(out.dim("`qm connect <client>` connects one, `qm import` takes over what they have."));
}

function presence(file: { readonly path: string; readonly isThere: boolean } | undefined, home: string): string {
  if (file === undefined) return "no";
  const folder = dirname(file.path);
  return file.isThere ? "yes" : folder !== home && existsSync(folder) ? "no file yet" : "no";
}

/** `qm connect <client>`, there and back. */
export async function connect(context: Context, clientName: string, options: ConnectOptions): Promise<void> {
  const { io } = context;
  const client = clientNamed(clientName);
  if (!NAME.test(options.name))
    throw new QmError("invalid_arguments", `${quoted(options.name)} is no name for a server`, {
      hint: "Use letters, digits, - and _.",
    });
  const connecting: Connecting = {
    client,
    scope: options.project ? "project" : "user",
    name: options.name,
    around: surroundingsOf(io),
    own: await ownAddressesOf(context),
  };
  if (options.undo) return carryOut(context, await planDisconnect(connecting), connecting, options, undefined);
  const made = await withWorkspace(context, "ledger", (workspace) => gatewayEntry(context, workspace, client, options));
  if (options.print) return print(context, connecting, made);
  return carryOut(context, await planConnect(connecting, made.entry), connecting, options, made);
}

/** A configuration that cannot be read is no reason not to say who is connected, or not to undo it. */
async function ownAddressesOf({ io, globals }: Context) {
  const loaded = await loadConfig(globals.config, { cwd: io.cwd }).catch(() => undefined);
  return ownAddresses(loaded?.config.gateway);
}

async function print({ out }: Context, connecting: Connecting, { entry, token }: GatewayEntry): Promise<void> {
  const { client, name } = connecting;
  const { path, keys } = await fileOf(connecting);
  if (out.isJson) return out.json({ client: client.name, path, name, entry: hiddenEntry({ entry, token }) });
  const { text } = withEntry("", { format: client.format, keys, name }, entry);
  out.line(plain(hiddenText(text, token)).trimEnd());
  out.note(`For ${path}`);
}

async function carryOut(
  { io, out }: Context,
  change: FileChange,
  { client, name }: Connecting,
  options: ConnectOptions,
  made: GatewayEntry | undefined,
): Promise<void> {
  const token = made?.token;
  const { undo = false, dryRun = false, yes = false, project = false } = options;
  const isSame = change.after === change.before;
  if (!out.isJson && !isSame) {
    out.line(oneLine(change.path));
    for (const line of changeLines(change)) {
      const text = plain(hiddenText(line, token));
      out.line(`  ${text.startsWith("+") ? out.good(text) : text.startsWith("-") ? out.bad(text) : out.dim(text)}`);
    }
  }
  if (!isSame && !dryRun && !yes && !(await confirmed(io, undo ? "Take it out?" : "Write it?")))
    throw notAgreed("changed");
  const isWritten = !isSame && !dryRun;
  const { backup } = isWritten ? await applyChange(change, systemRuntime) : {};
  if (out.isJson)
    return out.json({
      client: client.name,
      path: change.path,
      name,
      changed: !isSame,
      written: isWritten,
      ...(made === undefined ? {} : { entry: hiddenEntry(made) }),
      ...(backup === undefined ? {} : { backup }),
    });
  const title = client.title;
  if (isSame)
    return out.line(undo ? `${title} is not connected as ${name}.` : `${title} is connected as ${name} already.`);
  if (dryRun) return out.line(out.dim("Nothing was changed."));
  out.line(undo ? `${title} is not connected any more.` : `${title} is connected. ${client.afterwards}`);
  if (backup !== undefined) out.note(`The file as it was: ${backup}`);
  if (undo) return;
  const words = [client.name, ...(project ? ["--project"] : []), ...(name === "qm" ? [] : ["--name", name])];
  out.note(`To undo it: qm connect ${words.join(" ")} --undo`);
  if (project) out.note("The entry has paths of this machine in it: think before you commit it.");
  if (token !== undefined) out.note("The token is written out in the file.");
  if (!options.http && !isBuilt()) out.note(`qm: warning: ${ownBin} is not there yet: npm run build makes it`);
}

function hiddenEntry({ entry, token }: GatewayEntry): unknown {
  return JSON.parse(hiddenText(JSON.stringify(entry), token));
}

/** Also what an earlier connection wrote: whose token it is makes no difference. */
function hiddenText(text: string, token: string | undefined): string {
  const known = token === undefined ? text : text.replaceAll(JSON.stringify(token).slice(1, -1), "<token>");
  return known.replace(/(Bearer )(?!\$\{|\{|<token>)[^"']+/g, "$1<token>");
}
