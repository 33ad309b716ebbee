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
import { collected, DERIVES, inputsOf, pathShape, resultName } from "./deriving.ts";
import type { PrimitiveParts, Primitives } from "./parts.ts";
import { targetShape } from "./target.ts";

/** Operations over the fields of items. */
export const structured: Primitives = (parts) => [
  projectAction(parts),
  pluckAction(parts),
  filterAction(parts),
  sortAction(parts),
  joinAction(parts),
];

const MOST_FIELDS = 50;
const MOST_ROWS = 1_000_000;

function projectAction(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "project",
    description:
      "Keep only the given fields of every item of target, as a new collection. Paths such as owner.name or items[0].id keep their nesting. Tells which fields are missing in how many items.",
    effect: DERIVES,
    input: z.object({
      target: targetShape,
      fields: z
        .union([z.array(pathShape).min(1).max(MOST_FIELDS), z.record(z.string(), pathShape)])
        .describe('Paths, or new names with a path each: {"who": "owner.name"}.'),
      missing: z
        .enum(whenMissing)
        .default("omit")
        .describe("An item without a field: goes without it, gets null, or is dropped."),
      name: resultName,
    }),
    examples: [{ args: { target: "collection__7", fields: ["id", "owner.name"] } }],
    async run({ target, fields, missing, name }, context) {
      const asked = fieldsOf(fields);
      const inputs = await inputsOf(parts, target, context);
      return collected(parts, context, { entry: "project", name }, project(inputs, { fields: asked, missing }));
    },
  });
}

function fieldsOf(fields: readonly string[] | Readonly<Record<string, string>>) {
  if (Array.isArray(fields)) return fields.map(parsePath);
  const named = Object.entries(fields);
  if (named.length > 0 && named.length <= MOST_FIELDS) {
    return new Map(named.map(([name, path]) => [name, parsePath(path)]));
  }
  throw new QmError("invalid_arguments", `fields has ${named.length} names; it must have 1 to ${MOST_FIELDS}`);
}

function pluckAction(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "pluck",
    description:
      "Take the value at one path out of every item of target, as a new collection of those values. Items without it are dropped and counted.",
    effect: DERIVES,
    input: z.object({
      target: targetShape,
      path: pathShape.describe("Such as id, owner.name or items[0].price."),
      name: resultName,
    }),
    examples: [{ args: { target: "collection__7", path: "owner.email" } }],
    async run({ target, path, name }, context) {
      const parsed = parsePath(path);
      const inputs = await inputsOf(parts, target, context);
      return collected(parts, context, { entry: "pluck", name }, pluck(inputs, parsed));
    },
  });
}

function filterAction(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "filter-structured",
    description:
      "Keep the items of target for which a CEL expression is true, as a new collection. Items on which it cannot be decided are not kept and counted apart.",
    effect: DERIVES,
    input: z.object({
      target: targetShape,
      where: z
        .string()
        .min(1)
        .max(4096)
        .describe(
          'CEL over the fields by name, item and position: price > 10 && !sold, has(item.owner), "red" in tags, item["first name"] == "Ada".',
        ),
      name: resultName,
    }),
    examples: [{ args: { target: "collection__7", where: 'price > 10 && status == "open"' } }],
    async run({ target, where, name }, context) {
      const inputs = await inputsOf(parts, target, context);
      return collected(parts, context, { entry: "filter-structured", name }, filter(inputs, where));
    },
  });
}

const order = z.enum(["asc", "desc"]);

function sortAction(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "sort",
    description:
      "Sort the items of target by one or several paths, as a new collection. Nothing is dropped; false < true < numbers < texts < lists and objects, and items without a value go last. Equal items stay in order.",
    effect: DERIVES,
    input: z.object({
      target: targetShape,
      by: z
        .union([
          pathShape,
          z
            .array(z.union([pathShape, z.object({ path: pathShape, order: order.optional() })]))
            .min(1)
            .max(10),
        ])
        .describe('A path, or several: ["status", {"path": "price", "order": "desc"}].'),
      order: order.default("asc").describe("For paths without one of their own."),
      missing: z.enum(["last", "first"]).default("last").describe("Where items go that have nothing or null there."),
      name: resultName,
    }),
    examples: [{ args: { target: "collection__7", by: "price", order: "desc" } }],
    async run({ target, by, order, missing, name }, context) {
      const orders = (typeof by === "string" ? [by] : by).map((each) => {
        const { path, order: direction = order } = typeof each === "string" ? { path: each } : each;
        return { path: parsePath(path), direction };
      });
      const inputs = await inputsOf(parts, target, context);
      return collected(parts, context, { entry: "sort", name }, sort(inputs, { by: orders, missing }));
    },
  });
}

const keyShape = z.union([pathShape, z.object({ left: pathShape, right: pathShape })]);

function joinAction(parts: PrimitiveParts): Action {
  return defineAction(INFOSPACE, {
    entry: "join",
    description:
      "Join the items of target (left) with those of another collection (right) whose values at on are equal, as a new collection of rows. Counts what fits nothing, repeated keys and fields that clash.",
    effect: DERIVES,
    input: z.object({
      target: targetShape,
      with: targetShape,
      on: z
        .union([keyShape, z.array(keyShape).min(1).max(10)])
        .describe('A path in both, {"left": "owner_id", "right": "id"}, or several of these.'),
      kind: z.enum(joinKinds).default("inner").describe("Whose items are kept that nothing fits."),
      clash: z
        .enum(whenClashing)
        .default("prefix")
        .describe(
          "A field with different values on both sides: the right's becomes right_<name>, one wins, or an error.",
        ),
      limit: z.int().min(1).max(MOST_ROWS).default(100_000).describe("Rows at most."),
      name: resultName,
    }),
    examples: [
      { args: { target: "collection__7", with: "collection__9", on: { left: "owner_id", right: "id" }, kind: "left" } },
    ],
    async run({ target, with: other, on, kind, clash, limit, name }, context) {
      const keys = (Array.isArray(on) ? on : [on]).map((key) =>
        typeof key === "string"
          ? { left: parsePath(key), right: parsePath(key) }
          : { left: parsePath(key.left), right: parsePath(key.right) },
      );
      const left = await inputsOf(parts, target, context);
      const right = await inputsOf(parts, other, context);
      const joined = join(left, right, { on: keys, kind, clash, limit });
      return collected(parts, context, { entry: "join", name }, joined);
    },
  });
}
