import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { type JsonPath, parseJsonPath, readJsonPath } from "../json-path.ts";
import { INFOSPACE } from "../resource-access.ts";
import type { PrimitiveFactory, PrimitiveOptions } from "./derive.ts";
import {
  collectDerived,
  DERIVE_EFFECT,
  DERIVE_TIMEOUT_MS,
  openSource,
  otherShape,
  pathShape,
  resultNameShape,
  targetShape,
} from "./derive.ts";
import { type DerivedItems, hashKey, type PrimitiveItem, type PrimitiveItems } from "./operation.ts";

export const setOperations = ["union", "intersection", "difference"] as const;

/** `union`: what is in one of them; `intersection`: what is in both; `difference`: what is in the left and not in the right. */
type SetOperation = (typeof setOperations)[number];

/** What makes two items the same: what they say, the note they are, or the value at a path. */
type SetIdentity = "content" | "note" | JsonPath;

type SetReport = {
  readonly input: { readonly left: number; readonly right: number };
  /** Of the left (of a union: of both) what is not in the result, repeated ones included. */
  readonly dropped: number;
  /** Of those, how many were the same as one that is in the result. */
  readonly repeated: number;
  /** Items with nothing, or null, at the path, and values that are no note: they are the same as no other. */
  readonly incomparable: number;
};

/** In the order of their first appearance, left before right, each once. */
export function combineSets(
  operation: SetOperation,
  left: PrimitiveItems,
  right: PrimitiveItems,
  by: SetIdentity,
): DerivedItems<SetReport> {
  const count = { left: 0, right: 0 };
  let considered = 0;
  let kept = 0;
  let repeated = 0;
  let incomparable = 0;
  const seen = new Set<string>();

  function identity(each: PrimitiveItem): string | undefined {
    const found = getIdentity(each, by);
    if (found === undefined) incomparable++;
    return found;
  }

  function* takeOnce(each: PrimitiveItem, key: string | undefined): Generator<PrimitiveItem> {
    if (key !== undefined && seen.has(key)) {
      repeated++;
      return;
    }
    if (key !== undefined) seen.add(key);
    kept++;
    yield each;
  }

  async function* items(): AsyncGenerator<PrimitiveItem> {
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
      if (operation === "union" || isInOther === (operation === "intersection")) yield* takeOnce(each, key);
    }
    if (operation !== "union") return;
    for await (const each of right) {
      count.right++;
      considered++;
      yield* takeOnce(each, identity(each));
    }
  }

  return {
    items: items(),
    report: () => ({ input: { ...count }, dropped: considered - kept, repeated, incomparable }),
  };
}

function getIdentity({ id, content }: PrimitiveItem, by: SetIdentity): string | undefined {
  if (by === "note") return id === undefined ? undefined : String(id);
  if (by === "content") return hashKey(content);
  const found = readJsonPath(content, by);
  return found.found && found.value !== null ? hashKey(found.value) : undefined;
}

const descriptions: Readonly<Record<SetOperation, string>> = {
  union: "The items of target and of with, each once, as a new collection. Without with: target without duplicates.",
  intersection: "The items of target that are also in with, each once, as a new collection.",
  difference: "The items of target that are not in with, each once, as a new collection.",
};

/** Collections as sets, in the order of the first appearance. */
export const setActions: PrimitiveFactory = (parts) => [
  setAction(parts, "union"),
  setAction(parts, "intersection"),
  setAction(parts, "difference"),
];

function setAction(parts: PrimitiveOptions, entry: SetOperation): Action {
  return defineAction(INFOSPACE, {
    entry,
    description: descriptions[entry],
    aliases: entry === "union" ? ["infospace__remove-duplicates", "infospace__unique"] : [],
    effect: DERIVE_EFFECT,
    timeoutMs: DERIVE_TIMEOUT_MS,
    handleArguments: ["target", "with"],
    input: entry === "union" ? setInput.extend({ with: otherShape.optional() }) : setInput,
    examples: [{ args: { target: "collection__7", with: "collection__9", path: "id" } }],
    async run({ target, with: other = [], by, path, name }, context) {
      const sameBy = parseIdentity(by, path);
      const left = await openSource(parts, target, context);
      const right = await openSource(parts, other, context);
      const made = combineSets(entry, left.inputs, right.inputs, sameBy);
      return collectDerived(parts, context, { entry, name, from: [left, right] }, made);
    },
  });
}

const setInput = z.strictObject({
  target: targetShape,
  with: otherShape,
  by: z.enum(["content", "note"]).default("content"),
  path: pathShape.optional().describe("Compare only the value there."),
  name: resultNameShape,
});

function parseIdentity(by: "content" | "note", path: string | undefined): SetIdentity {
  if (path === undefined) return by;
  if (by === "content") return parseJsonPath(path);
  throw new QmError("invalid_arguments", 'a path says nothing of which note it is: give either path or by "note"');
}
