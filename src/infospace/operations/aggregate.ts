import type { Json } from "../../core/json.ts";
import { shownKey } from "../content.ts";
import { type Path, valueAt } from "../path.ts";
import { type Derived, type Inputs, keyOf } from "./derived.ts";
import { createPresence, type Presence } from "./fields.ts";
import { createTally, type MeasureKind, type Tally, type TallyKind } from "./tally.ts";

export interface Aggregating {
  /** Items with the same values at all of these are one group. None: all items are. */
  readonly by: readonly Path[];
  readonly measures: readonly { readonly kind: MeasureKind; readonly path: Path }[];
  /** How many groups are made at most. */
  readonly limit: number;
}

export type Aggregated = {
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
export function aggregate(inputs: Inputs, { by, measures, limit }: Aggregating): Derived<Aggregated> {
  const names = createNames(by, measures);
  const groupedBy = by.map((path) => ({ path, presence: createPresence(path), lacking: 0 }));
  const measured = measures.map(({ kind, path }, index): Measured => {
    return { kind, path, field: names.measures[index] ?? "", presence: createPresence(path), ...nothingYet };
  });
  const groups = new Map<string, Group>();
  let input = 0;
  let dropped = 0;

  function groupOf(values: readonly Json[]): Group | undefined {
    const key = keyOf(values);
    const present = groups.get(key);
    if (present !== undefined || groups.size >= limit) return present;
    const group = { values, count: 0, tallies: measured.map(() => createTally()) };
    groups.set(key, group);
    return group;
  }

  function take(content: Json): void {
    const values = groupedBy.map((each) => {
      const found = valueAt(content, each.path);
      each.presence.take(content, found);
      const value = found.found ? found.value : null;
      if (value === null) each.lacking++;
      return value;
    });
    const group = groupOf(values);
    if (group === undefined) dropped++;
    else group.count++;
    for (const [index, measure] of measured.entries()) {
      const found = valueAt(content, measure.path);
      measure.presence.take(content, found);
      if (group !== undefined) tallied(found.found ? found.value : null, measure, group.tallies[index]);
    }
  }

  async function* items() {
    if (by.length === 0) groupOf([]);
    for await (const { content } of inputs) {
      input++;
      take(content);
    }
    for (const { presence } of [...groupedBy, ...measured]) presence.require();
    for (const { values, count, tallies } of groups.values()) {
      const entries: [string, Json][] = names.by.map((name, index) => [name, values[index] ?? null]);
      entries.push(["count", count]);
      for (const [index, measure] of measured.entries()) {
        entries.push([measure.field, resultOf(measure, tallies[index])]);
      }
      yield { content: Object.fromEntries(entries) };
    }
  }

  return {
    items: items(),
    report() {
      const skipped = measured.flatMap(skippedBy);
      const untyped = skipped.filter((each) => each.other_type > 0).map(({ field }) => shownKey(field));
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

function skippedBy(measure: Measured): Aggregated["skipped"] {
  const { field, missing, tooLarge } = measure;
  const otherType = measure.others + (typeOf(measure) === "number" ? measure.texts : 0);
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

interface Measured {
  readonly kind: MeasureKind;
  readonly path: Path;
  readonly field: string;
  readonly presence: Presence;
  numbers: number;
  texts: number;
  others: number;
  missing: number;
  tooLarge: number;
}

const nothingYet = { numbers: 0, texts: 0, others: 0, missing: 0, tooLarge: 0 };

function tallied(value: Json, measure: Measured, tally: Tally | undefined): void {
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
function typeOf({ kind, numbers }: Measured): TallyKind {
  return kind === "sum" || kind === "mean" || numbers > 0 ? "number" : "text";
}

function resultOf(measure: Measured, tally: Tally | undefined): Json {
  const result = tally?.result(measure.kind, typeOf(measure));
  if (typeof result !== "number" || Number.isFinite(result)) return result ?? null;
  measure.tooLarge++;
  return null;
}

/** Names of a record's fields, each once. */
function createNames(by: Aggregating["by"], measures: Aggregating["measures"]) {
  const taken = new Set(["count"]);
  function free(wanted: string): string {
    let name = wanted;
    for (let number = 2; taken.has(name); number++) name = `${wanted}_${number}`;
    taken.add(name);
    return name;
  }
  const nameOf = ({ steps }: Path): string => (steps.length === 0 ? "value" : steps.join("_"));
  return {
    by: by.map((path) => free(nameOf(path))),
    measures: measures.map(({ kind, path }) => free(`${kind}_${nameOf(path)}`)),
  };
}
