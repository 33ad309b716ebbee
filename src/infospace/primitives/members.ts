import { z } from "zod";
import type { CallContext } from "../../core/action.ts";
import type { Caller } from "../../core/caller.ts";
import { QmError } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";
import { parseHandle } from "../handle.ts";
import type { Infospace, Member } from "../infospace.ts";
import { jsonLinesOf } from "../json-lines.ts";
import { type ListInText, listInText } from "../large-part.ts";
import { head } from "../operations/derived.ts";
import type { Sampler } from "../shown.ts";
import type { Input } from "./target.ts";

/** What goes into a collection. */
export const membersShape = z
  .union([z.string().min(1), z.array(z.unknown())])
  .describe("A list of values and handles (note__12 is that note, collection__7 all its notes), or one handle.");

/** As long as a name can be: what is longer is no handle. */
const HANDLE_LIMIT = 200;

/**
 * In this order: a text that is a handle is what it leads to, and everything else a new note. A text that is a JSON list, or
 * JSON lines, stands for that list. Every handle is looked up
 * before the first is answered, so that nothing is made where one leads nowhere. `sampler` sees what they say.
 */
export async function membersOf(
  infospace: Infospace,
  items: z.output<typeof membersShape>,
  { caller, signal }: CallContext,
  sampler?: Sampler,
): Promise<AsyncIterable<Member>> {
  if (typeof items === "string") {
    const list = listInText(items);
    if (list !== undefined) return membersFrom(inText(items, list), sampler);
    if (items.length > HANDLE_LIMIT) throw notAList(items);
  }
  const inputs: AsyncIterable<Input>[] = [];
  for (const item of typeof items === "string" ? [items] : items) {
    const isHandle = typeof item === "string" && (typeof items === "string" || parseHandle(item) !== undefined);
    if (!isHandle) {
      inputs.push(given(item as Json));
      continue;
    }
    const resource = await infospace.resource(item, caller);
    if (!("count" in resource)) inputs.push(noteAt(infospace, item, caller));
    // No more than there are now: it may be the very collection that they are added to.
    else inputs.push(head(infospace.items(resource, { signal }), resource.count));
  }
  return membersFrom(joined(inputs), sampler);
}

/** Notes that are there by their ids, and values as new notes. */
export async function* membersFrom(inputs: AsyncIterable<Input>, sampler?: Sampler): AsyncGenerator<Member> {
  for await (const { id, content } of inputs) {
    sampler?.take(content);
    yield id === undefined ? { content } : { id };
  }
}

async function* joined(inputs: readonly AsyncIterable<Input>[]): AsyncGenerator<Input> {
  for (const each of inputs) yield* each;
}

/** What a text says is data: handles in it are texts. */
async function* inText(text: string, list: ListInText): AsyncGenerator<Input> {
  for (const content of list.form === "lines" ? jsonLinesOf(text).values : list.value) yield { content };
}

function notAList(text: string): QmError {
  return new QmError("invalid_arguments", `items is a text of ${text.length} characters that is no list`, {
    hint: "Give a list, a text that is a JSON list or JSON lines, or a handle. To take a text apart keep it with infospace__create-note and use infospace__split.",
  });
}

async function* given(content: Json): AsyncGenerator<Input> {
  yield { content };
}

async function* noteAt(infospace: Infospace, handle: string, caller: Caller): AsyncGenerator<Input> {
  yield await infospace.note(handle, caller);
}
