import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import type { Action } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { combine, type SameBy, type SetOperation } from "../operations/sets.ts";
import { parsePath } from "../path.ts";
import { INFOSPACE } from "../resource.ts";
import { collected, DERIVES, DERIVING_MS, openSource, pathShape, resultName } from "./deriving.ts";
import type { PrimitiveParts, Primitives } from "./parts.ts";
import { otherShape, targetShape } from "./target.ts";

const descriptions: Readonly<Record<SetOperation, string>> = {
  union: "The items of target and of with, each once, as a new collection. Without with: target without duplicates.",
  intersection: "The items of target that are also in with, each once, as a new collection.",
  difference: "The items of target that are not in with, each once, as a new collection.",
};

/** Collections as sets, in the order of the first appearance. */
export const sets: Primitives = (parts) => [
  setAction(parts, "union"),
  setAction(parts, "intersection"),
  setAction(parts, "difference"),
];

function setAction(parts: PrimitiveParts, entry: SetOperation): Action {
  return defineAction(INFOSPACE, {
    entry,
    description: descriptions[entry],
    aliases: entry === "union" ? ["infospace__remove-duplicates", "infospace__unique"] : [],
    effect: DERIVES,
    timeoutMs: DERIVING_MS,
    handleArguments: ["target", "with"],
    input: entry === "union" ? asked.extend({ with: otherShape.optional() }) : asked,
    examples: [{ args: { target: "collection__7", with: "collection__9", path: "id" } }],
    async run({ target, with: other = [], by, path, name }, context) {
      const sameBy = sameByOf(by, path);
      const left = await openSource(parts, target, context);
      const right = await openSource(parts, other, context);
      const made = combine(entry, left.inputs, right.inputs, sameBy);
      return collected(parts, context, { entry, name, from: [left, right] }, made);
    },
  });
}

const asked = z.strictObject({
  target: targetShape,
  with: otherShape,
  by: z.enum(["content", "note"]).default("content"),
  path: pathShape.optional().describe("Compare only the value there."),
  name: resultName,
});

function sameByOf(by: "content" | "note", path: string | undefined): SameBy {
  if (path === undefined) return by;
  if (by === "content") return parsePath(path);
  throw new QmError("invalid_arguments", 'a path says nothing of which note it is: give either path or by "note"');
}
