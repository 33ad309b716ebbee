import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";
import { type JsonPath, type PathStep, parseJsonPath, readJsonPath } from "../json-path.ts";
import { isList } from "../json-preview.ts";
import { INFOSPACE } from "../resource-access.ts";
import type { PrimitiveFactory, PrimitiveOptions } from "./derive.ts";
import {
  collectDerived,
  DERIVE_EFFECT,
  DERIVE_TIMEOUT_MS,
  openSource,
  otherShape,
  pathShape,
  resultNameShape,
  targetShape,
} from "./derive.ts";
import { filterItems } from "./filter.ts";
import { clashModes, joinItems, joinKinds } from "./join.ts";
import { createReasonLog, type DerivedItems, type ItemReason, type PrimitiveItems } from "./operation.ts";
import { sortItems } from "./sort.ts";

/** What becomes of an item that has not all of the fields: it goes, it gets null in their place, or it goes without them. */
export const missingFieldModes = ["omit", "null", "drop"] as const;

interface ProjectOptions {
  /**
   * Paths keep the shape: what comes out is the item with only these parts left, lists with only these positions. By new
   * names, each value lies directly under its name.
   */
  readonly fields: readonly JsonPath[] | ReadonlyMap<string, JsonPath>;
  readonly missing: (typeof missingFieldModes)[number];
}

type ProjectReport = {
  readonly input: number;
  readonly dropped: number;
  /** The paths that not every item has, with the first item that has not. */
  readonly missing: readonly ({ readonly path: string; readonly count: number } & ItemReason)[];
};

/** An item of which nothing is left is dropped, whatever is asked for. */
export function projectItems(inputs: PrimitiveItems, { fields, missing }: ProjectOptions): DerivedItems<ProjectReport> {
  const asked = [...fields.entries()].map(([name, path]) => ({ name, path, lacking: 0, first: createReasonLog() }));
  const isRenaming = !Array.isArray(fields);
  let input = 0;
  let dropped = 0;

  function projectItem(content: Json, position: number): Json | undefined {
    const tree: TreeBranch = { parts: new Map() };
    let isWhole = true;
    for (const field of asked) {
      const at = isRenaming ? [field.name] : resolveNegativeSteps(content, field.path.steps);
      const found = readJsonPath(content, field.path);
      if (found.found) {
        insertValue(tree, at, found.value);
        continue;
      }
      isWhole = false;
      field.lacking++;
      field.first.add(position, found.missing);
      if (missing === "null") insertValue(tree, at, null);
    }
    if (missing === "drop" && !isWhole) return undefined;
    return buildValue(tree, isRenaming ? undefined : content);
  }

  async function* items() {
    for await (const { content } of inputs) {
      const made = projectItem(content, input++);
      if (made === undefined) dropped++;
      else yield { content: made };
    }
  }

  return {
    items: items(),
    report: () => ({
      input,
      dropped,
      missing: asked.flatMap(({ path, lacking, first }) =>
        first
          .first()
          .slice(0, 1)
          .map((reason) => ({ path: path.text, count: lacking, ...reason })),
      ),
    }),
  };
}

type PluckReport = {
  readonly input: number;
  readonly dropped: number;
  readonly missing: readonly ItemReason[];
};

/** The value at the path of each item; null is one. */
export function pluckItems(inputs: PrimitiveItems, path: JsonPath): DerivedItems<PluckReport> {
  const reasons = createReasonLog();
  let input = 0;
  let dropped = 0;

  async function* items() {
    for await (const { content } of inputs) {
      const position = input++;
      const found = readJsonPath(content, path);
      if (found.found) {
        yield { content: found.value };
      } else {
        dropped++;
        reasons.add(position, found.missing);
      }
    }
  }

  return { items: items(), report: () => ({ input, dropped, missing: reasons.first() }) };
}

/** A value that is grown part by part: one that is there, or what lies below. */
type TreeNode = { readonly value: Json } | TreeBranch;
interface TreeBranch {
  readonly parts: Map<PathStep, TreeNode>;
}

/** What was put at a place whole stays whole, and takes the place of parts. */
function insertValue(tree: TreeBranch, steps: readonly PathStep[], value: Json): void {
  let at = tree;
  for (const step of steps.slice(0, -1)) {
    const present = at.parts.get(step);
    if (present !== undefined && "value" in present) return;
    const next: TreeBranch = present ?? { parts: new Map() };
    at.parts.set(step, next);
    at = next;
  }
  at.parts.set(steps.at(-1) ?? WHOLE, { value });
}

/** The last step of the empty path: everything, beside which nothing else counts. */
const WHOLE = Number.NaN;

/** The kind of what was there decides where both names and positions were asked for. */
function buildValue(part: TreeNode, was: Json | undefined): Json | undefined {
  if ("value" in part) return part.value;
  const whole = part.parts.get(WHOLE);
  if (whole !== undefined) return buildValue(whole, was);
  const [first] = part.parts.keys();
  if (first === undefined) return undefined;
  const isPositions = was !== null && typeof was === "object" ? isList(was) : typeof first === "number";
  const entries = [...part.parts]
    .filter(([step]) => (typeof step === "number") === isPositions)
    .map(([step, each]): [PathStep, Json] => {
      const below = was === undefined ? undefined : readJsonPath(was, { steps: [step] });
      return [step, buildValue(each, below?.found ? below.value : undefined) ?? null];
    });
  if (isPositions) return entries.sort(([a], [b]) => Number(a) - Number(b)).map(([, each]) => each);
  return Object.fromEntries(entries);
}

/** Positions from the end as positions from the start, so that the same one is not taken for two. */
function resolveNegativeSteps(content: Json, steps: readonly PathStep[]): readonly PathStep[] {
  if (!steps.some((step) => typeof step === "number" && step < 0)) return steps;
  return steps.map((step, index) => {
    if (typeof step !== "number" || step >= 0) return step;
    const list = readJsonPath(content, { steps: steps.slice(0, index) });
    return list.found && isList(list.value) ? list.value.length + step : step;
  });
}

/** Operations over the fields of items. */
export const fieldActions: PrimitiveFactory = (parts) => [
  projectAction(parts),
  pluckAction(parts),
  filterAction(parts),
  sortAction(parts),
  joinAction(parts),
];

const MOST_FIELDS = 50;
const MOST_KEYS = 10;
const MOST_ROWS = 1_000_000;

const traits = { effect: DERIVE_EFFECT, timeoutMs: DERIVE_TIMEOUT_MS, handleArguments: ["target"] } as const;

function projectAction(parts: PrimitiveOptions): Action {
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
        .enum(missingFieldModes)
        .default("omit")
        .describe("Items without a field go without, get null, or are dropped."),
      name: resultNameShape,
    }),
    examples: [{ args: { target: "collection__7", fields: ["id", "owner.name"] } }],
    async run({ target, fields, missing, name }, context) {
      const asked = parseFields(fields);
      const source = await openSource(parts, target, context);
      const made = projectItems(source.inputs, { fields: asked, missing });
      return collectDerived(parts, context, { entry: "project", name, from: [source] }, made);
    },
  });
}

function parseFields(fields: readonly string[] | Readonly<Record<string, string>>) {
  const count = Object.keys(fields).length;
  if (count === 0 || count > MOST_FIELDS) {
    throw new QmError("invalid_arguments", `fields has ${count} of them; it must have 1 to ${MOST_FIELDS}`);
  }
  if (Array.isArray(fields)) return fields.map(parseJsonPath);
  return new Map(Object.entries(fields).map(([name, path]) => [name, parseJsonPath(path)]));
}

function pluckAction(parts: PrimitiveOptions): Action {
  return defineAction(INFOSPACE, {
    ...traits,
    entry: "pluck",
    description: "Take the value at one path out of every item, as a new collection of values.",
    input: z.strictObject({ target: targetShape, path: pathShape, name: resultNameShape }),
    examples: [{ args: { target: "collection__7", path: "owner.email" } }],
    async run({ target, path, name }, context) {
      const parsed = parseJsonPath(path);
      const source = await openSource(parts, target, context);
      return collectDerived(
        parts,
        context,
        { entry: "pluck", name, from: [source] },
        pluckItems(source.inputs, parsed),
      );
    },
  });
}

function filterAction(parts: PrimitiveOptions): Action {
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
      name: resultNameShape,
    }),
    examples: [{ args: { target: "collection__7", where: 'price > 10 && status == "open"' } }],
    async run({ target, where, name }, context) {
      const source = await openSource(parts, target, context);
      return collectDerived(
        parts,
        context,
        { entry: "filter-structured", name, from: [source] },
        filterItems(source.inputs, where),
      );
    },
  });
}

const order = z.enum(["asc", "desc"]);
const sortKeyShape = z.union([pathShape, z.strictObject({ path: pathShape, order: order.optional() })]);

function sortAction(parts: PrimitiveOptions): Action {
  return defineAction(INFOSPACE, {
    ...traits,
    entry: "sort",
    description: "Sort the items by one or several paths, as a new collection. Stable; numbers before texts.",
    input: z.strictObject({
      target: targetShape,
      by: z
        .union([pathShape, createListShape(sortKeyShape)])
        .describe('A path, or several: ["status", {"path": "price", "order": "desc"}].'),
      order: order.default("asc"),
      missing: z.enum(["last", "first"]).default("last").describe("Where items without a value go."),
      name: resultNameShape,
    }),
    examples: [{ args: { target: "collection__7", by: "price", order: "desc" } }],
    async run({ target, by, order, missing, name }, context) {
      const orders = (typeof by === "string" ? [by] : by).map((each) => {
        const { path, order: direction = order } = typeof each === "string" ? { path: each } : each;
        return { path: parseJsonPath(path), direction };
      });
      const source = await openSource(parts, target, context);
      const made = sortItems(source.inputs, { by: orders, missing });
      return collectDerived(parts, context, { entry: "sort", name, from: [source] }, made);
    },
  });
}

const keyPair = z.strictObject({ left: pathShape, right: pathShape });

function joinAction(parts: PrimitiveOptions): Action {
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
        .union([pathShape, keyPair, createListShape(z.union([pathShape, keyPair]))])
        .describe('A path in both, {"left": "owner_id", "right": "id"}, or a list of these.'),
      kind: z.enum(joinKinds).default("inner"),
      clash: z.enum(clashModes).default("prefix").describe("What becomes of fields that differ."),
      limit: z.int().min(1).max(MOST_ROWS).default(100_000),
      name: resultNameShape,
    }),
    examples: [{ args: { target: "collection__7", with: "collection__9", on: { left: "owner_id", right: "id" } } }],
    async run({ target, with: other, on, kind, clash, limit, name }, context) {
      const keys = (Array.isArray(on) ? on : [on]).map((key) =>
        typeof key === "string"
          ? { left: parseJsonPath(key), right: parseJsonPath(key) }
          : { left: parseJsonPath(key.left), right: parseJsonPath(key.right) },
      );
      const left = await openSource(parts, target, context);
      const right = await openSource(parts, other, context);
      const joined = joinItems(left.inputs, right.inputs, { on: keys, kind, clash, limit });
      return collectDerived(parts, context, { entry: "join", name, from: [left, right] }, joined);
    },
  });
}

/** A list whose items are checked and not shown: what they are, the description says by example. */
function createListShape<Item extends z.ZodType>(item: Item) {
  return z.array(z.unknown()).pipe(z.array(item).min(1).max(MOST_KEYS));
}
