import { z } from "zod";
import type { Action } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { type JsonPath, parseJsonPath, readJsonPath } from "../json-path.ts";
import { defineDerivation, otherShape, type PrimitiveFactory, type PrimitiveOptions, pathShape } from "./derive.ts";
import { hashKey, type PrimitiveItem, type PrimitiveItems } from "./operation.ts";

export const setOperations = ["union", "intersection", "difference"] as const;
type SetOperation = (typeof setOperations)[number];
export const setActions: PrimitiveFactory = (parts) => setOperations.map((entry) => setAction(parts, entry));

const descriptions: Readonly<Record<SetOperation, string>> = {
  union: "The items of target and of with, each once, as a new collection. Without with: target without duplicates.",
  intersection: "The items of target that are also in with, each once, as a new collection.",
  difference: "The items of target that are not in with, each once, as a new collection.",
};

function setAction(parts: PrimitiveOptions, entry: SetOperation): Action {
  return defineDerivation(parts, {
    entry,
    description: descriptions[entry],
    aliases: entry === "union" ? ["infospace__remove-duplicates", "infospace__unique"] : [],
    handleArguments: ["target", "with"],
    fields: {
      with: entry === "union" ? otherShape.optional() : otherShape,
      by: z.enum(["content", "note"]).default("content"),
      path: pathShape.optional().describe("Compare only the value there."),
    },
    examples: [{ args: { target: "collection__7", with: "collection__9", path: "id" } }],
    async derive({ target, with: other = [], by, path }, open) {
      const identity = parseIdentity(by, path);
      const left = await open(target);
      return combineSets(entry, left, await open(other), identity);
    },
  });
}

function parseIdentity(by: "content" | "note", path: string | undefined): SetIdentity {
  if (path === undefined) return by;
  if (by === "content") return parseJsonPath(path);
  throw new QmError("invalid_arguments", 'path and by "note" exclude each other: give one of them');
}

/** Two items are the same if their content, their note, or their value at a path is the same. */
type SetIdentity = "content" | "note" | JsonPath;

/** In the order of first appearance, left before right, each once. */
export function combineSets(operation: SetOperation, left: PrimitiveItems, right: PrimitiveItems, by: SetIdentity) {
  const count = { left: 0, right: 0 };
  let [considered, kept, repeated, incomparable] = [0, 0, 0, 0];
  const seen = new Set<string>();

  function readKey(item: PrimitiveItem): string | undefined {
    const key = getKey(item, by);
    if (key === undefined) incomparable++;
    return key;
  }

  function* takeOnce(item: PrimitiveItem, key: string | undefined): Generator<PrimitiveItem> {
    considered++;
    if (key === undefined || !seen.has(key)) {
      if (key !== undefined) seen.add(key);
      kept++;
      yield item;
    } else repeated++;
  }

  async function* items(): AsyncGenerator<PrimitiveItem> {
    const other = new Set<string>();
    if (operation !== "union") {
      for await (const item of right) {
        count.right++;
        const key = readKey(item);
        if (key !== undefined) other.add(key);
      }
    }
    for await (const item of left) {
      count.left++;
      const key = readKey(item);
      const isInOther = key !== undefined && other.has(key);
      if (operation === "union" || isInOther === (operation === "intersection")) yield* takeOnce(item, key);
      else considered++;
    }
    if (operation !== "union") return;
    for await (const item of right) {
      count.right++;
      yield* takeOnce(item, readKey(item));
    }
  }

  return {
    items: items(),
    report: () => ({
      input: { ...count },
      /** Considered items (the left, for a union both) that are not in the result. */
      dropped: considered - kept,
      repeated,
      /** Items without the path or without a note. They equal no other item. */
      incomparable,
    }),
  };
}

function getKey({ id, content }: PrimitiveItem, identity: SetIdentity): string | undefined {
  if (identity === "note") return id === undefined ? undefined : String(id);
  if (identity === "content") return hashKey(content);
  const found = readJsonPath(content, identity);
  return found.found && found.value !== null ? hashKey(found.value) : undefined;
}
