import fc from "fast-check";
import type { Json } from "../core/json.ts";
import { ITEMS, type Step } from "./field-path.ts";

/** The same question as the tree of rules answers, asked of one path and one place. */
export function leadsTo(path: readonly Step[], place: readonly (string | number)[], isList: boolean): boolean {
  const [step, ...steps] = path;
  const [name, ...names] = place;
  if (step === undefined) return name === undefined;
  if (typeof name === "number") {
    return (step === ITEMS && leadsTo(steps, names, isList)) || leadsTo(path, names, isList);
  }
  if (step === ITEMS && (name !== undefined || !isList)) return leadsTo(steps, place, isList);
  return name !== undefined && step === name && leadsTo(steps, names, isList);
}

/** Every place in a value, from the outside in. */
export function* placesOf(
  value: Json,
  place: readonly (string | number)[] = [],
): Generator<{ readonly place: readonly (string | number)[]; readonly value: Json }> {
  yield { place, value };
  if (typeof value !== "object" || value === null) return;
  const isList = Array.isArray(value);
  for (const [name, part] of Object.entries(value))
    yield* placesOf(part as Json, [...place, isList ? Number(name) : name]);
}

const NAMES = ["a", "b", "items", "__proto__", "constructor", "toString", "x.y", "0"];

const nameStep = fc.constantFrom(...NAMES);

/** Records in which every text and every number is there once and can be found again. */
export const records: fc.Arbitrary<Json> = fc
  .letrec<{ value: unknown; list: unknown; record: unknown }>((tie) => ({
    value: fc.oneof({ maxDepth: 5 }, fc.constantFrom("text", "number", true, null), tie("record"), tie("list")),
    list: fc.array(tie("value"), { maxLength: 3 }),
    record: fc.array(fc.tuple(nameStep, tie("value")), { maxLength: 4 }).map((entries) => Object.fromEntries(entries)),
  }))
  .record.map((value) => {
    let counter = 0;
    return marked(value);

    function marked(part: unknown): Json {
      if (part === "text") return `<mark ${++counter} "ü">`;
      if (part === "number") return 7_000_000 + ++counter;
      if (Array.isArray(part)) return part.map(marked);
      if (typeof part !== "object" || part === null) return part as Json;
      return Object.fromEntries(Object.entries(part).map(([name, inner]) => [name, marked(inner)]));
    }
  });

/** Paths that lead somewhere in such records, often enough. */
export const paths: fc.Arbitrary<string> = fc
  .array(fc.oneof({ weight: 3, arbitrary: nameStep }, { weight: 1, arbitrary: fc.constant("[]") }), {
    minLength: 1,
    maxLength: 4,
  })
  .map((steps) => steps.map((step, at) => (step === "[]" ? step : written(step, at))).join(""));

function written(name: string, at: number): string {
  if (name.includes(".")) return `[${JSON.stringify(name)}]`;
  return at === 0 ? name : `.${name}`;
}
