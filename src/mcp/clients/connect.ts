import { isRecord } from "../../core/json.ts";
import { encodeClientText } from "./client-document.ts";
import {
  addPathToErrors,
  type ClientConnectRequest,
  chooseClientFile,
  type FileChange,
  isOurs,
  listBackups,
  listEntryNames,
  readClientText,
  requireFreeName,
  requireOurs,
  toEntryLocation,
} from "./client-file.ts";
import type { ClientEnvironment } from "./client-paths.ts";
import type { ClientDefinition, ClientFile, ClientScope, RawEntry } from "./clients.ts";
import { type EntryLocation, findEntry, isSameExceptEntry, putEntry, removeEntry } from "./edit-entry.ts";
import { restoreMoved } from "./move.ts";
import type { OwnAddresses } from "./read-clients.ts";

/** Plans the change. Throws `conflict` if another server has the name, and `invalid_config`. */
export async function planConnect(connecting: ClientConnectRequest, entry: RawEntry): Promise<FileChange> {
  const { path, before, text, hasBom, place } = await openClientFile(connecting);
  return addPathToErrors(path, () => {
    requireFreeName(text, place, connecting);
    const { text: after, edits } = putEntry(text, place, entry);
    return { path, before, after: edits.length === 0 ? before : encodeClientText(after, hasBom), edits };
  });
}

/**
 * Plans the removal of our entry, and puts moved entries back. A file that has not changed since connecting is restored
 * byte for byte. Otherwise only the entries are edited.
 */
export async function planDisconnect(connecting: ClientConnectRequest): Promise<readonly FileChange[]> {
  const { client, scope, around } = connecting;
  const own = await chooseClientFile(connecting);
  const others = client.files(around).filter((file) => file.scope === scope && file.path !== own.path);
  const changes = [await planOwnDisconnect(connecting, own)];
  for (const path of new Set(others.map((file) => file.path))) {
    const { before, text, hasBom } = await readClientText(path);
    const restored = await addPathToErrors(path, () => restoreMoved(connecting, { path, text, hasBom }));
    if (before === undefined || restored.moved.length === 0) continue;
    changes.push({ ...restored, path, before, after: encodeClientText(restored.text, hasBom), edits: [] });
  }
  return changes;
}

async function planOwnDisconnect(connecting: ClientConnectRequest, file: ClientFile): Promise<FileChange> {
  const { path, before, text, hasBom } = await readClientText(file.path);
  const place = toEntryLocation(connecting.client, file, connecting.name);
  const { edits } = addPathToErrors(path, () => {
    requireOurs(text, place, connecting, "Nothing was changed.");
    return removeEntry(text, place);
  });
  const { text: unmoved, ...restored } = await restoreMoved(connecting, { path, text, hasBom });
  if (before === undefined || (edits.length === 0 && restored.moved.length === 0))
    return { path, before, after: before, edits: [] };
  const entry = findEntry(unmoved, place);
  const change = { ...restored, path, before, edits };
  if (entry === undefined) return { ...change, after: encodeClientText(unmoved, hasBom) };
  const isExact = restored.isRestored || restored.moved.length === 0;
  for (const backup of isExact ? await listBackups(path, "bak") : []) {
    const was = await readClientText(backup).catch(() => undefined);
    if (was?.before !== undefined && was.hasBom === hasBom && canProduce(was.text, unmoved, place, entry))
      return { ...change, after: was.before, obsolete: [...restored.obsolete, backup], isRestored: true };
  }
  if (!hasBom && canProduce("", unmoved, place, entry)) return { ...change, after: undefined };
  return { ...change, after: encodeClientText(removeEntry(unmoved, place).text, hasBom), isRestored: false };
}

/** Lists our entries in the files of a client. Skips files that cannot be read. */
export async function listClientConnections(
  client: ClientDefinition,
  around: ClientEnvironment,
  own: OwnAddresses,
): Promise<readonly { readonly path: string; readonly name: string; readonly scope: ClientScope }[]> {
  const connections = [];
  for (const file of client.files(around)) {
    const opening = await readClientText(file.path).catch(() => undefined);
    if (opening?.before === undefined) continue;
    for (const name of listEntryNames(opening.text, client, file)) {
      const entry = findEntry(opening.text, toEntryLocation(client, file, name));
      if (isOurs(entry, client, around, own)) connections.push({ path: file.path, name, scope: file.scope });
    }
  }
  return connections;
}

async function openClientFile(connecting: ClientConnectRequest) {
  const file = await chooseClientFile(connecting);
  return { ...(await readClientText(file.path)), place: toEntryLocation(connecting.client, file, connecting.name) };
}

/** Whether connecting alone turns one text into the other. */
function canProduce(from: string, to: string, place: EntryLocation, entry: unknown): boolean {
  if (!isRecord(entry)) return false;
  try {
    if (findEntry(from, place) !== undefined) return false;
    return isSameExceptEntry(putEntry(from, place, entry).text, to, place);
  } catch {
    return false;
  }
}
