import { QmError } from "../../core/errors.ts";
import { canonicalJson, isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { type JsonPath, readJsonPath } from "../json-path.ts";
import { formatKey } from "../json-preview.ts";
import type { PrimitiveItem } from "./operation.ts";
import { createPathPresence, type DerivedItems, hashKey, type PrimitiveItems } from "./operation.ts";

export const joinKinds = ["inner", "left", "right", "outer"] as const;
export type JoinKind = (typeof joinKinds)[number];

/** What becomes of a field that both sides have with different values. */
export const clashModes = ["prefix", "left", "right", "error"] as const;
export type ClashMode = (typeof clashModes)[number];

export interface JoinOptions {
  /** Two items belong together when all of these are equal. */
  readonly on: readonly { readonly left: JsonPath; readonly right: JsonPath }[];
  readonly kind: JoinKind;
  /** `prefix`: both are kept, the right's as `right_<name>`. */
  readonly clash: ClashMode;
  /** How many rows are made at most. */
  readonly limit: number;
}

type SideCounts = { readonly left: number; readonly right: number };

export type JoinReport = {
  readonly input: SideCounts;
  /** Items that are in no row because nothing fits them and the kind does not keep such. */
  readonly dropped: SideCounts;
  /** Items that nothing fits. */
  readonly unmatched: SideCounts;
  /** Of those, the ones with nothing, or null, at a key: they fit nothing, not even each other. */
  readonly without_key: SideCounts;
  /** Items whose key an earlier one of the same side has. Each makes its own rows. */
  readonly repeated_keys: SideCounts;
  /** Fields that both sides had with different values, and in how many rows. */
  readonly clashes: readonly { readonly field: string; readonly rows: number }[];
  readonly limit_reached: boolean;
  /** Rows that were not made because of the limit. */
  readonly rows_left_out: number;
};

const CLASHING_FIELDS = 20;

/**
 * Rows of a left and a right item that belong together, in the order of the left, then of the right; at the end the right
 * ones that nothing fits. An item that is no object stands in a row as `value`. Holds the right side. Throws `not_found`
 * for a side that has items and none with its key.
 */
export function joinItems(
  left: PrimitiveItems,
  right: PrimitiveItems,
  { on, kind, clash, limit }: JoinOptions,
): DerivedItems<JoinReport> {
  const keepsLeft = kind === "left" || kind === "outer";
  const keepsRight = kind === "right" || kind === "outer";
  const input = { left: 0, right: 0 };
  const unmatched = { left: 0, right: 0 };
  const withoutKey = { left: 0, right: 0 };
  const repeated = { left: 0, right: 0 };
  const clashes = new Map<string, number>();
  const recordClash = (field: string): void => {
    if (clash === "error") throw clashError(field);
    clashes.set(field, (clashes.get(field) ?? 0) + 1);
  };
  let made = 0;
  let leftOut = 0;

  const keys = { left: createJoinKeys(on, "left"), right: createJoinKeys(on, "right") };

  function* row(content: () => JsonObject): Generator<PrimitiveItem> {
    if (made >= limit) {
      leftOut++;
      return;
    }
    made++;
    yield { content: content() };
  }

  async function* items(): AsyncGenerator<PrimitiveItem> {
    const rights: { readonly fields: JsonObject; readonly bucket: Bucket }[] = [];
    const byKey = new Map<string, Bucket>();
    for await (const { content } of right) {
      input.right++;
      const fields = toFields(content);
      const key = keys.right.of(content);
      const same = key === undefined ? undefined : byKey.get(key);
      const bucket = same ?? { members: [], isMatched: false };
      bucket.members.push(fields);
      rights.push({ fields, bucket });
      if (key === undefined) withoutKey.right++;
      else if (same !== undefined) repeated.right++;
      else byKey.set(key, bucket);
    }
    keys.right.require();
    const seen = new Set<string>();
    for await (const { content } of left) {
      input.left++;
      const key = keys.left.of(content);
      if (key === undefined) withoutKey.left++;
      else if (seen.has(key)) repeated.left++;
      else seen.add(key);
      const bucket = key === undefined ? undefined : byKey.get(key);
      if (bucket === undefined) {
        unmatched.left++;
        if (keepsLeft) yield* row(() => toFields(content));
        continue;
      }
      bucket.isMatched = true;
      // What there is no room for is counted without going through it: two large sides with few keys make more rows than
      // there is time for.
      const room = Math.min(limit - made, bucket.members.length);
      leftOut += bucket.members.length - room;
      for (const fields of room === 0 ? [] : bucket.members.slice(0, room)) {
        yield* row(() => mergeRows(toFields(content), fields, clash, recordClash));
      }
    }
    keys.left.require();
    for (const { fields, bucket } of rights) {
      if (bucket.isMatched) continue;
      unmatched.right++;
      if (keepsRight) yield* row(() => fields);
    }
  }

  return {
    items: items(),
    report: () => ({
      input: { ...input },
      dropped: { left: keepsLeft ? 0 : unmatched.left, right: keepsRight ? 0 : unmatched.right },
      unmatched: { ...unmatched },
      without_key: { ...withoutKey },
      repeated_keys: { ...repeated },
      clashes: [...clashes]
        .sort(([, a], [, b]) => b - a)
        .slice(0, CLASHING_FIELDS)
        .map(([field, rows]) => ({ field: formatKey(field), rows })),
      limit_reached: leftOut > 0,
      rows_left_out: leftOut,
    }),
  };
}

/** Right items with the same key. */
interface Bucket {
  readonly members: JsonObject[];
  isMatched: boolean;
}

/** Makes the keys of one side. */
function createJoinKeys(on: JoinOptions["on"], side: "left" | "right") {
  const parts = on.map((paths) => ({ path: paths[side], presence: createPathPresence(paths[side]) }));
  return {
    /** Undefined: it has nothing, or null, at one of the paths. */
    of(content: Json): string | undefined {
      const values: Json[] = [];
      for (const { path, presence } of parts) {
        const found = readJsonPath(content, path);
        presence.take(content, found);
        if (found.found && found.value !== null) values.push(found.value);
      }
      return values.length === parts.length ? hashKey(values) : undefined;
    },
    require(): void {
      for (const { presence } of parts) presence.require(` on the ${side}`);
    },
  };
}

function toFields(content: Json): JsonObject {
  return isRecord(content) ? (content as JsonObject) : { value: content };
}

function mergeRows(
  left: JsonObject,
  right: JsonObject,
  clash: ClashMode,
  clashed: (field: string) => void,
): JsonObject {
  const fields = new Map<string, Json>(Object.entries(left));
  for (const [name, value] of Object.entries(right)) {
    const present = fields.get(name);
    if (!Object.hasOwn(left, name) || canonicalJson(present) === canonicalJson(value)) {
      fields.set(name, value);
      continue;
    }
    clashed(name);
    if (clash === "right") fields.set(name, value);
    if (clash === "prefix") fields.set(freeName(`right_${name}`, fields, right), value);
  }
  return Object.fromEntries(fields);
}

function freeName(wanted: string, taken: ReadonlyMap<string, Json>, right: JsonObject): string {
  let name = wanted;
  for (let number = 2; taken.has(name) || Object.hasOwn(right, name); number++) name = `${wanted}_${number}`;
  return name;
}

function clashError(field: string): QmError {
  return new QmError("conflict", `both sides have ${quoteName(field)}, with different values`, {
    hint: 'Take one with clash "left" or "right", keep both with "prefix", or leave it out of one side with infospace__project.',
  });
}
