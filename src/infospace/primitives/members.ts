import { z } from "zod";
import type { CallContext } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { CollectionMember, Infospace } from "../infospace.ts";
import { parseJsonLines } from "../json-text.ts";
import { parseListText } from "../large-part.ts";
import { parseHandle } from "../note.ts";
import type { CollectionSampler } from "../preview.ts";
import { resolveSource } from "./derive.ts";
import { type PrimitiveItem, streamMembers, takeFirst, toItems } from "./operation.ts";

/**
 * Values and existing notes are two arguments, so that a handle inside a value is never followed: values come from
 * results, which may contain any text.
 */
export const memberShapes = {
  items: z
    .union([z.string().min(1), z.array(z.unknown())])
    .optional()
    .describe("A list of values, each a new note."),
  notes: z
    .union([z.string().min(1).max(200), z.array(z.string().max(200))])
    .optional()
    .describe("Handles of existing notes, or of a collection for all of its notes."),
};

export const MEMBER_HANDLES = "notes[]";

/**
 * The values in order, each a new note, then the notes. A text that is a JSON list or JSON lines stands for its values.
 * Looks up every handle first, so that a wrong one fails before anything is written. `remark` goes into the answer.
 */
export async function resolveMemberArguments(
  infospace: Infospace,
  { items, notes }: { items?: string | readonly unknown[] | undefined; notes?: string | readonly string[] | undefined },
  context: CallContext,
  sampler?: CollectionSampler,
): Promise<{ readonly members: AsyncIterable<CollectionMember>; readonly remark: JsonObject }> {
  if (items === undefined && notes === undefined) {
    const hint = "Give values as items, or handles of existing notes as notes. An empty list is allowed.";
    throw new QmError("invalid_arguments", "there are neither items nor notes", { hint });
  }
  const values = parseValues(items ?? []);
  const inputs: AsyncIterable<PrimitiveItem>[] = [toItems(values)];
  for (const handle of [notes ?? []].flat()) {
    const source = await resolveSource(infospace, handle, context);
    // Not more than there are now: the notes may be those of the collection that grows.
    inputs.push(takeFirst(source.inputs, source.count));
  }
  return { members: streamMembers(concat(inputs), sampler), remark: warnAboutHandles(values) };
}

function parseValues(items: string | readonly unknown[]): Iterable<Json> {
  if (typeof items !== "string") return items as readonly Json[];
  const list = parseListText(items);
  if (list !== undefined) return list.form === "lines" ? parseJsonLines(items).values : list.value;
  const hint =
    "Give a list, or a text that is a JSON list or JSON lines. Handles go into notes. To split a text, store it with infospace__create-note and use infospace__split.";
  throw new QmError("invalid_arguments", `items is a text of ${items.length} characters and not a list`, { hint });
}

function warnAboutHandles(values: Iterable<Json>): JsonObject {
  const isHandle = (value: unknown) => typeof value === "string" && parseHandle(value) !== undefined;
  const handle = Array.isArray(values) ? values.find(isHandle) : undefined;
  return handle === undefined ? {} : { note: `items are values: ${handle} was kept as a text. notes takes handles.` };
}

async function* concat(inputs: readonly AsyncIterable<PrimitiveItem>[]): AsyncGenerator<PrimitiveItem> {
  for (const each of inputs) yield* each;
}
