import { QmError } from "../core/errors.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { type ActionName, actionName, quoteName, SEPARATOR } from "../core/names.ts";

/** What a handle can lead to. The kinds are categories of actions: invoking one loads it. */
export type ResourceKind = "note" | "collection";

/** A handle taken apart. */
export interface ParsedHandle {
  readonly kind: ResourceKind;
  readonly id: number;
}

const HANDLE = /^(note|collection)__([1-9]\d{0,14})$/;

/** The reading of `note__12` or `collection__7`; undefined for everything else. */
export function parseHandle(text: string): ParsedHandle | undefined {
  const [, kind, id] = HANDLE.exec(text) ?? [];
  return kind === undefined ? undefined : { kind: kind as ResourceKind, id: Number(id) };
}

export function formatHandle(kind: ResourceKind, id: number): ActionName {
  return actionName(kind, String(id));
}

export function notAHandleError(asked: string): QmError {
  return new QmError("not_found", `${quoteName(asked)} is neither a handle nor the name of something here`, {
    hint: "A handle is note__<number> or collection__<number>, as the answer that kept it has it. infospace__search-collections and infospace__search-notes with an empty query list the newest.",
    details: { handle: asked },
  });
}

export function versionNotFoundError(handle: string, asked: number, present: number): QmError {
  return new QmError("not_found", `${handle} has no version ${asked}`, {
    hint: `It is at version ${present}; those before it are counted from 1.`,
    details: { handle, version: present },
  });
}

export function wrongKindError(handle: string, wanted: ResourceKind): QmError {
  return new QmError("invalid_arguments", `${handle} is not a ${wanted}`, {
    hint:
      wanted === "collection"
        ? "Make a collection of it with infospace__split or infospace__create-collection."
        : "Take a note of the collection, or make one of it with infospace__flatten.",
  });
}

export function handleNotFoundError(handle: string): QmError {
  return new QmError("not_found", `there is no ${quoteName(handle)} here`, {
    hint: "What is not saved is forgotten after a while. infospace__search-collections and infospace__search-notes find what is there; or make it again.",
    details: { handle },
  });
}

/** `text` is a text, `json` any other JSON value, `file` bytes of some media type. */
export type NoteFormat = "text" | "json" | "file";

export const noteVisibilities = ["session", "actor", "tenant"] as const;

/**
 * Who may use it, always within one tenant: the user in the session it was made in, the user's same actor in whatever
 * session, or everybody of the tenant.
 */
export type NoteVisibility = (typeof noteVisibilities)[number];

/** Where something came from. */
export interface NoteOrigin {
  /** The action whose call made it, or the surface where no action did. */
  readonly action: string;
  /** The other actions whose data is in it, sorted. Absent: none. */
  readonly sources?: readonly string[];
  readonly callId: string;
  readonly actor: string;
  readonly session: string;
  readonly turn?: string;
  /** Absent: of nobody in particular, and reached only by those without one. */
  readonly tenant?: string;
  readonly user?: string;
  /** ISO 8601, UTC. */
  readonly at: string;
}

/** Every action that something came from. A caller that may not see one of them may not know of it. */
export function listSources({ action, sources = [] }: Pick<NoteOrigin, "action" | "sources">): readonly string[] {
  // A surface, such as the library, is no action.
  return action.includes(SEPARATOR) ? [action, ...sources] : sources;
}

/** The same origin with more sources. */
export function mergeSources(origin: NoteOrigin, more: readonly string[]): NoteOrigin {
  const { sources = [], ...rest } = origin;
  const all = new Set([...sources, ...more]);
  all.delete(origin.action);
  return all.size === 0 ? rest : { ...rest, sources: [...all].sort() };
}

/** What notes and collections have in common. */
interface StoredResource {
  readonly id: number;
  readonly name?: string;
  readonly properties: JsonObject;
  readonly origin: NoteOrigin;
  readonly reach: NoteVisibility;
  /** From 1. What was there before is in the history. */
  readonly version: number;
  readonly bytes: number;
  readonly changedAt: string;
  /** When it is forgotten. Absent: it was saved. */
  readonly expiresAt?: string;
}

/** Everything about a note but what it says. */
export interface NoteFacts extends StoredResource {
  readonly format: NoteFormat;
  /** SHA-256 of the content. */
  readonly hash: string;
  /** The collection it was made for. Absent: it was made on its own. */
  readonly partOf?: number;
}

export interface Note extends NoteFacts {
  /** Of a file: `{ media_type, size, base64 }`. */
  readonly content: Json;
}

/** An ordered list of notes. The same note may be in several, and more than once. */
export interface Collection extends StoredResource {
  readonly count: number;
  /** False while it is being filled, and for ever when whoever filled it did not get to the end. */
  readonly complete: boolean;
}

/** One note of a collection, where it stands in it. */
export interface CollectionItem {
  readonly position: number;
  readonly id: number;
  readonly content: Json;
  readonly bytes: number;
  readonly hash: string;
}

/** An earlier state of a note. */
export interface NoteVersion {
  readonly version: number;
  readonly format: NoteFormat;
  readonly hash: string;
  readonly bytes: number;
  readonly changedAt: string;
}
