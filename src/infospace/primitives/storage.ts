import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import { QmError } from "../../core/errors.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { isList } from "../json-preview.ts";
import { noteVisibilities, parseHandle } from "../note.ts";
import { countTextLines, createSampler, previewCollection, previewNote, summarizeResource } from "../preview.ts";
import { INFOSPACE } from "../resource-access.ts";
import type { PrimitiveFactory } from "./derive.ts";
import { createPrimitiveAuthor, DERIVE_EFFECT, nameShape, newNameShape, resolveSource, targetShape } from "./derive.ts";
import { loadResource } from "./load.ts";
import { MEMBER_HANDLES, memberShapes, resolveMemberArguments } from "./members.ts";
import { streamMembers, takeFirst } from "./operation.ts";

const handleShape = z.string().min(1).max(200).describe("Handle such as note__12 or collection__7, or a name.");
const positionShape = z.int().min(0);

export const storageActions: PrimitiveFactory = (parts) => {
  const { infospace, previewLimit } = parts;
  return [
    defineAction(INFOSPACE, {
      entry: "create-note",
      description: "Keep a text or any other JSON value as a note. Answers its handle.",
      effect: "write",
      input: z.lazy(() =>
        z.strictObject({
          value: z.unknown().describe("A text, or any other JSON value."),
          name: newNameShape,
          properties: z.record(z.string(), z.unknown()).optional().describe("What is known of it beside what it says."),
        }),
      ),
      examples: [{ args: { value: "Ada prefers tea.", name: "preferences" } }],
      async run({ value, name, properties }, context) {
        const content = value as Json;
        const label = { name, properties: properties as JsonObject | undefined, replaces: "saved" } as const;
        const note = await infospace.write(createPrimitiveAuthor(context, "create-note"), content, label);
        return previewNote(note, content, previewLimit);
      },
    }),
    defineAction(INFOSPACE, {
      entry: "create-collection",
      description: "Keep a list as a collection, each item a note. Answers its handle.",
      effect: "write",
      input: z.lazy(() => z.strictObject({ ...memberShapes, name: newNameShape })),
      examples: [
        { args: { items: [{ id: 1 }, { id: 2 }], name: "rows" } },
        { args: { notes: ["note__12", "collection__7"] }, description: "The same notes, in one collection." },
      ],
      handleArguments: [MEMBER_HANDLES],
      async run({ name, ...args }, context) {
        const sampler = createSampler(previewLimit);
        const { members, remark } = await resolveMemberArguments(infospace, args, context, sampler);
        const maker = createPrimitiveAuthor(context, "create-collection");
        const made = await infospace.collect(maker, members, { name, replaces: "saved", signal: context.signal });
        return { ...previewCollection(made, sampler, previewLimit - JSON.stringify(remark).length), ...remark };
      },
    }),
    defineAction(INFOSPACE, {
      entry: "save",
      description: "Keep a note or a collection for good. What is not saved is forgotten after a while.",
      effect: "write",
      idempotent: true,
      input: z.lazy(() =>
        z.strictObject({
          target: handleShape,
          name: nameShape
            .optional()
            .describe(
              "A name to find it by. Others keep theirs: a name that several have leads to the newest, see also_called.",
            ),
          reach: z
            .enum(noteVisibilities)
            .default("actor")
            .describe("Who may use it: this conversation, the same assistant in any, or everybody of the tenant."),
        }),
      ),
      examples: [{ args: { target: "collection__7", name: "orders" } }],
      handleArguments: ["target"],
      async run({ target, ...options }, context) {
        const saved = await infospace.save(createPrimitiveAuthor(context, "save"), target, options);
        const others = options.name === undefined ? [] : await infospace.namesakes(saved, context.caller);
        const namesakes = others.length === 0 ? {} : { also_called: others };
        return { ...summarizeResource(saved), saved: true, reach: saved.reach, ...namesakes };
      },
    }),
    defineAction(INFOSPACE, {
      entry: "load",
      description:
        "Read a part of a note or a collection: characters of a text, items of a collection or list, the value at a path. Says how much there is and how to go on.",
      effect: "read",
      idempotent: true,
      input: z.lazy(() =>
        z.strictObject({
          target: handleShape,
          from: positionShape.optional().describe("The position of the first character or item, from 0."),
          to: positionShape.optional().describe("The position after the last."),
          path: z.string().max(512).optional().describe("Where in it: items[0].id; of a collection, [0].id."),
          version: z.int().min(1).optional().describe("An earlier version of it."),
        }),
      ),
      examples: [
        { args: { target: "collection__7", from: 5, to: 10 } },
        { args: { target: "note__12", path: "items[0].title" } },
      ],
      handleArguments: ["target"],
      run: (request, { caller, signal }) => loadResource(parts, request, caller, signal),
    }),
    defineAction(INFOSPACE, {
      entry: "head",
      description: "Make a collection of the first notes of another.",
      effect: DERIVE_EFFECT,
      input: z.lazy(() => z.strictObject({ target: targetShape, count: z.int().min(0).max(100_000).default(10) })),
      examples: [{ args: { target: "collection__7", count: 20 } }],
      handleArguments: ["target"],
      async run({ target, count }, context) {
        const source = await resolveSource(infospace, target, context);
        const sampler = createSampler(previewLimit);
        const members = streamMembers(takeFirst(source.inputs, count), sampler);
        const maker = createPrimitiveAuthor(context, "head");
        const made = await infospace.collect(maker, members, { signal: context.signal });
        const facts = { ...summarizeResource(made), total: source.count, more: source.count > made.count };
        return { ...facts, ...sampler.preview(previewLimit - JSON.stringify(facts).length) };
      },
    }),
    defineAction(INFOSPACE, {
      entry: "size",
      description: "How much is in a note, a collection or a list.",
      effect: "read",
      idempotent: true,
      input: z.lazy(() => z.strictObject({ target: targetShape })),
      examples: [{ args: { target: "collection__7" } }],
      handleArguments: ["target"],
      async run({ target }, { caller }) {
        if (typeof target !== "string") return { count: target.length };
        const resource = await infospace.resource(target, caller);
        if ("count" in resource) return summarizeResource(resource);
        const { content } = await infospace.note(target, caller);
        return { ...summarizeResource(resource), ...measureContent(resource.format === "file" ? null : content) };
      },
    }),
    defineAction(INFOSPACE, {
      entry: "add",
      description: "Append values or notes to a collection.",
      effect: "write",
      input: z.lazy(() => z.strictObject({ target: handleShape, ...memberShapes })),
      examples: [
        { args: { target: "collection__7", items: [{ id: 3 }] } },
        { args: { target: "collection__7", notes: ["note__12"] } },
      ],
      handleArguments: ["target", MEMBER_HANDLES],
      async run({ target, ...args }, context) {
        const before = await infospace.collection(target, context.caller);
        const { members, remark } = await resolveMemberArguments(infospace, args, context);
        const after = await infospace.add(createPrimitiveAuthor(context, "add"), target, members);
        return { ...summarizeResource(after), added: after.count - before.count, ...remark };
      },
    }),
    defineAction(INFOSPACE, {
      entry: "remove",
      description: "Take notes out of a collection; without notes, remove the note or collection itself.",
      effect: "write",
      idempotent: true,
      input: z.lazy(() =>
        z.strictObject({
          target: handleShape,
          notes: z.array(z.string()).min(1).max(10_000).optional().describe("The handles of the notes to take out."),
        }),
      ),
      tags: ["destructive"],
      examples: [{ args: { target: "collection__7", notes: ["note__12"] } }, { args: { target: "note__12" } }],
      handleArguments: ["target", MEMBER_HANDLES],
      async run({ target, notes }, context) {
        const maker = createPrimitiveAuthor(context, "remove");
        if (notes === undefined) {
          const { handle = target } = summarizeResource(await infospace.resource(target, context.caller));
          return { handle, removed: { ...(await infospace.remove(maker, target)) } };
        }
        const ids: number[] = [];
        for (const note of notes) {
          if (parseHandle(note)?.kind !== "note") {
            const hint = "Give note__<number> for each note to take out. {infospace__load} lists them.";
            throw new QmError("not_found", `${quoteName(note)} is not the handle of a note`, { hint });
          }
          ids.push((await infospace.resource(note, context.caller)).id);
        }
        const removed = await infospace.takeOut(maker, target, ids);
        return { ...summarizeResource(await infospace.collection(target, context.caller)), removed };
      },
    }),
  ];
};

function measureContent(content: Json): JsonObject {
  if (typeof content === "string") return { characters: content.length, lines: countTextLines(content) };
  if (isList(content)) return { items: content.length };
  return typeof content === "object" && content !== null ? { fields: Object.keys(content).length } : {};
}
