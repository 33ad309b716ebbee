import { hash } from "node:crypto";
import { canonicalJson, clip, type Json, type JsonObject } from "../../core/json.ts";

/** One of what an operation goes over. */
export interface Input {
  /** Of its note. Absent: a value that was given as it is. */
  readonly id?: number;
  readonly content: Json;
}

export type Inputs = Iterable<Input> | AsyncIterable<Input>;

/** What an operation makes, as it makes it, and what became of everything it was given. */
export interface Derived<Report extends JsonObject> {
  /** To be read once. */
  readonly items: AsyncIterable<Input>;
  /** Whole once the items have been read to their end. */
  report(): Report;
}

/** Why something happened to the item at a position of the input. */
export type Reason = { readonly position: number; readonly reason: string };

const REASONS = 3;
const REASON_LIMIT = 300;

/** The first few reasons: they show what is wrong, and a million of them would not show more. */
export function createReasons(): { add(position: number, reason: string): void; first(): readonly Reason[] } {
  const kept: Reason[] = [];
  return {
    add(position, reason) {
      if (kept.length < REASONS) kept.push({ position, reason: clip(reason, REASON_LIMIT) });
    },
    first: () => kept,
  };
}

const KEY_LIMIT = 64;

/** Equal for equal JSON, and short however long that is. */
export function keyOf(value: Json): string {
  const text = canonicalJson(value);
  return text.length <= KEY_LIMIT ? text : `#${hash("sha256", text, "base64")}`;
}

/** The first `limit` of them. What comes after is not read. */
export async function* head(inputs: Inputs, limit: number): AsyncGenerator<Input> {
  if (limit <= 0) return;
  let count = 0;
  for await (const input of inputs) {
    yield input;
    if (++count >= limit) return;
  }
}
