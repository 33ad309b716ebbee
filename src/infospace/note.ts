import type { Json, JsonObject } from "../core/json.ts";
import { SEPARATOR } from "../core/names.ts";

/** `text` is a text, `json` any other JSON value, `file` bytes of some media type. */
export type NoteFormat = "text" | "json" | "file";

export const reaches = ["session", "actor", "tenant"] as const;

/**
 * Who may use it, always within one tenant: the user in the session it was made in, the user's same actor in whatever
 * session, or everybody of the tenant.
 */
export type Reach = (typeof reaches)[number];

/** Where something came from. */
export interface Origin {
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
export function sourcesOf({ action, sources = [] }: Pick<Origin, "action" | "sources">): readonly string[] {
  // A surface, such as the library, is no action.
  return action.includes(SEPARATOR) ? [action, ...sources] : sources;
}

/** The same origin with more sources. */
export function withSources(origin: Origin, more: readonly string[]): Origin {
  const { sources = [], ...rest } = origin;
  const all = new Set([...sources, ...more]);
  all.delete(origin.action);
  return all.size === 0 ? rest : { ...rest, sources: [...all].sort() };
}

/** What notes and collections have in common. */
interface Resource {
  readonly id: number;
  readonly name?: string;
  readonly properties: JsonObject;
  readonly origin: Origin;
  readonly reach: Reach;
  /** From 1. What was there before is in the history. */
  readonly version: number;
  readonly bytes: number;
  readonly changedAt: string;
  /** When it is forgotten. Absent: it was saved. */
  readonly expiresAt?: string;
}

/** Everything about a note but what it says. */
export interface NoteFacts extends Resource {
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
export interface Collection extends Resource {
  readonly count: number;
  /** False while it is being filled, and for ever when whoever filled it did not get to the end. */
  readonly complete: boolean;
}

/** One note of a collection, where it stands in it. */
export interface Item {
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
