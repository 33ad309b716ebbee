import { z } from "zod";
import type { CallContext } from "../../core/action.ts";
import type { Caller } from "../../core/caller.ts";
import { QmError } from "../../core/errors.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { parseHandle } from "../handle.ts";
import type { Infospace, Member } from "../infospace.ts";
import { jsonLinesOf } from "../json-lines.ts";
import { listInText } from "../large-part.ts";
import type { Input } from "../operations/derived.ts";
import { head } from "../operations/derived.ts";
import type { Sampler } from "../shown.ts";

/**
 * What goes into a collection: values, and notes that are there. They are apart so that nothing in a value is ever followed:
 * a result may hold whatever looks like a handle.
 */
export const membersShape = {
  items: z
    .union([z.string().min(1), z.array(z.unknown())])
    .optional()
    .describe("A list of values, each a new note."),
  notes: z
    .union([z.string().min(1).max(200), z.array(z.string().max(200))])
    .optional()
    .describe("Handles of notes that are there, or of a collection for all of its notes."),
};

export interface Members {
  readonly items?: string | readonly unknown[] | undefined;
  readonly notes?: string | readonly string[] | undefined;
}

/** Those of the arguments above that are handles. */
export const MEMBER_HANDLES = "notes[]";

export interface Gathered {
  readonly members: AsyncIterable<Member>;
  /** For the answer, where something may not be what was meant. */
  readonly remark: JsonObject;
}

/**
 * The values in their order, each a new note, then the notes. A text that is a JSON list, or JSON lines, stands for that list
 * of values. Every handle is looked up before the first is answered, so that nothing is made where one leads nowhere.
 * `sampler` sees what they say.
 */
export async function membersOf(
  infospace: Infospace,
  { items, notes }: Members,
  { caller, signal }: CallContext,
  sampler?: Sampler,
): Promise<Gathered> {
  if (items === undefined && notes === undefined) throw nothingGiven();
  const values = valuesOf(items ?? []);
  const inputs: AsyncIterable<Input>[] = [given(values)];
  for (const handle of typeof notes === "string" ? [notes] : (notes ?? [])) {
    const resource = await infospace.resource(handle, caller);
    if (!("count" in resource)) inputs.push(noteAt(infospace, handle, caller));
    // No more than there are now: it may be the very collection that they are added to.
    else inputs.push(head(infospace.items(resource, { signal }), resource.count));
  }
  return { members: membersFrom(joined(inputs), sampler), remark: remarkOn(values) };
}

/** Notes that are there by their ids, and values as new notes. */
export async function* membersFrom(inputs: AsyncIterable<Input>, sampler?: Sampler): AsyncGenerator<Member> {
  for await (const { id, content } of inputs) {
    sampler?.take(content);
    yield id === undefined ? { content } : { id };
  }
}

function valuesOf(items: string | readonly unknown[]): Iterable<Json> {
  if (typeof items !== "string") return items as readonly Json[];
  const list = listInText(items);
  if (list === undefined) throw notAList(items);
  return list.form === "lines" ? jsonLinesOf(items).values : list.value;
}

/** Whoever meant notes with it is told so. */
function remarkOn(values: Iterable<Json>): JsonObject {
  const handle = Array.isArray(values) ? values.find(isHandle) : undefined;
  return handle === undefined ? {} : { note: `items are values: ${handle} was kept as a text. notes takes handles.` };
}

function isHandle(value: unknown): value is string {
  return typeof value === "string" && parseHandle(value) !== undefined;
}

async function* joined(inputs: readonly AsyncIterable<Input>[]): AsyncGenerator<Input> {
  for (const each of inputs) yield* each;
}

async function* given(values: Iterable<Json>): AsyncGenerator<Input> {
  for (const content of values) yield { content };
}

async function* noteAt(infospace: Infospace, handle: string, caller: Caller): AsyncGenerator<Input> {
  yield await infospace.note(handle, caller);
}

function nothingGiven(): QmError {
  return new QmError("invalid_arguments", "there are neither items nor notes", {
    hint: "Give values as items, or handles of notes that are there as notes; an empty list is one, too.",
  });
}

function notAList(text: string): QmError {
  return new QmError("invalid_arguments", `items is a text of ${text.length} characters that is no list`, {
    hint: "Give a list, or a text that is a JSON list or JSON lines; handles go into notes. To take a text apart keep it with infospace__create-note and use infospace__split.",
  });
}
