import { formats } from "./formats.ts";
import { canonicalJson, isRecord } from "./json.ts";
import type { Keyword, Place, Schema, SchemaChecker } from "./json-schema.ts";
import { patternSize } from "./linear-pattern.ts";

/** The price of looking at one part. */
export const STEP_WORK = 10;
const ITEMS_PER_UNIT = 8;
const REGEX_WORK = 50;
/** Messages are cut at about this length. */
const ALLOWED_LIMIT = 300;

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
  if (Array.isArray(wanted)) {
    checker.spend(2 * wanted.length);
    if (wanted.some((type) => isType(type, value))) return;
  }
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
  // No more is written than is told.
  const allowed: string[] = [];
  for (let length = 0, at = 0; at < wanted.length && length < ALLOWED_LIMIT; at++) {
    const text = JSON.stringify(wanted[at]);
    checker.spend(STEP_WORK + text.length);
    length += text.length;
    allowed.push(text);
  }
  checker.report(place, `must be equal to one of the allowed values: ${allowed.join(", ")}`);
}

function isEqual(checker: SchemaChecker, one: unknown, other: unknown): boolean {
  if (typeof one !== "object" || one === null || typeof other !== "object" || other === null) {
    checker.spend(typeof one === "string" ? 1 + one.length / ITEMS_PER_UNIT : 1);
    return one === other;
  }
  checker.spend(STEP_WORK);
  if (Array.isArray(one) || Array.isArray(other)) {
    if (!Array.isArray(one) || !Array.isArray(other) || one.length !== other.length) return false;
    return one.every((item, index) => isEqual(checker, item, other[index]));
  }
  const names = checker.namesIn(one);
  if (names.length !== checker.namesIn(other).length) return false;
  return names.every(
    (name) => Object.hasOwn(other, name) && isEqual(checker, Reflect.get(one, name), Reflect.get(other, name)),
  );
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

type Measure = (value: unknown, checker: SchemaChecker) => number | undefined;

function least(what: string, measure: Measure): Keyword {
  return (checker, wanted, _schema, place) => {
    const size = measure(place.value, checker);
    if (size === undefined || typeof wanted !== "number") return;
    checker.spend(size);
    if (size < wanted) checker.report(place, `must NOT have fewer than ${wanted} ${what}`);
  };
}

function most(what: string, measure: Measure): Keyword {
  return (checker, wanted, _schema, place) => {
    const size = measure(place.value, checker);
    if (size === undefined || typeof wanted !== "number") return;
    checker.spend(size);
    if (size > wanted) checker.report(place, `must NOT have more than ${wanted} ${what}`);
  };
}

/** Code points, as JSON Schema counts. */
function countCharacters(value: unknown): number | undefined {
  if (typeof value !== "string") return undefined;
  let count = value.length;
  for (let at = 1; at < value.length; at++) {
    if ((value.charCodeAt(at) & 0xfc00) === 0xdc00 && (value.charCodeAt(at - 1) & 0xfc00) === 0xd800) count--;
  }
  return count;
}

function countItems(value: unknown): number | undefined {
  return Array.isArray(value) ? value.length : undefined;
}

function countFields(value: unknown, checker: SchemaChecker): number | undefined {
  return isRecord(value) ? checker.namesIn(value).length : undefined;
}

function checkPattern(checker: SchemaChecker, wanted: unknown, _schema: Schema, place: Place): void {
  if (typeof place.value !== "string" || typeof wanted !== "string") return;
  if (!checker.matches(wanted, place.value)) checker.report(place, `must match pattern "${wanted}"`);
}

function checkFormat(checker: SchemaChecker, wanted: unknown, _schema: Schema, place: Place): void {
  const isFormat = formats.get(String(wanted));
  if (isFormat === undefined || typeof place.value !== "string") return;
  // What a pattern comes to can be far more than its length.
  checker.spend(place.value.length + (wanted === "regex" ? REGEX_WORK * patternSize(place.value) : 0));
  if (!isFormat(place.value)) checker.report(place, `must match format "${wanted}"`);
}

/** By their text, because comparing every pair takes the square of the number. */
function checkUnique(checker: SchemaChecker, wanted: unknown, _schema: Schema, place: Place): void {
  if (wanted !== true || !Array.isArray(place.value)) return;
  const texts = new Set<string>();
  for (const item of place.value) {
    const text = canonicalJson(item);
    checker.spend(STEP_WORK + text.length * (typeof item === "object" ? 2 : 1));
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
