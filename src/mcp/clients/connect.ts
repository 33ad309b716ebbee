import { stat } from "node:fs/promises";
import { QmError } from "../../core/errors.ts";
import { isRecord } from "../../core/json.ts";
import { quoted } from "../../core/names.ts";
import { backupsOf } from "./backups.ts";
import type { Client, ClientFile, Raw, Scope } from "./client.ts";
import { decoded, encoded, parsed, valueAt } from "./document.ts";
import { type EntryPlace, isSameAround, withEntry, withoutEntry } from "./edit.ts";
import { readEntry } from "./entry.ts";
import { isOurselves, type OwnAddresses } from "./ourselves.ts";
import { readBytes } from "./read.ts";
import type { Surroundings } from "./surroundings.ts";
import type { TextEdit } from "./text-edit.ts";

/** A change of a client's file that was thought through and not made yet. */
export interface FileChange {
  readonly path: string;
  /** What the file holds. Undefined: it is not there. */
  readonly before: string | undefined;
  /** What it is to hold. Undefined: it is to be gone, because it was made for us alone. */
  readonly after: string | undefined;
  /** What is different, in the text without a mark of its encoding. None: everything is as it is meant to be. */
  readonly edits: readonly TextEdit[];
  /** The copy that the file is made like again, which is not needed any more then. */
  readonly restores?: string;
}

export interface Connecting {
  readonly client: Client;
  readonly scope: Scope;
  /** What our entry is called. */
  readonly name: string;
  readonly around: Surroundings;
  readonly own: OwnAddresses;
}

/** What connecting would change. Throws `conflict` when something else has the name, and `invalid_config`. */
export async function planConnect(connecting: Connecting, entry: Raw): Promise<FileChange> {
  const { client, name } = connecting;
  const problem = client.gateway.nameProblem?.(name);
  if (problem !== undefined) throw new QmError("invalid_arguments", problem, { hint: "Give another --name." });
  const file = await fileOf(connecting);
  const { path, before, text, hasBom } = await opened(file.path);
  const place = placeOf(client, file, name);
  return told(path, () => {
    requireOurs(text, place, connecting, "Give another --name.");
    const { text: after, edits } = withEntry(text, place, entry);
    return { path, before, after: edits.length === 0 ? before : encoded(after, hasBom), edits };
  });
}

/**
 * What taking our entry out would change. A file that nobody else has changed since becomes what it was, byte for byte;
 * otherwise only the entry goes.
 */
export async function planDisconnect(connecting: Connecting): Promise<FileChange> {
  const { client, name } = connecting;
  const file = await fileOf(connecting);
  const { path, before, text, hasBom } = await opened(file.path);
  const place = placeOf(client, file, name);
  const removed = told(path, () => {
    requireOurs(text, place, connecting, "Nothing was changed.");
    return withoutEntry(text, place);
  });
  const { edits } = removed;
  if (edits.length === 0 || before === undefined) return { path, before, after: before, edits: [] };
  const entry = entryIn(text, place);
  for (const backup of await backupsOf(path)) {
    const was = await opened(backup).catch(() => undefined);
    if (was?.before !== undefined && was.hasBom === hasBom && leadsTo(was.text, text, place, entry))
      return { path, before, after: was.before, edits, restores: backup };
  }
  if (!hasBom && leadsTo("", text, place, entry)) return { path, before, after: undefined, edits };
  return { path, before, after: encoded(removed.text, hasBom), edits };
}

/** Whether, and under which names, a client's files have us. A file that cannot be read has us as far as anybody knows. */
export async function connectionsOf(
  client: Client,
  around: Surroundings,
  own: OwnAddresses,
): Promise<readonly { readonly path: string; readonly name: string; readonly scope: Scope }[]> {
  const connections = [];
  for (const file of client.files(around)) {
    const opening = await opened(file.path).catch(() => undefined);
    if (opening?.before === undefined) continue;
    for (const name of namesIn(opening.text, client, file)) {
      const entry = entryIn(opening.text, placeOf(client, file, name));
      if (isOurs(entry, client, around, own)) connections.push({ path: file.path, name, scope: file.scope });
    }
  }
  return connections;
}

/** The file that a scope's servers are in: the one that is there, or the one that would be made. */
export async function fileOf({
  client,
  scope,
  around,
}: Pick<Connecting, "client" | "scope" | "around">): Promise<ClientFile> {
  const files = client.files(around).filter((file) => file.scope === scope);
  for (const file of files) if (await stat(file.path).catch(() => undefined)) return file;
  const [first] = files;
  if (first !== undefined) return first;
  throw new QmError("invalid_arguments", `${client.title} has no file for a project`, {
    hint: "Leave --project out: it is connected for you, in every project.",
  });
}

async function opened(path: string) {
  const bytes = await told(path, () => readBytes(path));
  if (bytes === undefined) return { path, before: undefined, text: "", hasBom: false };
  const { text, hasBom } = told(path, () => decoded(bytes));
  return { path, before: encoded(text, hasBom), text, hasBom };
}

/** An error of a file, with the file. */
function told<T>(path: string, work: () => T): T {
  const withPath = (thrown: unknown) =>
    thrown instanceof QmError && thrown.code === "invalid_config"
      ? new QmError("invalid_config", `${path}: ${thrown.message}`, {
          hint: thrown.hint ?? "Nothing was changed. Mend the file, or remove it, and try again.",
        })
      : thrown;
  try {
    const done = work();
    if (done instanceof Promise) return done.catch((thrown) => Promise.reject(withPath(thrown))) as T;
    return done;
  } catch (thrown) {
    throw withPath(thrown);
  }
}

function placeOf({ format }: Client, { keys }: ClientFile, name: string): EntryPlace {
  return { format, keys, name };
}

function entryIn(text: string, { format, keys, name }: EntryPlace): unknown {
  return valueAt(parsed(text, format), [...keys, name]);
}

function namesIn(text: string, { format }: Client, { keys }: ClientFile): readonly string[] {
  try {
    const listed = valueAt(parsed(text, format), keys);
    return isRecord(listed) ? Object.keys(listed) : [];
  } catch {
    return [];
  }
}

function requireOurs(text: string, place: EntryPlace, { client, around, own }: Connecting, hint: string): void {
  const entry = entryIn(text, place);
  if (entry === undefined || isOurs(entry, client, around, own)) return;
  throw new QmError("conflict", `${quoted(place.name)} of ${client.title} is another server, not Quartermaster`, {
    hint,
  });
}

function isOurs(entry: unknown, { words }: Client, around: Surroundings, own: OwnAddresses): boolean {
  if (!isRecord(entry)) return false;
  const quiet = () => {};
  const filling = { forms: [], home: around.home, folder: around.cwd, server: "", inputs: new Map(), note: quiet };
  const read = readEntry(entry, { words, isOff: false, filling: { ...filling, unfit: quiet } });
  return read !== undefined && isOurselves(read, own);
}

/** Whether connecting, and nothing else, makes one text of another. */
function leadsTo(from: string, to: string, place: EntryPlace, entry: unknown): boolean {
  if (!isRecord(entry)) return false;
  try {
    if (entryIn(from, place) !== undefined) return false;
    return isSameAround(withEntry(from, place, entry).text, to, place);
  } catch {
    return false;
  }
}
