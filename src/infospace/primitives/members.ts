import { z } from "zod";
import type { CallContext } from "../../core/action.ts";
import type { Caller } from "../../core/caller.ts";
import { QmError } from "../../core/errors.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { CollectionMember, Infospace } from "../infospace.ts";
import { parseJsonLines } from "../json-text.ts";
import { parseListText } from "../large-part.ts";
import { parseHandle } from "../note.ts";
import type { CollectionSampler } from "../preview.ts";
import type { PrimitiveItem } from "./operation.ts";
import { takeFirst } from "./operation.ts";

/**
 * What goes into a collection: values, and notes that are there. They are apart so that nothing in a value is ever followed:
 * a result may hold whatever looks like a handle.
 */
export const memberShapes = {
  items: z
    .union([z.string().min(1), z.array(z.unknown())])
    .optional()
    .describe("A list of values, each a new note."),
  notes: z
    .union([z.string().min(1).max(200), z.array(z.string().max(200))])
    .optional()
    .describe("Handles of notes that are there, or of a collection for all of its notes."),
};

export interface MemberArguments {
  readonly items?: string | readonly unknown[] | undefined;
  readonly notes?: string | readonly string[] | undefined;
}

/** Those of the arguments above that are handles. */
export const MEMBER_HANDLES = "notes[]";

export interface GatheredMembers {
  readonly members: AsyncIterable<CollectionMember>;
  /** For the answer, where something may not be what was meant. */
  readonly remark: JsonObject;
}

/**
 * The values in their order, each a new note, then the notes. A text that is a JSON list, or JSON lines, stands for that list
 * of values. Every handle is looked up before the first is answered, so that nothing is made where one leads nowhere.
 * `sampler` sees what they say.
 */
export async function resolveMemberArguments(
  infospace: Infospace,
  { items, notes }: MemberArguments,
  { caller, signal }: CallContext,
  sampler?: CollectionSampler,
): Promise<GatheredMembers> {
  if (items === undefined && notes === undefined) throw noMembersError();
  const values = parseValues(items ?? []);
  const inputs: AsyncIterable<PrimitiveItem>[] = [toItems(values)];
  for (const handle of typeof notes === "string" ? [notes] : (notes ?? [])) {
    const resource = await infospace.resource(handle, caller);
    if (!("count" in resource)) inputs.push(readNote(infospace, handle, caller));
    // No more than there are now: it may be the very collection that they are added to.
    else inputs.push(takeFirst(infospace.items(resource, { signal }), resource.count));
  }
  return { members: streamMembers(concat(inputs), sampler), remark: warnAboutHandles(values) };
}

/** Notes that are there by their ids, and values as new notes. */
export async function* streamMembers(
  inputs: AsyncIterable<PrimitiveItem>,
  sampler?: CollectionSampler,
): AsyncGenerator<CollectionMember> {
  for await (const { id, content } of inputs) {
    sampler?.take(content);
    yield id === undefined ? { content } : { id };
  }
}

function parseValues(items: string | readonly unknown[]): Iterable<Json> {
  if (typeof items !== "string") return items as readonly Json[];
  const list = parseListText(items);
  if (list === undefined) throw notAListError(items);
  return list.form === "lines" ? parseJsonLines(items).values : list.value;
}

/** Whoever meant notes with it is told so. */
function warnAboutHandles(values: Iterable<Json>): JsonObject {
  const handle = Array.isArray(values) ? values.find(isHandle) : undefined;
  return handle === undefined ? {} : { note: `items are values: ${handle} was kept as a text. notes takes handles.` };
}

function isHandle(value: unknown): value is string {
  return typeof value === "string" && parseHandle(value) !== undefined;
}

async function* concat(inputs: readonly AsyncIterable<PrimitiveItem>[]): AsyncGenerator<PrimitiveItem> {
  for (const each of inputs) yield* each;
}

async function* toItems(values: Iterable<Json>): AsyncGenerator<PrimitiveItem> {
  for (const content of values) yield { content };
}

async function* readNote(infospace: Infospace, handle: string, caller: Caller): AsyncGenerator<PrimitiveItem> {
  yield await infospace.note(handle, caller);
}

function noMembersError(): QmError {
  return new QmError("invalid_arguments", "there are neither items nor notes", {
    hint: "Give values as items, or handles of notes that are there as notes; an empty list is one, too.",
  });
}

function notAListError(text: string): QmError {
  return new QmError("invalid_arguments", `items is a text of ${text.length} characters that is no list`, {
    hint: "Give a list, or a text that is a JSON list or JSON lines; handles go into notes. To take a text apart keep it with infospace__create-note and use infospace__split.",
  });
}
