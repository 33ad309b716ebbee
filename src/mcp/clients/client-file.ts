import { lstat, mkdir, readdir, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { isRecord } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import type { Runtime } from "../../core/runtime.ts";
import { backUpFile, replaceTextFile } from "../../files/safe-files.ts";
import { decodeClientText, encodeClientText, getDocumentValue, parseClientDocument } from "./client-document.ts";
import type { ClientEnvironment } from "./client-paths.ts";
import type { ClientDefinition, ClientFile, ClientScope } from "./clients.ts";
import { type EntryLocation, findEntry, type TextEdit } from "./edit-entry.ts";
import { isOwnServer, type OwnAddresses, readClientFile } from "./read-clients.ts";
import { readServerEntry, type ServerEntry } from "./server-entry.ts";

/** A planned change of a client's file. */
export interface FileChange {
  readonly path: string;
  /** Undefined if the file does not exist. */
  readonly before: string | undefined;
  /** Undefined if the file is to be removed, because connecting created it. */
  readonly after: string | undefined;
  /** The edits of our entry in the text without its byte order mark. Empty if it does not change. */
  readonly edits: readonly TextEdit[];
  /** The names of other entries that are taken out or put back. */
  readonly moved?: readonly string[];
  /** Backups that are deleted afterwards, because the change restores what they hold. */
  readonly obsolete?: readonly string[];
  /** Whether `after` is the content of a backup, so that no new one is needed. */
  readonly isRestored?: boolean;
}

export interface ClientConnectRequest {
  readonly client: ClientDefinition;
  readonly scope: ClientScope;
  /** The name of our entry. */
  readonly name: string;
  readonly around: ClientEnvironment;
  readonly own: OwnAddresses;
  /** Whether a local URL with a token counts as ours: the configuration that has its port is gone. */
  readonly acceptsForm?: boolean;
}

type FileRequest = Pick<ClientConnectRequest, "client" | "scope" | "around">;

/** The first existing file of the scope, or the one that would be created. */
export async function chooseClientFile({ client, scope, around }: FileRequest): Promise<ClientFile> {
  const files = client.files(around).filter((file) => file.scope === scope);
  for (const file of files) if (await stat(file.path).catch(() => undefined)) return file;
  const [first] = files;
  if (first !== undefined) return first;
  const hint = "Omit --project to connect it for every project.";
  throw new QmError("invalid_arguments", `${client.title} has no file for a project`, { hint });
}

export async function readClientText(path: string) {
  const bytes = await addPathToErrors(path, () => readClientFile(path));
  if (bytes === undefined) return { path, before: undefined, text: "", hasBom: false };
  const { text, hasBom } = addPathToErrors(path, () => decodeClientText(bytes));
  return { path, before: encodeClientText(text, hasBom), text, hasBom };
}

export function addPathToErrors<T>(path: string, work: () => T): T {
  const withPath = (thrown: unknown) => {
    if (!(thrown instanceof QmError) || thrown.code !== "invalid_config") return thrown;
    const hint = thrown.hint ?? "Nothing was changed. Fix or remove the file, then try again.";
    return new QmError("invalid_config", `${path}: ${thrown.message}`, { hint });
  };
  try {
    const done = work();
    return done instanceof Promise ? (done.catch((thrown) => Promise.reject(withPath(thrown))) as T) : done;
  } catch (thrown) {
    throw withPath(thrown);
  }
}

export function toEntryLocation({ format }: ClientDefinition, { keys }: ClientFile, name: string): EntryLocation {
  return { format, keys, name };
}

export function listEntryNames(text: string, { format }: ClientDefinition, { keys }: ClientFile): readonly string[] {
  try {
    const listed = getDocumentValue(parseClientDocument(text, format), keys);
    return isRecord(listed) ? Object.keys(listed) : [];
  } catch {
    return [];
  }
}

/** Throws `invalid_arguments` if the client accepts no such name, and `conflict` if another server has it. */
export function requireFreeName(text: string, place: EntryLocation, request: ClientConnectRequest): void {
  const hint = "Choose another --name.";
  const problem = request.client.gateway.nameProblem?.(request.name);
  if (problem !== undefined) throw new QmError("invalid_arguments", problem, { hint });
  requireOurs(text, place, request, hint);
}

export function requireOurs(text: string, place: EntryLocation, request: ClientConnectRequest, hint: string): void {
  const { client, around, own, acceptsForm = false } = request;
  const entry = findEntry(text, place);
  if (entry === undefined || isOurs(entry, client, around, own)) return;
  if (acceptsForm && hasGatewayForm(readEntry(entry, client, around))) return;
  const name = `${quoteName(place.name)} of ${client.title}`;
  throw new QmError("conflict", `${name} is another server, not Quartermaster`, { hint });
}

export function isOurs(entry: unknown, client: ClientDefinition, around: ClientEnvironment, own: OwnAddresses) {
  const read = readEntry(entry, client, around);
  return read !== undefined && isOwnServer(read, own);
}

function readEntry(entry: unknown, client: ClientDefinition, { home, cwd }: ClientEnvironment) {
  if (!isRecord(entry)) return undefined;
  const quiet = () => {};
  const filling = { forms: [], home, folder: cwd, server: "", inputs: new Map(), note: quiet, reject: quiet };
  return readServerEntry(entry, { words: client.entryKeys, isOff: false, filling });
}

/** Whether an entry is what `qm connect --http` writes, on any port of this machine. */
function hasGatewayForm(entry: ServerEntry | undefined): boolean {
  const { url = "", headers = {} } = entry ?? {};
  const isTokenOnly =
    Object.keys(headers).join() === "Authorization" && /^Bearer \S+$/.test(headers.Authorization ?? "");
  return isTokenOnly && /^http:\/\/(?:127\.0\.0\.1|localhost|\[::1\]):\d+\/mcp$/.test(url);
}

/** The newest 20 backups of a file, newest first. A move has a label of its own, because undoing it restores entries. */
export async function listBackups(path: string, label: "bak" | "moved"): Promise<readonly string[]> {
  const start = `${basename(path)}.${label}-`;
  const names = await readdir(dirname(path)).catch(() => []);
  const backups = names.filter((name) => name.startsWith(start) && /^\d{8}T\d{6}Z$/.test(name.slice(start.length)));
  return backups
    .sort()
    .reverse()
    .slice(0, 20)
    .map((name) => join(dirname(path), name));
}

/**
 * Writes a planned change atomically, with a backup beside the file. Throws `conflict` if the file changed since
 * planning, and `action_failed` if it cannot be written.
 */
export async function applyFileChange(
  { path, before, after, moved = [], obsolete = [], isRestored = false }: FileChange,
  runtime: Pick<Runtime, "now" | "newId">,
): Promise<{ readonly backup?: string }> {
  if (after === before) return {};
  await requireWritable(path);
  const now = await readClientFile(path);
  if ((now === undefined ? undefined : Buffer.from(now).toString("utf8")) !== before)
    throw new QmError("conflict", `${path} was changed in the meantime`, { hint: "Nothing was written. Try again." });
  try {
    if (after === undefined) {
      await rm(path);
      return {};
    }
    if (before === undefined) {
      await mkdir(dirname(path), { recursive: true });
      // The file may contain a token.
      await replaceTextFile(path, after, { mode: 0o600, unique: runtime.newId() });
      return {};
    }
    const label = moved.length > 0 && obsolete.length === 0 ? "moved" : "bak";
    const backup = isRestored ? undefined : await backUpFile(path, runtime.now(), label);
    await replaceTextFile(path, after, { unique: runtime.newId() });
    for (const each of obsolete) await rm(each, { force: true });
    return backup === undefined ? {} : { backup };
  } catch (thrown) {
    const hint = "The file is unchanged. Use --print to see the entry and add it yourself.";
    const message = `${path} cannot be written: ${getErrorMessage(thrown)}`;
    throw new QmError("action_failed", message, { hint, cause: thrown });
  }
}

/** Respect a read-only file, although its folder would allow replacing it. */
async function requireWritable(path: string): Promise<void> {
  const link = await lstat(path).catch(() => undefined);
  const file = await stat(path).catch(() => undefined);
  const isBroken = link?.isSymbolicLink() && file === undefined;
  if (!isBroken && (file === undefined || (file.mode & 0o222) !== 0)) return;
  const why = isBroken ? "it is a broken link" : "it is read-only";
  const hint = "Nothing was changed. Use --print to see the entry and add it where the file comes from.";
  throw new QmError("action_failed", `${path} cannot be written: ${why}`, { hint });
}
