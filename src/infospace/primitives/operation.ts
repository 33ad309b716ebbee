import { hash } from "node:crypto";
import { QmError } from "../../core/errors.ts";
import { canonicalJson, clip, isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { didYouMean } from "../../core/nearest.ts";
import type { JsonPath, PathResult } from "../json-path.ts";
import { formatKey, getJsonKind } from "../json-preview.ts";

const LOOKED_AT = 100;
const REMEMBERED = 1_000;
const NAMED = 20;

/** The names of the fields of the first items, for whoever asked for one that is not there. */
export interface FieldNames {
  take(content: Json): void;
  /** `they have: id, status`, and the name that was likely meant. */
  describe(asked?: string): string;
}

export function createFieldNames(): FieldNames {
  const names = new Set<string>();
  const kinds = new Set<string>();
  let looked = 0;
  return {
    take(content) {
      if (looked === LOOKED_AT) return;
      looked++;
      kinds.add(getJsonKind(content));
      if (!isRecord(content)) return;
      for (const name of Object.keys(content)) if (names.size < REMEMBERED) names.add(name);
    },
    describe(asked) {
      if (names.size === 0) return `they have no fields: each is ${[...kinds].map(addArticle).join(" or ")}`;
      const more = names.size > NAMED ? `, and ${names.size - NAMED} more` : "";
      const listed = [...names].slice(0, NAMED).map(formatKey).join(", ");
      return `they have: ${listed}${more}${asked === undefined ? "" : didYouMean(asked, names)}`;
    },
  };
}

/** `a string`, `an object`, `null`. */
export function addArticle(kind: string): string {
  if (kind === "null") return kind;
  return `${/^[aeiou]/.test(kind) ? "an" : "a"} ${kind}`;
}

/** Whether any item has something at a path; null is something. */
export interface PathPresence {
  take(content: Json, found: PathResult): void;
  /** Throws `not_found`, with what there is, where items came and none has it. */
  require(whose?: string): void;
}

export function createPathPresence({ text, steps }: JsonPath, hint?: string): PathPresence {
  const names = createFieldNames();
  let isThere = false;
  let first: string | undefined;
  return {
    take(content, found) {
      if (isThere || found.found) {
        isThere = true;
        return;
      }
      first ??= found.missing;
      names.take(content);
    },
    require(whose = "") {
      if (isThere || first === undefined) return;
      const [name] = steps;
      const why = steps.length === 1 && typeof name === "string" ? names.describe(name) : first;
      throw new QmError("not_found", `no item${whose} has ${formatKey(text)}: ${why}`, {
        details: { path: text },
        ...(hint === undefined ? {} : { hint }),
      });
    },
  };
}

/** One of what an operation goes over. */
export interface PrimitiveItem {
  /** Of its note. Absent: a value that was given as it is. */
  readonly id?: number;
  readonly content: Json;
}

export type PrimitiveItems = Iterable<PrimitiveItem> | AsyncIterable<PrimitiveItem>;

/** What an operation makes, as it makes it, and what became of everything it was given. */
export interface DerivedItems<Report extends JsonObject> {
  /** To be read once. */
  readonly items: AsyncIterable<PrimitiveItem>;
  /** Whole once the items have been read to their end. */
  report(): Report;
}

/** Why something happened to the item at a position of the input. */
export type ItemReason = { readonly position: number; readonly reason: string };

const REASONS = 3;
const REASON_LIMIT = 300;

/** The first few reasons: they show what is wrong, and a million of them would not show more. */
export function createReasonLog(): { add(position: number, reason: string): void; first(): readonly ItemReason[] } {
  const kept: ItemReason[] = [];
  return {
    add(position, reason) {
      if (kept.length < REASONS) kept.push({ position, reason: clip(reason, REASON_LIMIT) });
    },
    first: () => kept,
  };
}

const KEY_LIMIT = 64;

/** Equal for equal JSON, and short however long that is. */
export function hashKey(value: Json): string {
  const text = canonicalJson(value);
  return text.length <= KEY_LIMIT ? text : `#${hash("sha256", text, "base64")}`;
}

/** The first `limit` of them. What comes after is not read. */
export async function* takeFirst(inputs: PrimitiveItems, limit: number): AsyncGenerator<PrimitiveItem> {
  if (limit <= 0) return;
  let count = 0;
  for await (const input of inputs) {
    yield input;
    if (++count >= limit) return;
  }
}
