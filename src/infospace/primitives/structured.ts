import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import type { Action } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { filter } from "../operations/filter.ts";
import { join, joinKinds, whenClashing } from "../operations/join.ts";
import { pluck, project, whenMissing } from "../operations/project.ts";
import { sort } from "../operations/sort.ts";
import { parsePath } from "../path.ts";
import { INFOSPACE } from "../resource.ts";
import { collected, DERIVES, DERIVING_MS, openSource, pathShape, resultName } from "./deriving.ts";
import type { PrimitiveParts, Primitives } from "./parts.ts";
import { otherShape, targetShape } from "./target.ts";

/** Operations over the fields of items. */
export const structured: Primitives = (parts) => [
  projectAction(parts),
  pluckAction(parts),
  filterAction(parts),
  sortAction(parts),
  joinAction(parts),
];

const MOST_FIELDS = 50;
const MOST_KEYS = 10;
const MOST_ROWS = 1_000_000;

const traits = { effect: DERIVES, timeoutMs: DERIVING_MS, handleArguments: ["target"] } as const;

function projectAction(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    ...traits,
    entry: "project",
    description: "Keep only some fields of every item, as a new collection. Nesting stays.",
    input: z.strictObject({
      target: targetShape,
      fields: z
        .union([z.array(pathShape), z.record(z.string(), pathShape)])
        .describe('Paths such as owner.name or items[0].id; or new names: {"who": "owner.name"}.'),
      missing: z
        .enum(whenMissing)
        .default("omit")
        .describe("Items without a field go without, get null, or are dropped."),
      name: resultName,
    }),
    examples: [{ args: { target: "collection__7", fields: ["id", "owner.name"] } }],
    async run({ target, fields, missing, name }, context) {
      const asked = fieldsOf(fields);
      const source = await openSource(parts, target, context);
      const made = project(source.inputs, { fields: asked, missing });
      return collected(parts, context, { entry: "project", name, from: [source] }, made);
    },
  });
}

function fieldsOf(fields: readonly string[] | Readonly<Record<string, string>>) {
  const count = Object.keys(fields).length;
  if (count === 0 || count > MOST_FIELDS) {
    throw new QmError("invalid_arguments", `fields has ${count} of them; it must have 1 to ${MOST_FIELDS}`);
  }
  if (Array.isArray(fields)) return fields.map(parsePath);
  return new Map(Object.entries(fields).map(([name, path]) => [name, parsePath(path)]));
}

function pluckAction(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    ...traits,
    entry: "pluck",
    description: "Take the value at one path out of every item, as a new collection of values.",
    input: z.strictObject({ target: targetShape, path: pathShape, name: resultName }),
    examples: [{ args: { target: "collection__7", path: "owner.email" } }],
    async run({ target, path, name }, context) {
      const parsed = parsePath(path);
      const source = await openSource(parts, target, context);
      return collected(parts, context, { entry: "pluck", name, from: [source] }, pluck(source.inputs, parsed));
    },
  });
}

function filterAction(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    ...traits,
    entry: "filter-structured",
    aliases: ["infospace__filter"],
    description: "Keep the items for which a condition is true, as a new collection.",
    input: z.strictObject({
      target: targetShape,
      where: z
        .string()
        .describe(
          'CEL over fields, item and position: price > 10 && !sold, "red" in tags, has(item.owner), name.contains("x").',
        ),
      name: resultName,
    }),
    examples: [{ args: { target: "collection__7", where: 'price > 10 && status == "open"' } }],
    async run({ target, where, name }, context) {
      const source = await openSource(parts, target, context);
      return collected(
        parts,
        context,
        { entry: "filter-structured", name, from: [source] },
        filter(source.inputs, where),
      );
    },
  });
}

const order = z.enum(["asc", "desc"]);
const sortKey = z.union([pathShape, z.strictObject({ path: pathShape, order: order.optional() })]);

function sortAction(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    ...traits,
    entry: "sort",
    description: "Sort the items by one or several paths, as a new collection. Stable; numbers before texts.",
    input: z.strictObject({
      target: targetShape,
      by: z
        .union([pathShape, several(sortKey)])
        .describe('A path, or several: ["status", {"path": "price", "order": "desc"}].'),
      order: order.default("asc"),
      missing: z.enum(["last", "first"]).default("last").describe("Where items without a value go."),
      name: resultName,
    }),
    examples: [{ args: { target: "collection__7", by: "price", order: "desc" } }],
    async run({ target, by, order, missing, name }, context) {
      const orders = (typeof by === "string" ? [by] : by).map((each) => {
        const { path, order: direction = order } = typeof each === "string" ? { path: each } : each;
        return { path: parsePath(path), direction };
      });
      const source = await openSource(parts, target, context);
      const made = sort(source.inputs, { by: orders, missing });
      return collected(parts, context, { entry: "sort", name, from: [source] }, made);
    },
  });
}

const keyPair = z.strictObject({ left: pathShape, right: pathShape });

function joinAction(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    ...traits,
    entry: "join",
    description:
      "Join the items of target (left) and with (right) that have the same values, as a new collection of rows. Counts what fits nothing.",
    handleArguments: ["target", "with"],
    input: z.strictObject({
      target: targetShape,
      with: otherShape,
      on: z
        .union([pathShape, keyPair, several(z.union([pathShape, keyPair]))])
        .describe('A path in both, {"left": "owner_id", "right": "id"}, or a list of these.'),
      kind: z.enum(joinKinds).default("inner"),
      clash: z.enum(whenClashing).default("prefix").describe("What becomes of fields that differ."),
      limit: z.int().min(1).max(MOST_ROWS).default(100_000),
      name: resultName,
    }),
    examples: [{ args: { target: "collection__7", with: "collection__9", on: { left: "owner_id", right: "id" } } }],
    async run({ target, with: other, on, kind, clash, limit, name }, context) {
      const keys = (Array.isArray(on) ? on : [on]).map((key) =>
        typeof key === "string"
          ? { left: parsePath(key), right: parsePath(key) }
          : { left: parsePath(key.left), right: parsePath(key.right) },
      );
      const left = await openSource(parts, target, context);
      const right = await openSource(parts, other, context);
      const joined = join(left.inputs, right.inputs, { on: keys, kind, clash, limit });
      return collected(parts, context, { entry: "join", name, from: [left, right] }, joined);
    },
  });
}

/** A list whose items are checked and not shown: what they are, the description says by example. */
function several<Item extends z.ZodType>(item: Item) {
  return z.array(z.unknown()).pipe(z.array(item).min(1).max(MOST_KEYS));
}
