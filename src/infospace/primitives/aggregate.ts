import { z } from "zod";
import { QmError } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";
import { type JsonPath, parseJsonPath, readJsonPath } from "../json-path.ts";
import { formatKey } from "../json-preview.ts";
import { defineDerivation, type PrimitiveOptions, pathShape } from "./derive.ts";
import { createPathPresence, findFreeName, hashKey, type PrimitiveItems, reportMissing } from "./operation.ts";

const MAX_GROUPS = 100_000;
const MAX_PATHS = 20;
export const measureKinds = ["sum", "mean", "min", "max"] as const;
type MeasureKind = (typeof measureKinds)[number];
const paths = z.array(pathShape).optional();

export const aggregateAction = (parts: PrimitiveOptions) =>
  defineDerivation(parts, {
    entry: "aggregate",
    description:
      "Group the items by the values at paths, count them and sum fields: one record for each group, as a new collection. Without by: one for all.",
    aliases: ["infospace__group-by", "infospace__distinct", "infospace__count"],
    fields: {
      by: paths.describe("Paths such as status."),
      ...{ sum: paths, mean: paths, min: paths, max: paths },
      limit: z.int().min(1).max(MAX_GROUPS).default(10_000),
    },
    examples: [{ args: { target: "collection__7", by: ["status"], sum: ["amount"] } }],
    async derive({ target, by = [], limit, ...args }, open) {
      const measures = measureKinds.flatMap(
        (kind) => args[kind]?.map((path) => ({ kind, path: parseJsonPath(path) })) ?? [],
      );
      const grouped = by.map(parseJsonPath);
      const count = grouped.length + measures.length;
      if (count > MAX_PATHS) {
        const hint = `Give at most ${MAX_PATHS} in one call.`;
        throw new QmError("invalid_arguments", `there are ${count} paths`, { hint });
      }
      return aggregateItems(await open(target), { by: grouped, measures, limit });
    },
  });

export interface AggregateOptions {
  /** Items with equal values at all of these form a group. None: one group. */
  readonly by: readonly JsonPath[];
  readonly measures: readonly { readonly kind: MeasureKind; readonly path: JsonPath }[];
  readonly limit: number;
}

/**
 * One record per group, in the order of their first items: the values of `by` under their path's names joined by `_`, then
 * `count`, then `<kind>_<path>` for each measure, null if nothing could be measured. Min and max compare texts if a path
 * has no numbers. Throws `not_found` for a path that no item has.
 */
export function aggregateItems(inputs: PrimitiveItems, { by, measures, limit }: AggregateOptions) {
  const taken = new Set(["count"]);
  const groupedBy = by.map((path) => {
    return { path, field: claimName(formatName(path), taken), presence: createPathPresence(path), missing: 0 };
  });
  const measured = measures.map(({ kind, path }) => createMeasure(kind, path, taken));
  const groups = new Map<string, Group>();
  let [input, dropped] = [0, 0];

  function getGroup(values: readonly Json[]): Group | undefined {
    const key = hashKey(values);
    const present = groups.get(key);
    if (present !== undefined || groups.size >= limit) return present;
    const group = { values, count: 0, tallies: measured.map(() => createTally()) };
    groups.set(key, group);
    return group;
  }

  function take(content: Json): void {
    const values = groupedBy.map((each) => {
      const found = readJsonPath(content, each.path);
      each.presence.take(content, found);
      const value = found.found ? found.value : null;
      if (value === null) each.missing++;
      return value;
    });
    const group = getGroup(values);
    if (group === undefined) dropped++;
    else group.count++;
    for (const [index, measure] of measured.entries()) {
      const found = readJsonPath(content, measure.path);
      measure.presence.take(content, found);
      if (group !== undefined) addToTally(found.found ? found.value : null, measure, group.tallies[index]);
    }
  }

  async function* items() {
    if (by.length === 0) getGroup([]);
    for await (const { content } of inputs) {
      input++;
      take(content);
    }
    for (const { presence } of [...groupedBy, ...measured]) presence.require();
    for (const { values, count, tallies } of groups.values()) {
      const entries: [string, Json][] = groupedBy.map(({ field }, index) => [field, values[index] ?? null]);
      entries.push(["count", count]);
      for (const [index, each] of measured.entries()) entries.push([each.field, computeResult(each, tallies[index])]);
      yield { content: Object.fromEntries(entries) };
    }
  }

  return {
    items: items(),
    report() {
      const skipped = measured.flatMap(reportSkipped);
      const untyped = skipped.filter((each) => each.other_type > 0).map(({ field }) => formatKey(field));
      // `dropped` counts items of groups beyond the limit.
      const report = { input, dropped, limit_reached: dropped > 0, missing: reportMissing(groupedBy), skipped };
      const warning = `Values of another type are not in ${untyped.join(", ")}. Make them numbers with infospace__coerce first.`;
      return { ...report, ...(untyped.length === 0 ? {} : { warning }) };
    },
  };
}

type Group = { readonly values: readonly Json[]; count: number; readonly tallies: readonly Tally[] };

function claimName(wanted: string, taken: Set<string>): string {
  const name = findFreeName(wanted, (each) => taken.has(each));
  taken.add(name);
  return name;
}

function formatName({ steps }: JsonPath): string {
  return steps.length === 0 ? "value" : steps.join("_");
}

function createMeasure(kind: MeasureKind, path: JsonPath, taken: Set<string>) {
  const field = claimName(`${kind}_${formatName(path)}`, taken);
  const counts = { numbers: 0, texts: 0, others: 0, missing: 0, tooLarge: 0 };
  return { kind, path, field, presence: createPathPresence(path), ...counts };
}

type Measure = ReturnType<typeof createMeasure>;

/** Values that are not in a measure. `too_large` counts groups whose result is not a finite number. */
function reportSkipped(measure: Measure) {
  const { field, missing, tooLarge } = measure;
  const other_type = measure.others + (isNumeric(measure) ? measure.texts : 0);
  if (missing + other_type + tooLarge === 0) return [];
  return [{ field, missing, other_type, ...(tooLarge === 0 ? {} : { too_large: tooLarge }) }];
}

function addToTally(value: Json, measure: Measure, tally: Tally | undefined): void {
  if (value === null) measure.missing++;
  else if (typeof value === "number" && Number.isFinite(value)) {
    measure.numbers++;
    tally?.addNumber(value);
  } else if (typeof value === "string") {
    measure.texts++;
    tally?.addText(value);
  } else measure.others++;
}

/** Whether texts are left out: they have no sum, and are not compared with numbers. */
function isNumeric({ kind, numbers }: Measure): boolean {
  return kind === "sum" || kind === "mean" || numbers > 0;
}

function computeResult(measure: Measure, tally: Tally | undefined): Json {
  const result = tally?.compute(measure.kind, isNumeric(measure));
  if (typeof result !== "number" || Number.isFinite(result)) return result ?? null;
  measure.tooLarge++;
  return null;
}

type Tally = ReturnType<typeof createTally>;

function createTally() {
  let [count, sum, compensation] = [0, 0, 0];
  let least: number | undefined;
  let greatest: number | undefined;
  let first: string | undefined;
  let last: string | undefined;
  return {
    addNumber(value: number): void {
      count++;
      if (least === undefined || value < least) least = value;
      if (greatest === undefined || value > greatest) greatest = value;
      // Neumaier's sum adds up the rounding errors separately, so that ten times 0.1 is 1.
      const next = sum + value;
      compensation += Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum;
      sum = next;
    },
    addText(value: string): void {
      if (first === undefined || value < first) first = value;
      if (last === undefined || value > last) last = value;
    },
    compute(kind: MeasureKind, isNumeric: boolean): number | string | undefined {
      if (kind === "min") return isNumeric ? least : first;
      if (kind === "max") return isNumeric ? greatest : last;
      if (count === 0) return undefined;
      return kind === "sum" ? sum + compensation : (sum + compensation) / count;
    },
  };
}
