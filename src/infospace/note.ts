import { QmError } from "../core/errors.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { type ActionName, actionName, HANDLE_FORM, quoteName, SEPARATOR } from "../core/names.ts";

/** Both kinds are categories of actions: invoking a handle loads the resource. */
export type ResourceKind = "note" | "collection";

interface StoredResource {
  readonly id: number;
  readonly name?: string;
  readonly properties: JsonObject;
  readonly origin: NoteOrigin;
  readonly reach: NoteVisibility;
  /** From 1. */
  readonly version: number;
  readonly bytes: number;
  readonly changedAt: string;
  /** Absent: it was saved. */
  readonly expiresAt?: string;
}

/** A note without its content. */
export interface NoteFacts extends StoredResource {
  readonly format: NoteFormat;
  /** SHA-256 of the content. */
  readonly hash: string;
  /** The collection it was made for. Absent: it was made on its own. */
  readonly partOf?: number;
}

/** The content of a file is `{ media_type, size, base64 }`. */
export type Note = NoteFacts & { readonly content: Json };

/** An ordered list of notes. A note may be in several collections, and more than once in each. */
export interface Collection extends StoredResource {
  readonly count: number;
  /** False while it is being filled, and for good if filling it was interrupted. */
  readonly complete: boolean;
}

export type Resource = NoteFacts | Collection;
export type CollectionItem = Readonly<{ position: number; id: number; content: Json; bytes: number; hash: string }>;
export type NoteVersion = Pick<NoteFacts, "version" | "format" | "hash" | "bytes" | "changedAt">;

/** `text` is a text, `json` any other JSON value, `file` bytes of a media type. */
export type NoteFormat = "text" | "json" | "file";
export const DEFAULT_MEDIA_TYPE = "application/octet-stream";

/** Visible within its tenant to its user in its session, its user and actor in any session, or everyone. */
export const noteVisibilities = ["session", "actor", "tenant"] as const;
export type NoteVisibility = (typeof noteVisibilities)[number];

export interface NoteOrigin {
  /** The action whose call made it, or a surface such as `library`. */
  readonly action: string;
  /** Other actions whose data is in it, sorted. Absent: none. */
  readonly sources?: readonly string[];
  readonly callId: string;
  readonly actor: string;
  readonly session: string;
  readonly turn?: string;
  /** Absent: only callers without a tenant can use it. */
  readonly tenant?: string;
  readonly user?: string;
  /** ISO 8601, UTC. */
  readonly at: string;
}

/** Every action that the data came from. A caller that may not see one of them may not see the resource. */
export function listSources({ action, sources = [] }: Pick<NoteOrigin, "action" | "sources">): readonly string[] {
  // A surface such as `library` is not an action.
  return action.includes(SEPARATOR) ? [action, ...sources] : sources;
}

export function mergeSources(origin: NoteOrigin, more: readonly string[]): NoteOrigin {
  const { sources = [], ...rest } = origin;
  const all = new Set([...sources, ...more]);
  all.delete(origin.action);
  return all.size === 0 ? rest : { ...rest, sources: [...all].sort() };
}

export type ParsedHandle = Readonly<{ kind: ResourceKind; id: number }>;

/** Undefined for any text but `note__12` or `collection__7`. */
export function parseHandle(text: string): ParsedHandle | undefined {
  const [, kind, id] = HANDLE_FORM.exec(text) ?? [];
  return kind === undefined ? undefined : { kind: kind as ResourceKind, id: Number(id) };
}

export function formatHandle(kind: ResourceKind, id: number): ActionName {
  return actionName(kind, String(id));
}

export function getResourceKind(resource: Resource): ResourceKind {
  return "count" in resource ? "collection" : "note";
}

export function notAHandleError(asked: string): QmError {
  return new QmError("not_found", `${quoteName(asked)} is neither a handle nor the name of a note or collection`, {
    hint: "A handle is note__<number> or collection__<number>. {infospace__search-collections} with an empty query lists the newest collections. {infospace__search-notes} with an empty query lists the newest notes.",
    details: { handle: asked },
  });
}

export function handleNotFoundError(handle: string): QmError {
  const hint =
    "What is not saved expires after a while. Make it again. Find collections with {infospace__search-collections}. Find notes with {infospace__search-notes}.";
  return new QmError("not_found", `there is no ${quoteName(handle)} here`, { hint, details: { handle } });
}

export function versionNotFoundError(handle: string, asked: number, present: number): QmError {
  const hint = `Its current version is ${present}. Earlier ones are counted from 1.`;
  return new QmError("not_found", `${handle} has no version ${asked}`, { hint, details: { handle, version: present } });
}

export function wrongKindError(handle: string, wanted: ResourceKind): QmError {
  const hint =
    wanted === "collection"
      ? "Make a collection of it. {infospace__split} splits one note. {infospace__create-collection} collects several."
      : "Take a note of the collection. Make one of it with {infospace__flatten}.";
  return new QmError("invalid_arguments", `${handle} is not a ${wanted}`, { hint });
}
