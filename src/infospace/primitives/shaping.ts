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
import {
  answer,
  collected,
  completeness,
  DERIVES,
  DERIVING_MS,
  makerFor,
  noted,
  openSource,
  pathShape,
  resultName,
} from "./deriving.ts";
import type { PrimitiveParts, Primitives } from "./parts.ts";
import { type Source, targetShape } from "./target.ts";

/** Making something else of items: other types, several of one, one of several. */
export const shaping: Primitives = (parts) => [coerceAction(parts), splitAction(parts), flattenAction(parts)];

/** How many characters one note is made of. */
const NOTE_LIMIT = 50_000_000;

const traits = { effect: DERIVES, timeoutMs: DERIVING_MS, handleArguments: ["target"] } as const;
const delimiter = z.string().refine(({ length }) => length > 0 && length <= 100, "a delimiter has 1 to 100 characters");

function coerceAction(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "coerce",
    description:
      "Turn every item, or the value at a path in it, into another type, as a new collection. Tells what cannot be turned.",
    ...traits,
    input: z.strictObject({
      target: targetShape,
      to: z.enum(coercions).describe("string: as JSON; text: to be read; json: parsed; list: split."),
      path: pathShape.default("").describe("Only the value there."),
      delimiter: delimiter.default(","),
      failing: z.enum(whenFailing).default("drop").describe("Items that cannot be turned."),
      name: resultName,
    }),
    examples: [{ args: { target: "collection__7", to: "float", path: "price" } }],
    async run({ target, to, path, delimiter, failing, name }, context) {
      const parsed = parsePath(path);
      const source = await openSource(parts, target, context);
      const made = coerce(source.inputs, { to, path: parsed, delimiter, failing });
      return collected(parts, context, { entry: "coerce", name, from: [source] }, made);
    },
  });
}

function splitAction(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "split",
    description:
      "Take every item apart, into the items of its list, JSON lines, lines or sentences, as a new collection of the parts.",
    ...traits,
    input: z.strictObject({
      target: targetShape,
      by: z.enum(splits).optional().describe("Absent: found out, and told."),
      path: pathShape.default("").describe("Where in the item the text or list is."),
      delimiter: delimiter.optional(),
      name: resultName,
    }),
    examples: [{ args: { target: "note__12" } }, { args: { target: "note__12", by: "paragraph", path: "body" } }],
    async run({ target, by, path, delimiter, name }, context) {
      if (by === "delimiter" && delimiter === undefined) {
        throw new QmError("invalid_arguments", 'by "delimiter" needs the delimiter', {
          hint: 'Give it: "delimiter": ";".',
        });
      }
      const parsed = parsePath(path);
      const source = await openSource(parts, target, context);
      const made = split(source.inputs, {
        by: by ?? (delimiter === undefined ? undefined : "delimiter"),
        path: parsed,
        delimiter: delimiter ?? "",
      });
      return collected(parts, context, { entry: "split", name, from: [source] }, made);
    },
  });
}

function flattenAction(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "flatten",
    description:
      "Make one note of all items, a text or a list; or put the items of lists in their place, as a new collection.",
    ...traits,
    input: z.strictObject({
      target: targetShape,
      as: z.enum(["text", "list", "items"]).default("text").describe("text, list: one note; items: a collection."),
      separator: z.string().max(1000).default("\n\n"),
      name: resultName,
    }),
    examples: [{ args: { target: "collection__7", as: "text", separator: "\n" } }],
    async run({ target, as, separator, name }, context) {
      const source = await openSource(parts, target, context);
      const { inputs } = source;
      if (as === "items") return collected(parts, context, { entry: "flatten", name, from: [source] }, spread(inputs));
      const gathered = await (as === "text" ? joinedText(inputs, separator, NOTE_LIMIT) : listed(inputs, NOTE_LIMIT));
      return written(parts, context, gathered, { name, source });
    },
  });
}

async function written(
  { infospace, previewLimit }: PrimitiveParts,
  context: CallContext,
  { value, input, leftOut }: Gathered<Json>,
  { name, source }: { readonly name: string | undefined; readonly source: Source },
): Promise<JsonObject> {
  const note = await infospace.write(makerFor(context, "flatten"), value, { name });
  const report = { ...noted({ input, dropped: leftOut, limit_reached: leftOut > 0 }), ...completeness([source]) };
  return answer(report, (room) => shownNote(note, value, room), previewLimit);
}
