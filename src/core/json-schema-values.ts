import { formats } from "./formats.ts";
import { canonicalJson, isRecord } from "./json.ts";
import type { Keyword, Place, Schema, SchemaChecker } from "./json-schema.ts";

/** The price of looking at one part. */
export const STEP_WORK = 10;
const ITEMS_PER_UNIT = 8;

/** The keywords that say something of a value itself. */
export const valueKeywords: readonly (readonly [string, Keyword])[] = [
  ["type", checkType],
  ["const", checkConst],
  ["enum", checkEnum],
  ["minimum", bound(">=", (value, wanted) => value >= wanted)],
  ["maximum", bound("<=", (value, wanted) => value <= wanted)],
  ["exclusiveMinimum", bound(">", (value, wanted) => value > wanted)],
  ["exclusiveMaximum", bound("<", (value, wanted) => value < wanted)],
  ["multipleOf", bound("multiple of", isMultiple)],
  ["minLength", least("characters", countCharacters)],
  ["maxLength", most("characters", countCharacters)],
  ["pattern", checkPattern],
  ["format", checkFormat],
  ["minItems", least("items", countItems)],
  ["maxItems", most("items", countItems)],
  ["uniqueItems", checkUnique],
  ["minProperties", least("properties", countFields)],
  ["maxProperties", most("properties", countFields)],
  ["required", checkRequired],
];

function checkType(checker: SchemaChecker, wanted: unknown, { nullable }: Schema, place: Place): void {
  const { value } = place;
  if (isType(wanted, value) || (nullable === true && value === null)) return;
  if (Array.isArray(wanted) && wanted.some((type) => isType(type, value))) return;
  checker.report(place, `must be ${Array.isArray(wanted) ? wanted.join(",") : wanted}`);
}

function isType(type: unknown, value: unknown): boolean {
  switch (type) {
    case "object":
      return isRecord(value);
    case "array":
      return Array.isArray(value);
    case "null":
      return value === null;
    case "integer":
      return Number.isInteger(value);
    case "number":
      return Number.isFinite(value);
    default:
      return typeof value === type;
  }
}

function checkConst(checker: SchemaChecker, wanted: unknown, _schema: Schema, place: Place): void {
  if (!isEqual(checker, wanted, place.value)) checker.report(place, "must be equal to constant");
}

function checkEnum(checker: SchemaChecker, wanted: unknown, _schema: Schema, place: Place): void {
  if (!Array.isArray(wanted) || wanted.some((one) => isEqual(checker, one, place.value))) return;
  const allowed = wanted.map((one) => JSON.stringify(one)).join(", ");
  checker.report(place, `must be equal to one of the allowed values: ${allowed}`);
}

function isEqual(checker: SchemaChecker, one: unknown, other: unknown): boolean {
  if (typeof one !== "object" || one === null || typeof other !== "object" || other === null) {
    checker.spend(typeof one === "string" ? 1 + one.length / ITEMS_PER_UNIT : 1);
    return one === other;
  }
  const text = canonicalJson(one);
  checker.spend(text.length);
  // A value that is far longer is another one: it need not be put in order.
  return JSON.stringify(other).length <= 2 * text.length + 16 && canonicalJson(other) === text;
}

function bound(sign: string, holds: (value: number, wanted: number) => boolean): Keyword {
  return (checker, wanted, _schema, place) => {
    if (typeof place.value !== "number" || typeof wanted !== "number" || holds(place.value, wanted)) return;
    checker.report(place, `must be ${sign} ${wanted}`);
  };
}

function isMultiple(value: number, wanted: number): boolean {
  const times = value / wanted;
  return Number.isFinite(times) && Math.abs(times - Math.round(times)) < 1e-9;
}

type Measure = (value: unknown) => number | undefined;

function least(what: string, measure: Measure): Keyword {
  return (checker, wanted, _schema, place) => {
    const size = measure(place.value);
    if (size === undefined || typeof wanted !== "number") return;
    checker.spend(size);
    if (size < wanted) checker.report(place, `must NOT have fewer than ${wanted} ${what}`);
  };
}

function most(what: string, measure: Measure): Keyword {
  return (checker, wanted, _schema, place) => {
    const size = measure(place.value);
    if (size === undefined || typeof wanted !== "number") return;
    checker.spend(size);
    if (size > wanted) checker.report(place, `must NOT have more than ${wanted} ${what}`);
  };
}

/** Code points, as JSON Schema counts. */
function countCharacters(value: unknown): number | undefined {
  if (typeof value !== "string") return undefined;
  let count = 0;
  for (const _ of value) count++;
  return count;
}

function countItems(value: unknown): number | undefined {
  return Array.isArray(value) ? value.length : undefined;
}

function countFields(value: unknown): number | undefined {
  return isRecord(value) ? Object.keys(value).length : undefined;
}

function checkPattern(checker: SchemaChecker, wanted: unknown, _schema: Schema, place: Place): void {
  if (typeof place.value !== "string" || typeof wanted !== "string") return;
  if (!checker.matches(wanted, place.value)) checker.report(place, `must match pattern "${wanted}"`);
}

function checkFormat(checker: SchemaChecker, wanted: unknown, _schema: Schema, place: Place): void {
  const isFormat = formats.get(String(wanted));
  if (isFormat === undefined || typeof place.value !== "string") return;
  checker.spend(place.value.length);
  if (!isFormat(place.value)) checker.report(place, `must match format "${wanted}"`);
}

/** By their text, because comparing every pair takes the square of the number. */
function checkUnique(checker: SchemaChecker, wanted: unknown, _schema: Schema, place: Place): void {
  if (wanted !== true || !Array.isArray(place.value)) return;
  const texts = new Set<string>();
  for (const item of place.value) {
    const text = canonicalJson(item);
    checker.spend(STEP_WORK + text.length);
    texts.add(text);
  }
  if (texts.size < place.value.length) checker.report(place, "must NOT have duplicate items");
}

function checkRequired(checker: SchemaChecker, wanted: unknown, { properties }: Schema, place: Place): void {
  if (!isRecord(place.value) || !Array.isArray(wanted)) return;
  checker.spend(wanted.length);
  for (const name of wanted) {
    if (Object.hasOwn(place.value, String(name))) continue;
    if (place.fills && defaultOf(properties, String(name)) !== undefined) continue;
    checker.report(place, `must have required property '${name}'`);
  }
}

export function defaultOf(properties: unknown, name: string): unknown {
  const schema = isRecord(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
  return isRecord(schema) && schema.default !== undefined ? structuredClone(schema.default) : undefined;
}
