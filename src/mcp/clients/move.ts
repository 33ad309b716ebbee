import { encodeClientText } from "./client-document.ts";
import {
  addPathToErrors,
  type ClientConnectRequest,
  chooseClientFile,
  type FileChange,
  listBackups,
  listEntryNames,
  readClientText,
  requireFreeName,
  toEntryLocation,
} from "./client-file.ts";
import type { ClientFile, RawEntry } from "./clients.ts";
import { findEntry, isSameExceptEntry, putEntry, removeEntry } from "./edit-entry.ts";
import type { ImportSource } from "./plan-import.ts";

/** Plans to take entries out of the client's files, and to add ours if `entry` is given. */
export async function planMove(
  request: ClientConnectRequest,
  entry: RawEntry | undefined,
  sources: readonly ImportSource[],
): Promise<readonly FileChange[]> {
  const own = await chooseClientFile(request);
  const changes: FileChange[] = [];
  for (const path of new Set([own.path, ...sources.map((source) => source.path)])) {
    const { before, text, hasBom } = await readClientText(path);
    const isMoved = ({ part }: ClientFile, name: string) =>
      sources.some((source) => source.path === path && source.part === part && source.called === name);
    const change = addPathToErrors(path, () => {
      const { text: without, moved } = removeEntries(request, path, text, isMoved);
      if (path !== own.path || entry === undefined) return { text: without, moved, edits: [] };
      const place = toEntryLocation(request.client, own, request.name);
      requireFreeName(without, place, request);
      return { moved, ...putEntry(without, place, entry) };
    });
    const { moved, edits } = change;
    const isSame = moved.length === 0 && edits.length === 0;
    changes.push({ path, before, after: isSame ? before : encodeClientText(change.text, hasBom), edits, moved });
  }
  return changes;
}

interface ClientText {
  readonly path: string;
  readonly text: string;
  readonly hasBom: boolean;
}

/**
 * Puts the entries of earlier moves back. `isRestored`: the file has not changed since the move, and the text is that of
 * its backup. `obsolete`: the backups that are then no longer needed.
 */
export async function restoreMoved(request: ClientConnectRequest, { path, text, hasBom }: ClientText) {
  let [current, isRestored] = [text, true];
  const moved: string[] = [];
  const obsolete: string[] = [];
  for (const backup of await listBackups(path, "moved")) {
    const was = await readClientText(backup).catch(() => undefined);
    if (was === undefined) continue;
    const now = current;
    const isMissing = (file: ClientFile, name: string) =>
      name !== request.name && findEntry(now, toEntryLocation(request.client, file, name)) === undefined;
    const { text: without, moved: missing } = removeEntries(request, path, was.text, isMissing);
    obsolete.push(backup);
    if (missing.length === 0) continue;
    moved.push(...missing);
    if (was.hasBom === hasBom && (await isSameExceptOurs(request, without, now))) {
      current = was.text;
      continue;
    }
    isRestored = false;
    for (const file of listParts(request, path))
      for (const name of listEntryNames(was.text, request.client, file)) {
        const location = toEntryLocation(request.client, file, name);
        if (isMissing(file, name))
          current = putEntry(current, location, findEntry(was.text, location) as RawEntry).text;
      }
  }
  return { text: current, moved, obsolete, isRestored: isRestored && moved.length > 0 };
}

async function isSameExceptOurs(request: ClientConnectRequest, before: string, after: string): Promise<boolean> {
  const place = toEntryLocation(request.client, await chooseClientFile(request), request.name);
  const entry = findEntry(after, place) as RawEntry | undefined;
  const connected = entry === undefined ? before : putEntry(before, place, entry).text;
  return isSameExceptEntry(connected, after, place);
}

/** Removes entries in the order of the file, so that undoing can repeat the same edits. */
function removeEntries(
  request: ClientConnectRequest,
  path: string,
  text: string,
  isRemoved: (file: ClientFile, name: string) => boolean,
) {
  let without = text;
  const moved: string[] = [];
  for (const file of listParts(request, path))
    for (const name of listEntryNames(text, request.client, file).filter((each) => isRemoved(file, each))) {
      without = removeEntry(without, toEntryLocation(request.client, file, name)).text;
      moved.push(name);
    }
  return { text: without, moved };
}

const listParts = ({ client, around }: ClientConnectRequest, path: string): readonly ClientFile[] =>
  client.files(around).filter((file) => file.path === path);
