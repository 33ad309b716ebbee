import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import type { Json } from "../../core/json.ts";
import { isList } from "../json-preview.ts";
import { previewNote } from "../preview.ts";
import { INFOSPACE } from "../resource-access.ts";
import { formatReadable } from "./coerce.ts";
import type { PrimitiveOptions } from "./derive.ts";
import {
  collectDerived,
  createPrimitiveAuthor,
  deriveTraits,
  formatAnswer,
  openSource,
  resultNameShape,
  targetShape,
} from "./derive.ts";
import { type PrimitiveItem, type PrimitiveItems, toItems } from "./operation.ts";

const NOTE_LIMIT = 50_000_000;

export function flattenAction(parts: PrimitiveOptions): Action {
  return defineAction(INFOSPACE, {
    entry: "flatten",
    description:
      "Make one note of all items, a text or a list; or put the items of lists in their place, as a new collection.",
    ...deriveTraits,
    input: z.lazy(() =>
      z.strictObject({
        target: targetShape,
        as: z.enum(["text", "list", "items"]).default("text").describe("text, list: one note; items: a collection."),
        separator: z.string().max(1000).default("\n\n"),
        name: resultNameShape,
      }),
    ),
    examples: [{ args: { target: "collection__7", as: "text", separator: "\n" } }],
    async run({ target, as, separator, name }, context) {
      const source = await openSource(parts, target, context);
      const { inputs } = source;
      if (as === "items")
        return collectDerived(parts, context, { entry: "flatten", name, from: [source] }, spreadLists(inputs));
      const { value, input, leftOut } = await (as === "text"
        ? gatherText(inputs, separator, NOTE_LIMIT)
        : gatherList(inputs, NOTE_LIMIT));
      const note = await parts.infospace.write(createPrimitiveAuthor(context, "flatten"), value, { name });
      const report = { input, dropped: leftOut, limit_reached: leftOut > 0 };
      return formatAnswer({}, report, [source], (room) => previewNote(note, value, room), parts.previewLimit);
    },
  });
}

/** Replaces each list by its items, one level down. */
export function spreadLists(inputs: PrimitiveItems) {
  let [input, lists] = [0, 0];
  async function* items(): AsyncGenerator<PrimitiveItem> {
    for await (const item of inputs) {
      input++;
      if (isList(item.content)) {
        lists++;
        yield* toItems(item.content);
      } else yield item;
    }
  }

  return { items: items(), report: () => ({ input, dropped: 0, lists }) };
}

/** One text of all items. Stops before the item that would make it longer than `limit` characters. */
export async function gatherText(inputs: PrimitiveItems, separator: string, limit: number) {
  const { value, ...rest } = await gatherItems(inputs, formatReadable, (text) => text.length + separator.length, limit);
  return { value: value.join(separator), ...rest };
}

/** One list of all items. Stops before the item that would make its JSON longer than `limit` characters. */
export function gatherList(inputs: PrimitiveItems, limit: number) {
  const measure = (content: Json) => JSON.stringify(content).length + 1;
  return gatherItems(inputs, (content) => content, measure, limit);
}

async function gatherItems<T extends Json>(
  inputs: PrimitiveItems,
  convert: (content: Json) => T,
  measure: (part: T) => number,
  limit: number,
): Promise<{ readonly value: readonly T[]; readonly input: number; readonly leftOut: number }> {
  const value: T[] = [];
  let [input, leftOut, size] = [0, 0, 0];
  for await (const { content } of inputs) {
    input++;
    const part = leftOut === 0 ? convert(content) : undefined;
    if (part !== undefined) size += measure(part);
    if (part !== undefined && size <= limit) value.push(part);
    else leftOut++;
  }
  return { value, input, leftOut };
}
