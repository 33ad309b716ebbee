import { hash } from "node:crypto";
import { QmError } from "../../core/errors.ts";
import { canonicalJson, clip, isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { didYouMean } from "../../core/nearest.ts";
import type { JsonPath, PathResult } from "../json-path.ts";
import { formatKey, getJsonKind } from "../json-preview.ts";
import type { CollectionSampler } from "../preview.ts";

/** `id`: the id of its note. Absent: a plain value. */
export type PrimitiveItem = Readonly<{ id?: number; content: Json }>;
export type PrimitiveItems = Iterable<PrimitiveItem> | AsyncIterable<PrimitiveItem>;

/** The items that an operation makes, to be read once, and a report that is final after the last item. */
export type DerivedItems<Report = JsonObject> = { readonly items: AsyncIterable<PrimitiveItem>; report(): Report };

export async function* toItems(values: Iterable<Json>): AsyncGenerator<PrimitiveItem> {
  for (const content of values) yield { content };
}

/** Existing notes go into a collection by id, plain values as new notes. `sampler` sees the contents. */
export async function* streamMembers(inputs: AsyncIterable<PrimitiveItem>, sampler?: CollectionSampler) {
  for await (const { id, content } of inputs) {
    sampler?.take(content);
    yield id === undefined ? { content } : { id };
  }
}

/** The first `limit` items. Does not read further. */
export async function* takeFirst(inputs: PrimitiveItems, limit: number): AsyncGenerator<PrimitiveItem> {
  if (limit <= 0) return;
  let count = 0;
  for await (const input of inputs) {
    yield input;
    if (++count >= limit) return;
  }
}

const SAMPLED_ITEMS = 100;
const MAX_NAMES = 1_000;
const LISTED_NAMES = 20;

/** Collects the field names of the first items, for the error about a missing field. */
export function createFieldNames() {
  const names = new Set<string>();
  const kinds = new Set<string>();
  let sampled = 0;
  return {
    take(content: Json): void {
      if (sampled === SAMPLED_ITEMS) return;
      sampled++;
      kinds.add(getJsonKind(content));
      if (!isRecord(content)) return;
      for (const name of Object.keys(content)) if (names.size < MAX_NAMES) names.add(name);
    },
    /** `they have: id, status`, and the name that was likely meant. */
    describe(asked?: string): string {
      if (names.size === 0) return `they have no fields: each is ${[...kinds].map(addArticle).join(" or ")}`;
      const more = names.size > LISTED_NAMES ? `, and ${names.size - LISTED_NAMES} more` : "";
      const listed = [...names].slice(0, LISTED_NAMES).map(formatKey).join(", ");
      return `they have: ${listed}${more}${asked === undefined ? "" : didYouMean(asked, names)}`;
    },
  };
}

export type FieldNames = ReturnType<typeof createFieldNames>;

/** `a string`, `an object`, `null`. */
export function addArticle(kind: string): string {
  if (kind === "null") return kind;
  return `${/^[aeiou]/.test(kind) ? "an" : "a"} ${kind}`;
}

/** Tracks whether any item has a value at a path; null counts as a value. */
export function createPathPresence({ text, steps }: JsonPath, hint?: string) {
  const names = createFieldNames();
  let isPresent = false;
  let firstMissing: string | undefined;
  return {
    take(content: Json, found: PathResult): void {
      isPresent ||= found.found;
      if (isPresent || found.found) return;
      firstMissing ??= found.missing;
      names.take(content);
    },
    /** Throws `not_found` if there were items and none has the path. */
    require(side = ""): void {
      if (isPresent || firstMissing === undefined) return;
      const [name] = steps;
      const why = steps.length === 1 && typeof name === "string" ? names.describe(name) : firstMissing;
      const facts = { details: { path: text }, ...(hint === undefined ? {} : { hint }) };
      throw new QmError("not_found", `no item${side} has ${formatKey(text)}: ${why}`, facts);
    },
  };
}

/** For each path with missing values: how many items have nothing or null there. */
export function reportMissing(paths: readonly { readonly path: JsonPath; readonly missing: number }[]) {
  return paths.filter(({ missing }) => missing > 0).map(({ path, missing }) => ({ path: path.text, count: missing }));
}

/** Why something happened to the item at a position of the input. */
export type ItemReason = { readonly position: number; readonly reason: string };
const MAX_REASONS = 3;
const REASON_LIMIT = 300;

export function createReasonLog(): { add(position: number, reason: string): void; first(): readonly ItemReason[] } {
  const reasons: ItemReason[] = [];
  return {
    add(position, reason) {
      if (reasons.length < MAX_REASONS) reasons.push({ position, reason: clip(reason, REASON_LIMIT) });
    },
    first: () => reasons,
  };
}

const KEY_LIMIT = 64;

/** A short key that is equal for equal JSON. */
export function hashKey(value: Json): string {
  const text = canonicalJson(value);
  return text.length <= KEY_LIMIT ? text : `#${hash("sha256", text, "base64")}`;
}

/** `wanted`, or `wanted_2`, `wanted_3`… if that is taken. */
export function findFreeName(wanted: string, isTaken: (name: string) => boolean): string {
  let name = wanted;
  for (let number = 2; isTaken(name); number++) name = `${wanted}_${number}`;
  return name;
}
