import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import type { Action } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { combine, type SameBy, type SetOperation } from "../operations/sets.ts";
import { parsePath } from "../path.ts";
import { INFOSPACE } from "../resource.ts";
import { collected, DERIVES, inputsOf, pathShape, resultName } from "./deriving.ts";
import type { PrimitiveParts, Primitives } from "./parts.ts";
import { targetShape } from "./target.ts";

const descriptions: Readonly<Record<SetOperation, string>> = {
  union: "Put the items of target and of another collection together, each once, as a new collection.",
  intersection: "Keep the items of target that are also in another collection, each once, as a new collection.",
  difference: "Keep the items of target that are not in another collection, each once, as a new collection.",
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
    description: `${descriptions[entry]} Repeated ones are dropped and counted.`,
    effect: DERIVES,
    input: z.object({
      target: targetShape,
      with: targetShape,
      by: z.enum(["content", "note"]).default("content").describe("The same: says the same, or is the same note."),
      path: pathShape.optional().describe("The same: has the same value there, such as id."),
      name: resultName,
    }),
    examples: [{ args: { target: "collection__7", with: "collection__9", path: "id" } }],
    async run({ target, with: other, by, path, name }, context) {
      const sameBy = sameByOf(by, path);
      const left = await inputsOf(parts, target, context);
      const right = await inputsOf(parts, other, context);
      return collected(parts, context, { entry, name }, combine(entry, left, right, sameBy));
    },
  });
}

function sameByOf(by: "content" | "note", path: string | undefined): SameBy {
  if (path === undefined) return by;
  if (by === "content") return parsePath(path);
  throw new QmError("invalid_arguments", 'a path says nothing of which note it is: give either path or by "note"');
}
