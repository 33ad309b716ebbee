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
import { DERIVES, givenName, makerFor, newName } from "./deriving.ts";
import { load } from "./loading.ts";
import { MEMBER_HANDLES, membersFrom, membersOf, membersShape } from "./members.ts";
import type { PrimitiveParts, Primitives } from "./parts.ts";
import { sourceOf, targetShape } from "./target.ts";

const handle = z.string().min(1).max(200).describe("Handle such as note__12 or collection__7, or a name.");
const TARGET = ["target"];
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
    input: z.strictObject({
      value: z.unknown().describe("A text, or any other JSON value."),
      name: newName,
      properties: z.record(z.string(), z.unknown()).optional().describe("What is known of it beside what it says."),
    }),
    examples: [{ args: { value: "Ada prefers tea.", name: "preferences" } }],
    async run({ value, name, properties }, context) {
      const content = value as Json;
      const label = { name, properties: properties as JsonObject | undefined, replaces: "saved" } as const;
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
    input: z.strictObject({ ...membersShape, name: newName }),
    examples: [
      { args: { items: [{ id: 1 }, { id: 2 }], name: "rows" } },
      { args: { notes: ["note__12", "collection__7"] }, description: "The same notes, in one collection." },
    ],
    handleArguments: [MEMBER_HANDLES],
    async run({ name, ...given }, context) {
      const sampler = createSampler(previewLimit);
      const { members, remark } = await membersOf(infospace, given, context, sampler);
      const maker = makerFor(context, "create-collection");
      const made = await infospace.collect(maker, members, { name, replaces: "saved", signal: context.signal });
      const room = previewLimit - JSON.stringify(remark).length;
      return { ...shownCollection(made, sampler, room), ...remark };
    },
  });
}

function save({ infospace }: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "save",
    description: "Keep a note or a collection for good. What is not saved is forgotten after a while.",
    effect: "write",
    idempotent: true,
    input: z.strictObject({
      target: handle,
      name: givenName
        .optional()
        .describe(
          "A name to find it by. Others keep theirs: a name that several have leads to the newest, see also_called.",
        ),
      reach: z
        .enum(reaches)
        .default("actor")
        .describe("Who may use it: this conversation, the same assistant in any, or everybody of the tenant."),
    }),
    examples: [{ args: { target: "collection__7", name: "orders" } }],
    handleArguments: TARGET,
    async run({ target, ...how }, context) {
      const saved = await infospace.save(makerFor(context, "save"), target, how);
      const others = how.name === undefined ? [] : await infospace.namesakes(saved, context.caller);
      const called = others.length === 0 ? {} : { also_called: others };
      return { ...shownFacts(saved), saved: true, reach: saved.reach, ...called };
    },
  });
}

function loading(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "load",
    description:
      "Read a part of a note or a collection: characters of a text, items of a collection or list, the value at a path. Says how much there is and how to go on.",
    effect: "read",
    idempotent: true,
    input: z.strictObject({
      target: handle,
      from: position.optional().describe("The position of the first character or item, from 0."),
      to: position.optional().describe("The position after the last."),
      path: z.string().max(512).optional().describe("Where in it: items[0].id; of a collection, [0].id."),
      version: z.int().min(1).optional().describe("An earlier version of it."),
    }),
    examples: [
      { args: { target: "collection__7", from: 5, to: 10 } },
      { args: { target: "note__12", path: "items[0].title" } },
    ],
    handleArguments: TARGET,
    run: (asked, { caller, signal }) => load(parts, asked, caller, signal),
  });
}

function head({ infospace, previewLimit }: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "head",
    description: "Make a collection of the first notes of another.",
    effect: DERIVES,
    input: z.strictObject({ target: targetShape, count: z.int().min(0).max(100_000).default(10) }),
    examples: [{ args: { target: "collection__7", count: 20 } }],
    handleArguments: TARGET,
    async run({ target, count }, context) {
      const source = await sourceOf(infospace, target, context);
      const sampler = createSampler(previewLimit);
      const members = membersFrom(first(source.inputs, count), sampler);
      const made = await infospace.collect(makerFor(context, "head"), members, { signal: context.signal });
      const total = source.count;
      const facts = { ...shownFacts(made), total, more: total > made.count };
      return { ...facts, ...sampler.shown(previewLimit - JSON.stringify(facts).length) };
    },
  });
}

function size({ infospace }: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "size",
    description: "How much is in a note, a collection or a list.",
    effect: "read",
    idempotent: true,
    input: z.strictObject({ target: targetShape }),
    examples: [{ args: { target: "collection__7" } }],
    handleArguments: TARGET,
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
    input: z.strictObject({ target: handle, ...membersShape }),
    examples: [
      { args: { target: "collection__7", items: [{ id: 3 }] } },
      { args: { target: "collection__7", notes: ["note__12"] } },
    ],
    handleArguments: [...TARGET, MEMBER_HANDLES],
    async run({ target, ...given }, context) {
      const before = await infospace.collection(target, context.caller);
      const { members, remark } = await membersOf(infospace, given, context);
      const after = await infospace.add(makerFor(context, "add"), target, members);
      return { ...shownFacts(after), added: after.count - before.count, ...remark };
    },
  });
}

function remove({ infospace }: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "remove",
    description: "Take notes out of a collection; without notes, remove the note or collection itself.",
    effect: "write",
    idempotent: true,
    input: z.strictObject({
      target: handle,
      notes: z.array(z.string()).min(1).max(10_000).optional().describe("The handles of the notes to take out."),
    }),
    tags: ["destructive"],
    examples: [{ args: { target: "collection__7", notes: ["note__12"] } }, { args: { target: "note__12" } }],
    handleArguments: [...TARGET, MEMBER_HANDLES],
    async run({ target, notes }, context) {
      const maker = makerFor(context, "remove");
      if (notes === undefined) {
        const { handle = target } = shownFacts(await infospace.resource(target, context.caller));
        return { handle, removed: { ...(await infospace.remove(maker, target)) } };
      }
      const ids: number[] = [];
      for (const note of notes) {
        if (parseHandle(note)?.kind !== "note") throw notANote(note);
        ids.push((await infospace.resource(note, context.caller)).id);
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
