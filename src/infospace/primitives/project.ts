import { z } from "zod";
import { QmError } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";
import { type JsonPath, type PathStep, parseJsonPath, readJsonPath } from "../json-path.ts";
import { isList } from "../json-preview.ts";
import { defineDerivation, type PrimitiveOptions, pathShape } from "./derive.ts";
import { createReasonLog, type PrimitiveItems } from "./operation.ts";

const MAX_FIELDS = 50;

/** An item that lacks fields goes without them, gets null for them, or is dropped. */
export const missingFieldModes = ["omit", "null", "drop"] as const;

export const projectAction = (parts: PrimitiveOptions) =>
  defineDerivation(parts, {
    entry: "project",
    description: "Keep only some fields of every item, as a new collection. Nesting stays.",
    fields: {
      fields: z
        .union([z.array(pathShape), z.record(z.string(), pathShape)])
        .describe('Paths such as owner.name or items[0].id; or new names: {"who": "owner.name"}.'),
      missing: z
        .enum(missingFieldModes)
        .default("omit")
        .describe("Items without a field go without, get null, or are dropped."),
    },
    examples: [{ args: { target: "collection__7", fields: ["id", "owner.name"] } }],
    async derive({ target, fields, missing }, open) {
      const paths = parseFields(fields);
      return projectItems(await open(target), { fields: paths, missing });
    },
  });

function parseFields(fields: readonly string[] | Readonly<Record<string, string>>) {
  const count = Object.keys(fields).length;
  if (count === 0 || count > MAX_FIELDS) {
    throw new QmError("invalid_arguments", `fields must have 1 to ${MAX_FIELDS} paths, and has ${count}`);
  }
  if (Array.isArray(fields)) return fields.map(parseJsonPath);
  return new Map(Object.entries(fields).map(([name, path]) => [name, parseJsonPath(path)]));
}

export const pluckAction = (parts: PrimitiveOptions) =>
  defineDerivation(parts, {
    entry: "pluck",
    description: "Take the value at one path out of every item, as a new collection of values.",
    fields: { path: pathShape },
    examples: [{ args: { target: "collection__7", path: "owner.email" } }],
    async derive({ target, path }, open) {
      const parsed = parseJsonPath(path);
      return pluckItems(await open(target), parsed);
    },
  });

/** A list of paths keeps the nesting. A map puts each value directly under its new name. */
type FieldPaths = readonly JsonPath[] | ReadonlyMap<string, JsonPath>;
type ProjectOptions = Readonly<{ fields: FieldPaths; missing: (typeof missingFieldModes)[number] }>;

/** Drops an item that has none of the fields, for every `missing` mode. */
export function projectItems(inputs: PrimitiveItems, { fields, missing }: ProjectOptions) {
  const wanted = [...fields.entries()].map(([name, path]) => ({ name, path, count: 0, reasons: createReasonLog() }));
  const isRenaming = !Array.isArray(fields);
  let [input, dropped] = [0, 0];

  function projectItem(content: Json, position: number): Json | undefined {
    const tree: TreeBranch = { parts: new Map() };
    let isWhole = true;
    for (const field of wanted) {
      const steps = isRenaming ? [field.name] : resolveNegativeSteps(content, field.path.steps);
      const found = readJsonPath(content, field.path);
      if (found.found) {
        insertValue(tree, steps, found.value);
        continue;
      }
      isWhole = false;
      field.count++;
      field.reasons.add(position, found.missing);
      if (missing === "null") insertValue(tree, steps, null);
    }
    if (missing === "drop" && !isWhole) return undefined;
    return buildValue(tree, isRenaming ? undefined : content);
  }

  async function* items() {
    for await (const { content } of inputs) {
      const projected = projectItem(content, input++);
      if (projected === undefined) dropped++;
      else yield { content: projected };
    }
  }

  const reportFields = () =>
    wanted.flatMap(({ path, count, reasons }) => {
      const [first] = reasons.first();
      return first === undefined ? [] : [{ path: path.text, count, ...first }];
    });
  return { items: items(), report: () => ({ input, dropped, missing: reportFields() }) };
}

/** Drops items without the path. Null is a value. */
export function pluckItems(inputs: PrimitiveItems, path: JsonPath) {
  const reasons = createReasonLog();
  let [input, dropped] = [0, 0];

  async function* items() {
    for await (const { content } of inputs) {
      const position = input++;
      const found = readJsonPath(content, path);
      if (found.found) yield { content: found.value };
      else {
        dropped++;
        reasons.add(position, found.missing);
      }
    }
  }

  return { items: items(), report: () => ({ input, dropped, missing: reasons.first() }) };
}

/** A result under construction: a finished value, or the parts known so far. */
type TreeNode = { readonly value: Json } | TreeBranch;
type TreeBranch = { readonly parts: Map<PathStep, TreeNode> };

/** The step that stands for the empty path. */
const WHOLE = Number.NaN;

/** A whole value replaces parts of it, and is not changed by parts that come later. */
function insertValue(tree: TreeBranch, steps: readonly PathStep[], value: Json): void {
  let branch = tree;
  for (const step of steps.slice(0, -1)) {
    const present = branch.parts.get(step);
    if (present !== undefined && "value" in present) return;
    const next: TreeBranch = present ?? { parts: new Map() };
    branch.parts.set(step, next);
    branch = next;
  }
  branch.parts.set(steps.at(-1) ?? WHOLE, { value });
}

/** If both names and positions were asked for, the kind of the original value decides. */
function buildValue(node: TreeNode, original: Json | undefined): Json | undefined {
  if ("value" in node) return node.value;
  const whole = node.parts.get(WHOLE);
  if (whole !== undefined) return buildValue(whole, original);
  const [first] = node.parts.keys();
  if (first === undefined) return undefined;
  const isPositions = original !== null && typeof original === "object" ? isList(original) : typeof first === "number";
  const entries = [...node.parts]
    .filter(([step]) => (typeof step === "number") === isPositions)
    .map(([step, part]): [PathStep, Json] => {
      const below = original === undefined ? undefined : readJsonPath(original, { steps: [step] });
      return [step, buildValue(part, below?.found ? below.value : undefined) ?? null];
    });
  if (isPositions) return entries.sort(([a], [b]) => Number(a) - Number(b)).map(([, part]) => part);
  return Object.fromEntries(entries);
}

/** Counts negative positions from the start, so that one position is not taken for two. */
function resolveNegativeSteps(content: Json, steps: readonly PathStep[]): readonly PathStep[] {
  if (!steps.some((step) => typeof step === "number" && step < 0)) return steps;
  return steps.map((step, index) => {
    if (typeof step !== "number" || step >= 0) return step;
    const list = readJsonPath(content, { steps: steps.slice(0, index) });
    return list.found && isList(list.value) ? list.value.length + step : step;
  });
}
