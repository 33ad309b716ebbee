import { hash } from "node:crypto";
import { canonicalJson } from "../core/json.ts";
import type { StoredEvent } from "./event-store.ts";

/** The `prev` of a session's first line. */
export const CHAIN_START = "0".repeat(64);
export type ChainedLine = Omit<StoredEvent, "id" | "hash">;

/** The hash of a line, which binds it to all lines before it. */
export const hashLine = (line: ChainedLine): string => hashLineText(line, canonicalJson(line.data));

/** `hashLine` with the canonical JSON of the data. Hashes a JSON array, so that no two lines give the same text. */
export function hashLineText(line: Omit<ChainedLine, "data">, data: string): string {
  const { prev, session, seq, type, at, actor, tenant, turn, user, person, callId, action } = line;
  const text = JSON.stringify([prev, session, seq, type, at, actor, tenant, turn, user, person, callId, action, data]);
  return hash("sha256", text, "hex");
}
