import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";
import { type JsonPath, parseJsonPath, readJsonPath } from "../json-path.ts";
import { formatKey } from "../json-preview.ts";
import { INFOSPACE } from "../resource-access.ts";
import type { PrimitiveFactory, PrimitiveOptions } from "./derive.ts";
import {
  collectDerived,
  DERIVE_EFFECT,
  DERIVE_TIMEOUT_MS,
  openSource,
  pathShape,
  resultNameShape,
  targetShape,
} from "./derive.ts";
import { createPathPresence, type DerivedItems, hashKey, type PathPresence, type PrimitiveItems } from "./operation.ts";

export const measureKinds = ["sum", "mean", "min", "max"] as const;

type MeasureKind = (typeof measureKinds)[number];

type TallyKind = "number" | "text";

/** What is known of many values without keeping them. */
interface Tally {
  addNumber(value: number): void;
  addText(value: string): void;
  /** Undefined: nothing of that kind came. Not finite where the result is too large. */
  result(kind: MeasureKind, of: TallyKind): number | string | undefined;
}

function createTally(): Tally {
  let count = 0;
  let sum = 0;
  let lost = 0;
  let least: number | undefined;
  let greatest: number | undefined;
  let first: string | undefined;
  let last: string | undefined;
  return {
    addNumber(value) {
      count++;
      if (least === undefined || value < least) least = value;
      if (greatest === undefined || value > greatest) greatest = value;
      // What is rounded off is added up by itself (Neumaier), so that ten times 0.1 is 1.
      const next = sum + value;
      lost += Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum;
      sum = next;
    },
    addText(value) {
      if (first === undefined || value < first) first = value;
      if (last === undefined || value > last) last = value;
    },
    result(kind, of) {
      if (kind === "min") return of === "number" ? least : first;
      if (kind === "max") return of === "number" ? greatest : last;
      if (count === 0) return undefined;
      return kind === "sum" ? sum + lost : (sum + lost) / count;
    },
  };
}

export interface AggregateOptions {
  /** Items with the same values at all of these are one group. None: all items are. */
  readonly by: readonly JsonPath[];
  readonly measures: readonly { readonly kind: MeasureKind; readonly path: JsonPath }[];
  /** How many groups are made at most. */
  readonly limit: number;
}

type AggregateReport = {
  readonly input: number;
  /** Items of groups that there was no room for. */
  readonly dropped: number;
  readonly limit_reached: boolean;
  /** For each path of `by`, how many items have nothing or null there: they are a group of their own, with null. */
  readonly missing: readonly { readonly path: string; readonly count: number }[];
  /** For each measure, what went into none: `missing` has nothing or null there, `other_type` what cannot be measured so. */
  readonly skipped: readonly {
    readonly field: string;
    readonly missing: number;
    readonly other_type: number;
    /** Groups whose result is no number that JSON has. It is null there. */
    readonly too_large?: number;
  }[];
  readonly warning?: string;
};

/**
 * One record for each group, in the order of their first items: the values it is by, under the path's names joined by `_`;
 * `count`; and `<kind>_<path>` for each measure, null where nothing could be measured. Sums and means are of numbers; the
 * least and the greatest are of numbers, and of texts where the path has no numbers at all. Holds one record for each
 * group. Throws `not_found` for a path that no item has.
 */
export function aggregateItems(
  inputs: PrimitiveItems,
  { by, measures, limit }: AggregateOptions,
): DerivedItems<AggregateReport> {
  const names = createNames(by, measures);
  const groupedBy = by.map((path) => ({ path, presence: createPathPresence(path), lacking: 0 }));
  const measured = measures.map(({ kind, path }, index): MeasureState => {
    return { kind, path, field: names.measures[index] ?? "", presence: createPathPresence(path), ...emptyCounts };
  });
  const groups = new Map<string, Group>();
  let input = 0;
  let dropped = 0;

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
      if (value === null) each.lacking++;
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
      const entries: [string, Json][] = names.by.map((name, index) => [name, values[index] ?? null]);
      entries.push(["count", count]);
      for (const [index, measure] of measured.entries()) {
        entries.push([measure.field, computeResult(measure, tallies[index])]);
      }
      yield { content: Object.fromEntries(entries) };
    }
  }

  return {
    items: items(),
    report() {
      const skipped = measured.flatMap(reportSkipped);
      const untyped = skipped.filter((each) => each.other_type > 0).map(({ field }) => formatKey(field));
      return {
        input,
        dropped,
        limit_reached: dropped > 0,
        missing: groupedBy.flatMap(({ path, lacking }) => (lacking === 0 ? [] : [{ path: path.text, count: lacking }])),
        skipped,
        ...(untyped.length === 0 ? {} : { warning: untypedWarning(untyped) }),
      };
    },
  };
}

function reportSkipped(measure: MeasureState): AggregateReport["skipped"] {
  const { field, missing, tooLarge } = measure;
  const otherType = measure.others + (getTallyKind(measure) === "number" ? measure.texts : 0);
  if (missing + otherType + tooLarge === 0) return [];
  return [{ field, missing, other_type: otherType, ...(tooLarge === 0 ? {} : { too_large: tooLarge }) }];
}

function untypedWarning(fields: readonly string[]): string {
  return `Values of another type are not in ${fields.join(", ")}. Make them numbers with infospace__coerce first.`;
}

interface Group {
  readonly values: readonly Json[];
  count: number;
  readonly tallies: readonly Tally[];
}

interface MeasureState {
  readonly kind: MeasureKind;
  readonly path: JsonPath;
  readonly field: string;
  readonly presence: PathPresence;
  numbers: number;
  texts: number;
  others: number;
  missing: number;
  tooLarge: number;
}

const emptyCounts = { numbers: 0, texts: 0, others: 0, missing: 0, tooLarge: 0 };

function addToTally(value: Json, measure: MeasureState, tally: Tally | undefined): void {
  if (value === null) measure.missing++;
  else if (typeof value === "number" && Number.isFinite(value)) {
    measure.numbers++;
    tally?.addNumber(value);
  } else if (typeof value === "string") {
    measure.texts++;
    tally?.addText(value);
  } else measure.others++;
}

/** Texts have an order and no sum. Where there are numbers, texts beside them are of another type. */
function getTallyKind({ kind, numbers }: MeasureState): TallyKind {
  return kind === "sum" || kind === "mean" || numbers > 0 ? "number" : "text";
}

function computeResult(measure: MeasureState, tally: Tally | undefined): Json {
  const result = tally?.result(measure.kind, getTallyKind(measure));
  if (typeof result !== "number" || Number.isFinite(result)) return result ?? null;
  measure.tooLarge++;
  return null;
}

/** Names of a record's fields, each once. */
function createNames(by: AggregateOptions["by"], measures: AggregateOptions["measures"]) {
  const taken = new Set(["count"]);
  function free(wanted: string): string {
    let name = wanted;
    for (let number = 2; taken.has(name); number++) name = `${wanted}_${number}`;
    taken.add(name);
    return name;
  }
  const formatName = ({ steps }: JsonPath): string => (steps.length === 0 ? "value" : steps.join("_"));
  return {
    by: by.map((path) => free(formatName(path))),
    measures: measures.map(({ kind, path }) => free(`${kind}_${formatName(path)}`)),
  };
}

/** Figures about items. */
export const aggregateActions: PrimitiveFactory = (parts) => [aggregateAction(parts)];

const MOST_GROUPS = 100_000;
const MOST_PATHS = 20;

/** A single one may be given as it is. */
const paths = z.array(pathShape).optional();

function aggregateAction(parts: PrimitiveOptions): Action {
  return defineAction(INFOSPACE, {
    entry: "aggregate",
    description:
      "Group the items by the values at paths, count them and sum fields: one record for each group, as a new collection. Without by: one for all.",
    aliases: ["infospace__group-by", "infospace__distinct", "infospace__count"],
    effect: DERIVE_EFFECT,
    timeoutMs: DERIVE_TIMEOUT_MS,
    handleArguments: ["target"],
    input: z.strictObject({
      target: targetShape,
      by: paths.describe("Paths such as status."),
      sum: paths,
      mean: paths,
      min: paths,
      max: paths,
      limit: z.int().min(1).max(MOST_GROUPS).default(10_000),
      name: resultNameShape,
    }),
    examples: [{ args: { target: "collection__7", by: ["status"], sum: ["amount"] } }],
    async run({ target, by = [], limit, name, ...asked }, context) {
      const measures = measureKinds.flatMap((kind) =>
        (asked[kind] ?? []).map((path) => ({ kind, path: parseJsonPath(path) })),
      );
      const grouped = by.map(parseJsonPath);
      if (grouped.length + measures.length > MOST_PATHS) {
        throw new QmError("invalid_arguments", `there are ${grouped.length + measures.length} paths`, {
          hint: `Give ${MOST_PATHS} at most, in several calls.`,
        });
      }
      const source = await openSource(parts, target, context);
      const made = aggregateItems(source.inputs, { by: grouped, measures, limit });
      return collectDerived(parts, context, { entry: "aggregate", name, from: [source] }, made);
    },
  });
}
