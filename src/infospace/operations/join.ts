import { QmError } from "../../core/errors.ts";
import { canonicalJson, isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { quoted } from "../../core/names.ts";
import { shownKey } from "../content.ts";
import { type Path, valueAt } from "../path.ts";
import type { Input } from "../primitives/target.ts";
import { type Derived, type Inputs, keyOf } from "./derived.ts";

export const joinKinds = ["inner", "left", "right", "outer"] as const;
export type JoinKind = (typeof joinKinds)[number];

/** What becomes of a field that both sides have with different values. */
export const whenClashing = ["prefix", "left", "right", "error"] as const;
export type WhenClashing = (typeof whenClashing)[number];

export interface Joining {
  /** Two items belong together when all of these are equal. */
  readonly on: readonly { readonly left: Path; readonly right: Path }[];
  readonly kind: JoinKind;
  /** `prefix`: both are kept, the right's as `right_<name>`. */
  readonly clash: WhenClashing;
  /** How many rows are made at most. */
  readonly limit: number;
}

type Sides = { readonly left: number; readonly right: number };

export type Joined = {
  readonly input: Sides;
  /** Items that are in no row because nothing fits them and the kind does not keep such. */
  readonly dropped: Sides;
  /** Items that nothing fits. */
  readonly unmatched: Sides;
  /** Of those, the ones with nothing, or null, at a key: they fit nothing, not even each other. */
  readonly without_key: Sides;
  /** Items whose key an earlier one of the same side has. Each makes its own rows. */
  readonly repeated_keys: Sides;
  /** Fields that both sides had with different values, and in how many rows. */
  readonly clashes: readonly { readonly field: string; readonly rows: number }[];
  readonly limit_reached: boolean;
  /** Rows that were not made because of the limit. */
  readonly rows_left_out: number;
};

const CLASHING_FIELDS = 20;

/**
 * Rows of a left and a right item that belong together, in the order of the left, then of the right; at the end the right
 * ones that nothing fits. An item that is no object stands in a row as `value`. Holds the right side.
 */
export function join(left: Inputs, right: Inputs, { on, kind, clash, limit }: Joining): Derived<Joined> {
  const keepsLeft = kind === "left" || kind === "outer";
  const keepsRight = kind === "right" || kind === "outer";
  const input = { left: 0, right: 0 };
  const unmatched = { left: 0, right: 0 };
  const withoutKey = { left: 0, right: 0 };
  const repeated = { left: 0, right: 0 };
  const clashes = new Map<string, number>();
  const clashed = (field: string): void => {
    if (clash === "error") throw clashing(field);
    clashes.set(field, (clashes.get(field) ?? 0) + 1);
  };
  let made = 0;
  let leftOut = 0;

  /** Rows are counted on when there is no room for them, so that the limit hides nothing. */
  function* row(content: () => JsonObject): Generator<Input> {
    if (made >= limit) {
      leftOut++;
      return;
    }
    made++;
    yield { content: content() };
  }

  async function* items(): AsyncGenerator<Input> {
    const rights: { readonly fields: JsonObject; isMatched: boolean }[] = [];
    const byKey = new Map<string, (typeof rights)[number][]>();
    for await (const { content } of right) {
      input.right++;
      const entry = { fields: fieldsOf(content), isMatched: false };
      rights.push(entry);
      const key = joinKey(content, on, "right");
      if (key === undefined) {
        withoutKey.right++;
        continue;
      }
      const same = byKey.get(key);
      if (same === undefined) byKey.set(key, [entry]);
      else {
        repeated.right++;
        same.push(entry);
      }
    }
    const seen = new Set<string>();
    for await (const { content } of left) {
      input.left++;
      const key = joinKey(content, on, "left");
      if (key === undefined) withoutKey.left++;
      else if (seen.has(key)) repeated.left++;
      else seen.add(key);
      const matches = (key === undefined ? undefined : byKey.get(key)) ?? [];
      if (matches.length === 0) {
        unmatched.left++;
        if (keepsLeft) yield* row(() => fieldsOf(content));
      }
      for (const match of matches) {
        match.isMatched = true;
        yield* row(() => merged(fieldsOf(content), match.fields, clash, clashed));
      }
    }
    for (const { fields, isMatched } of rights) {
      if (isMatched) continue;
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
        .map(([field, rows]) => ({ field: shownKey(field), rows })),
      limit_reached: leftOut > 0,
      rows_left_out: leftOut,
    }),
  };
}

function joinKey(content: Json, on: Joining["on"], side: "left" | "right"): string | undefined {
  const values: Json[] = [];
  for (const paths of on) {
    const found = valueAt(content, paths[side]);
    if (!found.found || found.value === null) return undefined;
    values.push(found.value);
  }
  return keyOf(values);
}

function fieldsOf(content: Json): JsonObject {
  return isRecord(content) ? (content as JsonObject) : { value: content };
}

function merged(
  left: JsonObject,
  right: JsonObject,
  clash: WhenClashing,
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

function clashing(field: string): QmError {
  return new QmError("conflict", `both sides have ${quoted(field)}, with different values`, {
    hint: 'Take one with clash "left" or "right", keep both with "prefix", or leave it out of one side with infospace__project.',
  });
}
