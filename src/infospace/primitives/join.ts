import { z } from "zod";
import { QmError } from "../../core/errors.ts";
import { canonicalJson, isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { type JsonPath, parseJsonPath, readJsonPath } from "../json-path.ts";
import { formatKey } from "../json-preview.ts";
import { createListShape, defineDerivation, otherShape, type PrimitiveOptions, pathShape } from "./derive.ts";
import { createPathPresence, findFreeName, hashKey, type PrimitiveItem, type PrimitiveItems } from "./operation.ts";

const MAX_ROWS = 1_000_000;
export const joinKinds = ["inner", "left", "right", "outer"] as const;
export type JoinKind = (typeof joinKinds)[number];

/** For a field that differs between the sides. `prefix` keeps both, the right one as `right_<name>`. */
export const clashModes = ["prefix", "left", "right", "error"] as const;
export type ClashMode = (typeof clashModes)[number];
const keyPair = z.strictObject({ left: pathShape, right: pathShape });

export const joinAction = (parts: PrimitiveOptions) =>
  defineDerivation(parts, {
    entry: "join",
    description:
      "Join the items of target (left) and with (right) that have the same values, as a new collection of rows. Counts what fits nothing.",
    handleArguments: ["target", "with"],
    fields: {
      with: otherShape,
      on: z
        .union([pathShape, keyPair, createListShape(z.union([pathShape, keyPair]))])
        .describe('A path in both, {"left": "owner_id", "right": "id"}, or a list of these.'),
      kind: z.enum(joinKinds).default("inner"),
      clash: z.enum(clashModes).default("prefix").describe("What becomes of fields that differ."),
      limit: z.int().min(1).max(MAX_ROWS).default(100_000),
    },
    examples: [{ args: { target: "collection__7", with: "collection__9", on: { left: "owner_id", right: "id" } } }],
    async derive({ target, with: other, on, ...options }, open) {
      const keys = [on].flat().map((key) => {
        const { left, right } = typeof key === "string" ? { left: key, right: key } : key;
        return { left: parseJsonPath(left), right: parseJsonPath(right) };
      });
      const left = await open(target);
      return joinItems(left, await open(other), { ...options, on: keys });
    },
  });

type JoinKey = Readonly<{ left: JsonPath; right: JsonPath }>;
export type JoinOptions = Readonly<{ on: readonly JoinKey[]; kind: JoinKind; clash: ClashMode; limit: number }>;
const MAX_CLASHING_FIELDS = 20;

/**
 * Rows of matching items in the order of the left side, then of the right, then the unmatched right items. An item that is
 * not an object becomes the field `value`. Holds the right side in memory. Throws `not_found` if no item of a side has
 * its key.
 */
export function joinItems(left: PrimitiveItems, right: PrimitiveItems, { on, kind, clash, limit }: JoinOptions) {
  const keepsLeft = kind === "left" || kind === "outer";
  const keepsRight = kind === "right" || kind === "outer";
  const input = { left: 0, right: 0 };
  const unmatched = { left: 0, right: 0 };
  const withoutKey = { left: 0, right: 0 };
  const repeated = { left: 0, right: 0 };
  const clashes = new Map<string, number>();
  const keys = { left: createJoinKeys(on, "left"), right: createJoinKeys(on, "right") };
  let [rows, leftOut] = [0, 0];

  function recordClash(field: string): void {
    if (clash === "error") {
      const hint =
        'Take one with clash "left" or "right", keep both with "prefix", or leave it out of one side with infospace__project.';
      throw new QmError("conflict", `both sides have ${quoteName(field)}, with different values`, { hint });
    }
    clashes.set(field, (clashes.get(field) ?? 0) + 1);
  }

  function* addRow(content: () => JsonObject): Generator<PrimitiveItem> {
    if (rows < limit) {
      rows++;
      yield { content: content() };
    } else leftOut++;
  }

  async function* items(): AsyncGenerator<PrimitiveItem> {
    const rights: { readonly fields: JsonObject; readonly bucket: Bucket }[] = [];
    const byKey = new Map<string, Bucket>();
    for await (const { content } of right) {
      input.right++;
      const fields = toFields(content);
      const key = keys.right.read(content);
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
      const key = keys.left.read(content);
      if (key === undefined) withoutKey.left++;
      else if (seen.has(key)) repeated.left++;
      else seen.add(key);
      const bucket = key === undefined ? undefined : byKey.get(key);
      if (bucket === undefined) {
        unmatched.left++;
        if (keepsLeft) yield* addRow(() => toFields(content));
        continue;
      }
      bucket.isMatched = true;
      // Rows beyond the limit are counted without a loop: two large sides with few keys have too many pairs to visit.
      const room = Math.min(limit - rows, bucket.members.length);
      leftOut += bucket.members.length - room;
      for (const fields of room === 0 ? [] : bucket.members.slice(0, room)) {
        yield* addRow(() => mergeRows(toFields(content), fields, clash, recordClash));
      }
    }
    keys.left.require();
    for (const { fields, bucket } of rights) {
      if (bucket.isMatched) continue;
      unmatched.right++;
      if (keepsRight) yield* addRow(() => fields);
    }
  }

  return {
    items: items(),
    report: () => ({
      input: { ...input },
      /** Unmatched items that this kind of join does not keep. */
      dropped: { left: keepsLeft ? 0 : unmatched.left, right: keepsRight ? 0 : unmatched.right },
      unmatched: { ...unmatched },
      /** Unmatched items with nothing, or null, at a key. */
      without_key: { ...withoutKey },
      /** Items with the key of an earlier one on the same side. Each makes its own rows. */
      repeated_keys: { ...repeated },
      clashes: [...clashes]
        .sort(([, a], [, b]) => b - a)
        .slice(0, MAX_CLASHING_FIELDS)
        .map(([field, rows]) => ({ field: formatKey(field), rows })),
      limit_reached: leftOut > 0,
      rows_left_out: leftOut,
    }),
  };
}

type Bucket = { readonly members: JsonObject[]; isMatched: boolean };

function createJoinKeys(on: JoinOptions["on"], side: "left" | "right") {
  const parts = on.map((paths) => ({ path: paths[side], presence: createPathPresence(paths[side]) }));
  return {
    /** Undefined if the item has nothing, or null, at one of the paths. */
    read(content: Json): string | undefined {
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

function mergeRows(left: JsonObject, right: JsonObject, clash: ClashMode, onClash: (field: string) => void) {
  const fields = new Map<string, Json>(Object.entries(left));
  for (const [name, value] of Object.entries(right)) {
    if (!Object.hasOwn(left, name) || canonicalJson(fields.get(name)) === canonicalJson(value)) {
      fields.set(name, value);
      continue;
    }
    onClash(name);
    if (clash === "right") fields.set(name, value);
    if (clash === "prefix") {
      const free = findFreeName(`right_${name}`, (each) => fields.has(each) || Object.hasOwn(right, each));
      fields.set(free, value);
    }
  }
  return Object.fromEntries(fields);
}
