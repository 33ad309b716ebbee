import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { coerce, coercions, whenFailing } from "../operations/coerce.ts";
import { type Gathered, joinedText, listed, spread } from "../operations/flatten.ts";
import { split, splits } from "../operations/split.ts";
import { parsePath } from "../path.ts";
import { INFOSPACE } from "../resource.ts";
import { shownNote } from "../shown.ts";
import { answer, collected, DERIVES, inputsOf, makerFor, noted, pathShape, resultName } from "./deriving.ts";
import type { PrimitiveParts, Primitives } from "./parts.ts";
import { targetShape } from "./target.ts";

/** Making something else of items: other types, several of one, one of several. */
export const shaping: Primitives = (parts) => [coerceAction(parts), splitAction(parts), flattenAction(parts)];

/** How many characters one note is made of. */
const NOTE_LIMIT = 50_000_000;

function coerceAction(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "coerce",
    description:
      "Turn every item of target, or the value at a path in it, into another type, as a new collection. What cannot be turned is counted, with reasons.",
    effect: DERIVES,
    input: z.object({
      target: targetShape,
      to: z
        .enum(coercions)
        .describe("string: as JSON; text: to be read; json: parsed; list: taken apart at the delimiter."),
      path: pathShape.default("").describe("Only the value there. Absent: the whole item."),
      delimiter: z.string().min(1).max(100).default(",").describe("For list."),
      failing: z
        .enum(whenFailing)
        .default("drop")
        .describe("An item for which it fails: is dropped, kept, or gets null."),
      name: resultName,
    }),
    examples: [{ args: { target: "collection__7", to: "float", path: "price" } }],
    async run({ target, to, path, delimiter, failing, name }, context) {
      const parsed = parsePath(path);
      const inputs = await inputsOf(parts, target, context);
      const made = coerce(inputs, { to, path: parsed, delimiter, failing });
      return collected(parts, context, { entry: "coerce", name }, made);
    },
  });
}

function splitAction(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "split",
    description:
      "Take every item of target apart by sentence, paragraph, line, delimiter, list items or JSON lines, as a new collection of the parts. White space is kept.",
    effect: DERIVES,
    input: z.object({
      target: targetShape,
      by: z.enum(splits),
      path: pathShape.default("").describe("Where in each item the text or list is. Absent: the whole item."),
      delimiter: z.string().min(1).max(100).optional().describe("For delimiter."),
      name: resultName,
    }),
    examples: [
      { args: { target: "note__12", by: "paragraph" } },
      { args: { target: "note__12", by: "items", path: "results" } },
    ],
    async run({ target, by, path, delimiter, name }, context) {
      if (by === "delimiter" && delimiter === undefined) {
        throw new QmError("invalid_arguments", 'by "delimiter" needs the delimiter', {
          hint: 'Give it: "delimiter": ";".',
        });
      }
      const parsed = parsePath(path);
      const inputs = await inputsOf(parts, target, context);
      const made = split(inputs, { by, path: parsed, delimiter: delimiter ?? "\n" });
      return collected(parts, context, { entry: "split", name }, made);
    },
  });
}

function flattenAction(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "flatten",
    description:
      "Make one note of all items of target, as text with a separator between them or as one list; or take items that are lists apart, one level, as a new collection.",
    effect: DERIVES,
    input: z.object({
      target: targetShape,
      as: z
        .enum(["text", "list", "items"])
        .default("text")
        .describe("text and list: one note; items: a collection with the items of lists in their place."),
      separator: z.string().max(1000).default("\n\n").describe("For text."),
      name: resultName,
    }),
    examples: [{ args: { target: "collection__7", as: "text", separator: "\n" } }],
    async run({ target, as, separator, name }, context) {
      const inputs = await inputsOf(parts, target, context);
      if (as === "items") return collected(parts, context, { entry: "flatten", name }, spread(inputs));
      const gathered = await (as === "text" ? joinedText(inputs, separator, NOTE_LIMIT) : listed(inputs, NOTE_LIMIT));
      return written(parts, context, gathered, name);
    },
  });
}

async function written(
  { infospace, previewLimit }: PrimitiveParts,
  context: CallContext,
  { value, input, leftOut }: Gathered<Json>,
  name: string | undefined,
): Promise<JsonObject> {
  const note = await infospace.write(makerFor(context, "flatten"), value, { name });
  const report = noted({ input, dropped: leftOut, limit_reached: leftOut > 0 });
  return answer(report, (room) => shownNote(note, value, room), previewLimit);
}
