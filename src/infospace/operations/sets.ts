import { type Path, valueAt } from "../path.ts";
import type { Input } from "./derived.ts";
import { type Derived, type Inputs, keyOf } from "./derived.ts";

export const setOperations = ["union", "intersection", "difference"] as const;

/** `union`: what is in one of them; `intersection`: what is in both; `difference`: what is in the left and not in the right. */
export type SetOperation = (typeof setOperations)[number];

/** What makes two items the same: what they say, the note they are, or the value at a path. */
export type SameBy = "content" | "note" | Path;

export type SetReport = {
  readonly input: { readonly left: number; readonly right: number };
  /** Of the left (of a union: of both) what is not in the result, repeated ones included. */
  readonly dropped: number;
  /** Of those, how many were the same as one that is in the result. */
  readonly repeated: number;
  /** Items with nothing, or null, at the path, and values that are no note: they are the same as no other. */
  readonly incomparable: number;
};

/** In the order of their first appearance, left before right, each once. */
export function combine(operation: SetOperation, left: Inputs, right: Inputs, by: SameBy): Derived<SetReport> {
  const count = { left: 0, right: 0 };
  let considered = 0;
  let kept = 0;
  let repeated = 0;
  let incomparable = 0;
  const seen = new Set<string>();

  function identity(each: Input): string | undefined {
    const found = identityOf(each, by);
    if (found === undefined) incomparable++;
    return found;
  }

  function* taken(each: Input, key: string | undefined): Generator<Input> {
    if (key !== undefined && seen.has(key)) {
      repeated++;
      return;
    }
    if (key !== undefined) seen.add(key);
    kept++;
    yield each;
  }

  async function* items(): AsyncGenerator<Input> {
    const other = new Set<string>();
    if (operation !== "union") {
      for await (const each of right) {
        count.right++;
        const key = identity(each);
        if (key !== undefined) other.add(key);
      }
    }
    for await (const each of left) {
      count.left++;
      considered++;
      const key = identity(each);
      const isInOther = key !== undefined && other.has(key);
      if (operation === "union" || isInOther === (operation === "intersection")) yield* taken(each, key);
    }
    if (operation !== "union") return;
    for await (const each of right) {
      count.right++;
      considered++;
      yield* taken(each, identity(each));
    }
  }

  return {
    items: items(),
    report: () => ({ input: { ...count }, dropped: considered - kept, repeated, incomparable }),
  };
}

function identityOf({ id, content }: Input, by: SameBy): string | undefined {
  if (by === "note") return id === undefined ? undefined : String(id);
  if (by === "content") return keyOf(content);
  const found = valueAt(content, by);
  return found.found && found.value !== null ? keyOf(found.value) : undefined;
}
