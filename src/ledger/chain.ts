import { hash } from "node:crypto";
import { canonicalJson } from "../core/json.ts";
import type { StoredEvent } from "./event-store.ts";

/** What a session's first line is chained to. */
export const CHAIN_START = "0".repeat(64);

/** Everything of a line that its hash vouches for. */
export type ChainedLine = Omit<StoredEvent, "id" | "hash">;

/**
 * The hash of a line, which binds it to all lines before it. A JSON array has one reading, so no two different lines
 * are hashed as the same text.
 */
export function lineHash(line: ChainedLine): string {
  return textHash(line, canonicalJson(line.data));
}

/** `lineHash` for who has the canonical text of the data at hand. */
export function textHash(line: Omit<ChainedLine, "data">, data: string): string {
  const { prev, session, seq, type, at, actor, tenant, turn, user, person, callId, action } = line;
  const text = JSON.stringify([prev, session, seq, type, at, actor, tenant, turn, user, person, callId, action, data]);
  return hash("sha256", text, "hex");
}
