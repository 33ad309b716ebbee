import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { clip, type Json, type JsonObject } from "../../core/json.ts";
import { type JsonPath, parseJsonPath, readJsonPath, replaceJsonPath } from "../json-path.ts";
import { isList } from "../json-preview.ts";
import { previewNote } from "../preview.ts";
import { INFOSPACE } from "../resource-access.ts";
import type { PrimitiveFactory, PrimitiveOptions } from "./derive.ts";
import {
  collectDerived,
  createPrimitiveAuthor,
  DERIVE_EFFECT,
  DERIVE_TIMEOUT_MS,
  formatAnswer,
  type ItemSource,
  omitEmptyFacts,
  openSource,
  pathShape,
  reportIncomplete,
  resultNameShape,
  targetShape,
} from "./derive.ts";
import { createReasonLog, type DerivedItems, type ItemReason, type PrimitiveItems } from "./operation.ts";
import { splitItems, splitModes } from "./split.ts";

export const coercions = ["string", "text", "int", "float", "bool", "json", "list"] as const;

/**
 * `string`: a text as it is, everything else as its JSON; `text`: to be read, a list line by line, an object as
 * `name: value` lines; `int`, `float`, `bool`: what a text says, and only where it says just that; `json`: what a text is
 * the JSON of; `list`: a text taken apart at the delimiter, everything else as the only item.
 */
export type Coercion = (typeof coercions)[number];

/** What becomes of a value that cannot be made into it: its item goes, stays as it is, or has null in its place. */
export const coerceFailureModes = ["drop", "keep", "null"] as const;

interface CoerceOptions {
  readonly to: Coercion;
  /** What is coerced; the rest of the item stays as it is. */
  readonly path: JsonPath;
  readonly delimiter: string;
  readonly failing: (typeof coerceFailureModes)[number];
}

type CoerceReport = {
  readonly input: number;
  readonly dropped: number;
  readonly failed: number;
  readonly reasons: readonly ItemReason[];
};

export function coerceItems(
  inputs: PrimitiveItems,
  { to, path, delimiter, failing }: CoerceOptions,
): DerivedItems<CoerceReport> {
  const reasons = createReasonLog();
  let input = 0;
  let failed = 0;
  let dropped = 0;

  async function* items() {
    for await (const { content } of inputs) {
      const position = input++;
      const found = readJsonPath(content, path);
      const made = found.found ? coerceValue(found.value, to, delimiter) : { reason: found.missing };
      if ("value" in made) {
        yield { content: replaceJsonPath(content, path, made.value) };
        continue;
      }
      failed++;
      reasons.add(position, made.reason);
      if (failing === "keep" || (failing === "null" && !found.found)) yield { content };
      else if (failing === "null") yield { content: replaceJsonPath(content, path, null) };
      else dropped++;
    }
  }

  return { items: items(), report: () => ({ input, dropped, failed, reasons: reasons.first() }) };
}

type CoerceResult = { readonly value: Json } | { readonly reason: string };

const TRUE = new Set(["true", "1", "yes", "on"]);
const FALSE = new Set(["false", "0", "no", "off"]);
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/;

function coerceValue(value: Json, to: Coercion, delimiter: string): CoerceResult {
  switch (to) {
    case "string":
      return { value: typeof value === "string" ? value : JSON.stringify(value) };
    case "text":
      return { value: formatReadable(value) };
    case "int":
      return toInteger(toNumber(value));
    case "float":
      return toNumber(value);
    case "bool":
      return toBoolean(value);
    case "json":
      return typeof value === "string" ? parseJsonText(value) : { value };
    case "list":
      return { value: toList(value, delimiter) };
  }
}

function toNumber(value: Json): CoerceResult {
  if (typeof value === "number") return { value };
  if (typeof value === "boolean") return { value: value ? 1 : 0 };
  const text = typeof value === "string" ? value.trim() : "";
  const read = NUMBER.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(read) ? { value: read } : { reason: `${describeValue(value)} is not a number` };
}

/** What would be lost is not cut off. */
function toInteger(made: CoerceResult): CoerceResult {
  if (!("value" in made)) return made;
  return Number.isSafeInteger(made.value)
    ? made
    : { reason: `${describeValue(made.value)} is not a whole number that fits` };
}

function toBoolean(value: Json): CoerceResult {
  if (typeof value === "boolean") return { value };
  const text = typeof value === "number" || typeof value === "string" ? String(value).trim().toLowerCase() : "";
  if (TRUE.has(text)) return { value: true };
  return FALSE.has(text) ? { value: false } : { reason: `${describeValue(value)} is neither true nor false` };
}

function parseJsonText(text: string): CoerceResult {
  try {
    return { value: JSON.parse(text) as Json };
  } catch (thrown) {
    return { reason: `it is not JSON: ${getErrorMessage(thrown)}` };
  }
}

function toList(value: Json, delimiter: string): readonly Json[] {
  if (isList(value)) return value;
  if (typeof value !== "string") return [value];
  return value.trim() === "" ? [] : value.split(delimiter).map((part) => part.trim());
}

/** A value as text that is read by people and models. */
function formatReadable(value: Json): string {
  if (typeof value === "string") return value;
  if (isList(value)) return value.map(formatInline).join("\n");
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  return Object.entries(value)
    .map(([name, part]) => `${name}: ${formatInline(part)}`)
    .join("\n");
}

function formatInline(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function describeValue(value: Json): string {
  if (typeof value === "object" && value !== null) return isList(value) ? "a list" : "an object";
  return clip(JSON.stringify(value), 60);
}

type SpreadReport = {
  readonly input: number;
  readonly dropped: 0;
  /** Items that are lists, and have their items in their place. */
  readonly lists: number;
};

/** The items of items that are lists, one level down; others as they are. */
export function spreadLists(inputs: PrimitiveItems): DerivedItems<SpreadReport> {
  let input = 0;
  let lists = 0;

  async function* items() {
    for await (const each of inputs) {
      input++;
      if (!isList(each.content)) {
        yield each;
        continue;
      }
      lists++;
      for (const content of each.content) yield { content };
    }
  }

  return { items: items(), report: () => ({ input, dropped: 0, lists }) };
}

/** One value made of many. */
interface GatheredValue<Value extends Json> {
  readonly value: Value;
  readonly input: number;
  /** Items that there was no room for. */
  readonly leftOut: number;
}

/** All of them as one text. Ends before the item that would make it longer than `limit` characters. */
export async function gatherText(
  inputs: PrimitiveItems,
  separator: string,
  limit: number,
): Promise<GatheredValue<string>> {
  const { value, ...rest } = await gatherItems(inputs, formatReadable, (text) => text.length + separator.length, limit);
  return { value: value.join(separator), ...rest };
}

/** All of them as one list. Ends before the item that would make its JSON longer than `limit` characters. */
export function gatherList(inputs: PrimitiveItems, limit: number): Promise<GatheredValue<readonly Json[]>> {
  return gatherItems(
    inputs,
    (content) => content,
    (content) => JSON.stringify(content).length + 1,
    limit,
  );
}

async function gatherItems<T extends Json>(
  inputs: PrimitiveItems,
  taken: (content: Json) => T,
  sizeOf: (each: T) => number,
  limit: number,
): Promise<GatheredValue<readonly T[]>> {
  const value: T[] = [];
  let input = 0;
  let leftOut = 0;
  let size = 0;
  for await (const { content } of inputs) {
    input++;
    if (leftOut === 0) {
      const each = taken(content);
      size += sizeOf(each);
      if (size <= limit) {
        value.push(each);
        continue;
      }
    }
    leftOut++;
  }
  return { value, input, leftOut };
}

/** Making something else of items: other types, several of one, one of several. */
export const reshapeActions: PrimitiveFactory = (parts) => [
  coerceAction(parts),
  splitAction(parts),
  flattenAction(parts),
];

/** How many characters one note is made of. */
const NOTE_LIMIT = 50_000_000;

const traits = { effect: DERIVE_EFFECT, timeoutMs: DERIVE_TIMEOUT_MS, handleArguments: ["target"] } as const;
const delimiter = z.string().refine(({ length }) => length > 0 && length <= 100, "a delimiter has 1 to 100 characters");

function coerceAction(parts: PrimitiveOptions): Action {
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
      failing: z.enum(coerceFailureModes).default("drop").describe("Items that cannot be turned."),
      name: resultNameShape,
    }),
    examples: [{ args: { target: "collection__7", to: "float", path: "price" } }],
    async run({ target, to, path, delimiter, failing, name }, context) {
      const parsed = parseJsonPath(path);
      const source = await openSource(parts, target, context);
      const made = coerceItems(source.inputs, { to, path: parsed, delimiter, failing });
      return collectDerived(parts, context, { entry: "coerce", name, from: [source] }, made);
    },
  });
}

function splitAction(parts: PrimitiveOptions): Action {
  return defineAction(INFOSPACE, {
    entry: "split",
    description:
      "Take every item apart, into the items of its list, JSON lines, lines or sentences, as a new collection of the parts.",
    ...traits,
    input: z.strictObject({
      target: targetShape,
      by: z.enum(splitModes).optional().describe("Absent: found out, and told."),
      path: pathShape.default("").describe("Where in the item the text or list is."),
      delimiter: delimiter.optional(),
      name: resultNameShape,
    }),
    examples: [{ args: { target: "note__12" } }, { args: { target: "note__12", by: "paragraph", path: "body" } }],
    async run({ target, by, path, delimiter, name }, context) {
      if (by === "delimiter" && delimiter === undefined) {
        throw new QmError("invalid_arguments", 'by "delimiter" needs the delimiter', {
          hint: 'Give it: "delimiter": ";".',
        });
      }
      const parsed = parseJsonPath(path);
      const source = await openSource(parts, target, context);
      const made = splitItems(source.inputs, {
        by: by ?? (delimiter === undefined ? undefined : "delimiter"),
        path: parsed,
        delimiter: delimiter ?? "",
      });
      return collectDerived(parts, context, { entry: "split", name, from: [source] }, made);
    },
  });
}

function flattenAction(parts: PrimitiveOptions): Action {
  return defineAction(INFOSPACE, {
    entry: "flatten",
    description:
      "Make one note of all items, a text or a list; or put the items of lists in their place, as a new collection.",
    ...traits,
    input: z.strictObject({
      target: targetShape,
      as: z.enum(["text", "list", "items"]).default("text").describe("text, list: one note; items: a collection."),
      separator: z.string().max(1000).default("\n\n"),
      name: resultNameShape,
    }),
    examples: [{ args: { target: "collection__7", as: "text", separator: "\n" } }],
    async run({ target, as, separator, name }, context) {
      const source = await openSource(parts, target, context);
      const { inputs } = source;
      if (as === "items")
        return collectDerived(parts, context, { entry: "flatten", name, from: [source] }, spreadLists(inputs));
      const gathered = await (as === "text"
        ? gatherText(inputs, separator, NOTE_LIMIT)
        : gatherList(inputs, NOTE_LIMIT));
      return storeFlattened(parts, context, gathered, { name, source });
    },
  });
}

async function storeFlattened(
  { infospace, previewLimit }: PrimitiveOptions,
  context: CallContext,
  { value, input, leftOut }: GatheredValue<Json>,
  { name, source }: { readonly name: string | undefined; readonly source: ItemSource },
): Promise<JsonObject> {
  const note = await infospace.write(createPrimitiveAuthor(context, "flatten"), value, { name });
  const report = {
    ...omitEmptyFacts({ input, dropped: leftOut, limit_reached: leftOut > 0 }),
    ...reportIncomplete([source]),
  };
  return formatAnswer(report, (room) => previewNote(note, value, room), previewLimit);
}
