import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import type { Action } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { quoted } from "../../core/names.ts";
import { isList } from "../content.ts";
import { parseHandle } from "../handle.ts";
import { reaches } from "../note.ts";
import { head as first } from "../operations/derived.ts";
import { INFOSPACE } from "../resource.ts";
import { createSampler, linesOf, shownCollection, shownFacts, shownNote } from "../shown.ts";
import { DERIVES, makerFor } from "./deriving.ts";
import { load } from "./loading.ts";
import { membersFrom, membersOf, membersShape } from "./members.ts";
import type { PrimitiveParts, Primitives } from "./parts.ts";
import { sourceOf, targetShape } from "./target.ts";

const name = z.string().trim().min(1).max(200).describe("The same name again is the next version of the same thing.");
const handle = z.string().min(1).max(64).describe("A handle such as note__12 or collection__7.");
const position = z.int().min(0);

/** Making, keeping, reading and removing notes and collections. */
export const storage: Primitives = (parts) => [
  createNote(parts),
  createCollection(parts),
  save(parts),
  loading(parts),
  head(parts),
  size(parts),
  add(parts),
  remove(parts),
];

function createNote({ infospace, previewLimit }: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "create-note",
    description: "Keep a text or any other JSON value as a note. Answers its handle.",
    effect: "write",
    input: z.object({
      value: z.unknown().describe("A text, or any other JSON value."),
      name: name.optional(),
      properties: z.record(z.string(), z.unknown()).optional().describe("What is known of it beside what it says."),
    }),
    async run({ value, name, properties }, context) {
      const content = value as Json;
      const label = { name, properties: properties as JsonObject | undefined };
      const note = await infospace.write(makerFor(context, "create-note"), content, label);
      return shownNote(note, content, previewLimit);
    },
  });
}

function createCollection({ infospace, previewLimit }: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "create-collection",
    description: "Keep a list as a collection, each item a note. Answers its handle.",
    effect: "write",
    input: z.object({ items: membersShape, name: name.optional() }),
    async run({ items, name }, context) {
      const sampler = createSampler(previewLimit);
      const members = await membersOf(infospace, items, context, sampler);
      const maker = makerFor(context, "create-collection");
      const made = await infospace.collect(maker, members, { name, signal: context.signal });
      return shownCollection(made, sampler, previewLimit);
    },
  });
}

function save({ infospace }: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "save",
    description: "Keep a note or a collection for good. What is not saved is forgotten after a while.",
    effect: "write",
    idempotent: true,
    input: z.object({
      target: handle,
      name: name.optional(),
      reach: z
        .enum(reaches)
        .default("actor")
        .describe("Who may use it: this conversation, the same assistant in any, or everybody of the tenant."),
    }),
    async run({ target, ...how }, context) {
      const saved = await infospace.save(makerFor(context, "save"), target, how);
      return { ...shownFacts(saved), saved: true, reach: saved.reach };
    },
  });
}

function loading({ infospace }: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "load",
    description:
      "Read a part of a note or a collection: characters of a text, items of a collection or list, the value at a path. Says how much there is and how to go on.",
    effect: "read",
    idempotent: true,
    input: z.object({
      target: handle,
      from: position.optional().describe("The position of the first character or item, from 0."),
      to: position.optional().describe("The position after the last."),
      path: z.string().max(512).optional().describe("Where in it: items[0].id; of a collection, [0].id."),
      version: z.int().min(1).optional().describe("An earlier version of it."),
    }),
    run: (asked, { caller, signal }) => load(infospace, asked, caller, signal),
  });
}

function head({ infospace, previewLimit }: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "head",
    description: "Make a collection of the first notes of another.",
    effect: DERIVES,
    input: z.object({ target: targetShape, count: z.int().min(0).max(100_000).default(10) }),
    async run({ target, count }, context) {
      const source = await sourceOf(infospace, target, context);
      const sampler = createSampler(previewLimit);
      const members = membersFrom(first(source.inputs, count), sampler);
      const made = await infospace.collect(makerFor(context, "head"), members, { signal: context.signal });
      const total = source.count;
      return { ...shownCollection(made, sampler, previewLimit), total, more: total > made.count };
    },
  });
}

function size({ infospace }: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "size",
    description: "How much is in a note, a collection or a list.",
    effect: "read",
    idempotent: true,
    input: z.object({ target: targetShape }),
    async run({ target }, { caller }) {
      if (typeof target !== "string") return { count: target.length };
      const resource = await infospace.resource(target, caller);
      if ("count" in resource) return shownFacts(resource);
      const { content } = await infospace.note(target, caller);
      return { ...shownFacts(resource), ...sizeOf(resource.format === "file" ? null : content) };
    },
  });
}

function add({ infospace }: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "add",
    description: "Append values or notes to a collection.",
    effect: "write",
    input: z.object({ target: handle, items: membersShape }),
    async run({ target, items }, context) {
      const before = await infospace.collection(target, context.caller);
      const members = await membersOf(infospace, items, context);
      const after = await infospace.add(makerFor(context, "add"), target, members);
      return { ...shownFacts(after), added: after.count - before.count };
    },
  });
}

function remove({ infospace }: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "remove",
    description: "Take notes out of a collection; without items, remove the note or collection itself.",
    effect: "write",
    idempotent: true,
    input: z.object({
      target: handle,
      items: z.array(handle).min(1).max(10_000).optional().describe("The handles of the notes to take out."),
    }),
    async run({ target, items }, context) {
      const maker = makerFor(context, "remove");
      if (items === undefined) return { handle: target, removed: { ...(await infospace.remove(maker, target)) } };
      const ids: number[] = [];
      for (const item of items) {
        if (parseHandle(item)?.kind !== "note") throw notANote(item);
        ids.push((await infospace.resource(item, context.caller)).id);
      }
      const removed = await infospace.takeOut(maker, target, ids);
      return { ...shownFacts(await infospace.collection(target, context.caller)), removed };
    },
  });
}

function sizeOf(content: Json): JsonObject {
  if (typeof content === "string") return { characters: content.length, lines: linesOf(content) };
  if (isList(content)) return { items: content.length };
  return typeof content === "object" && content !== null ? { fields: Object.keys(content).length } : {};
}

function notANote(item: string): QmError {
  return new QmError("not_found", `${quoted(item)} is not the handle of a note`, {
    hint: "Give note__<number> for each note that goes; infospace__load lists them.",
  });
}
