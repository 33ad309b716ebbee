import { canonicalJson, isRecord } from "./json.ts";
import { measurePattern } from "./linear-pattern.ts";
import type { KeywordChecker, SchemaChecker, SchemaLocation, SchemaObject } from "./schema-validator.ts";

/**
 * The formats of JSON Schema that are checked; others say nothing. Each takes time in proportion to the text: no pattern
 * has two repetitions that can match the same characters.
 */
const formats: ReadonlyMap<string, (text: string) => boolean> = new Map<string, (text: string) => boolean>([
  ["date", isDate],
  ["time", (text) => isTime(text, true)],
  ["iso-time", (text) => isTime(text, false)],
  ["date-time", (text) => isDate(text.slice(0, 10)) && DATED.test(text) && isTime(text.slice(11), true)],
  ["iso-date-time", (text) => isDate(text.slice(0, 10)) && DATED.test(text) && isTime(text.slice(11), false)],
  ["duration", matches(/^P(?!$)(?:\d+Y)?(?:\d+M)?(?:\d+W)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?$/)],
  ["uri", matches(/^[a-z][a-z0-9+\-.]*:[^\s"<>\\^`{|}]*$/i)],
  ["uri-reference", matches(/^[^\s"<>\\^`{|}]*$/)],
  ["uri-template", matches(/^(?:[^\s"'<>\\^`{|}]|\{[^\s"'<>\\^`{|}]+\})*$/)],
  ["url", (text) => URL.canParse(text)],
  ["email", isEmail],
  ["hostname", isHostname],
  ["ipv4", matches(/^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/)],
  ["ipv6", isIpv6],
  ["regex", isRegex],
  ["uuid", matches(/^(?:urn:uuid:)?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i)],
  ["json-pointer", matches(/^(?:\/(?:[^~/]|~[01])*)*$/)],
  ["json-pointer-uri-fragment", matches(/^#(?:\/(?:[a-z0-9_\-.!$&'()*+,;:=@]|%[0-9a-f]{2}|~[01])*)*$/i)],
  ["relative-json-pointer", matches(/^(?:0|[1-9]\d*)(?:#|(?:\/(?:[^~/]|~[01])*)*)$/)],
  ["byte", matches(/^(?:[a-z0-9+/]{4})*(?:[a-z0-9+/]{2}==|[a-z0-9+/]{3}=)?$/i)],
]);

/** A longer pattern is not compiled to find out whether it is one. */
const REGEX_LIMIT = 10_000;

function matches(pattern: RegExp): (text: string) => boolean {
  return (text) => pattern.test(text);
}

const DATED = /^.{10}[Tt ]/;
const TIME = /^([01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)?$/i;

function isDate(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return false;
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

function isTime(text: string, needsZone: boolean): boolean {
  const match = TIME.exec(text);
  return match !== null && (!needsZone || match[2] !== undefined);
}

function isEmail(text: string): boolean {
  const at = text.lastIndexOf("@");
  return at > 0 && /^[\w.!#$%&'*+/=?^`{|}~-]+$/.test(text.slice(0, at)) && isHostname(text.slice(at + 1));
}

function isHostname(text: string): boolean {
  const labels = text.length > 253 ? [] : text.replace(/\.$/, "").split(".");
  return labels.length > 0 && labels.every((label) => /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i.test(label));
}

function isIpv6(text: string): boolean {
  return text.length <= 45 && /^[0-9a-f:.]+$/i.test(text) && URL.canParse(`http://[${text}]`);
}

function isRegex(text: string): boolean {
  if (text.length > REGEX_LIMIT) return false;
  try {
    new RegExp(text, "u");
    return true;
  } catch {
    return false;
  }
}

/** The price of looking at one part. */
export const STEP_WORK = 10;
const ITEMS_PER_UNIT = 8;
const REGEX_WORK = 50;
/** Messages are cut at about this length. */
const ALLOWED_LIMIT = 300;

/** The keywords that say something of a value itself. */
export const assertionKeywords: readonly (readonly [string, KeywordChecker])[] = [
  ["type", checkType],
  ["const", checkConst],
  ["enum", checkEnum],
  ["minimum", createBoundKeyword(">=", (value, wanted) => value >= wanted)],
  ["maximum", createBoundKeyword("<=", (value, wanted) => value <= wanted)],
  ["exclusiveMinimum", createBoundKeyword(">", (value, wanted) => value > wanted)],
  ["exclusiveMaximum", createBoundKeyword("<", (value, wanted) => value < wanted)],
  ["multipleOf", createBoundKeyword("multiple of", isMultiple)],
  ["minLength", createMinimumKeyword("characters", countCharacters)],
  ["maxLength", createMaximumKeyword("characters", countCharacters)],
  ["pattern", checkPattern],
  ["format", checkFormat],
  ["minItems", createMinimumKeyword("items", countItems)],
  ["maxItems", createMaximumKeyword("items", countItems)],
  ["uniqueItems", checkUnique],
  ["minProperties", createMinimumKeyword("properties", countFields)],
  ["maxProperties", createMaximumKeyword("properties", countFields)],
  ["required", checkRequired],
];

function checkType(checker: SchemaChecker, wanted: unknown, { nullable }: SchemaObject, place: SchemaLocation): void {
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

function checkConst(checker: SchemaChecker, wanted: unknown, _schema: SchemaObject, place: SchemaLocation): void {
  if (!isEqual(checker, wanted, place.value)) checker.report(place, "must be equal to constant");
}

function checkEnum(checker: SchemaChecker, wanted: unknown, _schema: SchemaObject, place: SchemaLocation): void {
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
  const names = checker.listNames(one);
  if (names.length !== checker.listNames(other).length) return false;
  return names.every(
    (name) => Object.hasOwn(other, name) && isEqual(checker, Reflect.get(one, name), Reflect.get(other, name)),
  );
}

function createBoundKeyword(sign: string, holds: (value: number, wanted: number) => boolean): KeywordChecker {
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

function createMinimumKeyword(what: string, measure: Measure): KeywordChecker {
  return (checker, wanted, _schema, place) => {
    const size = measure(place.value, checker);
    if (size === undefined || typeof wanted !== "number") return;
    checker.spend(size);
    if (size < wanted) checker.report(place, `must NOT have fewer than ${wanted} ${what}`);
  };
}

function createMaximumKeyword(what: string, measure: Measure): KeywordChecker {
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
  return isRecord(value) ? checker.listNames(value).length : undefined;
}

function checkPattern(checker: SchemaChecker, wanted: unknown, _schema: SchemaObject, place: SchemaLocation): void {
  if (typeof place.value !== "string" || typeof wanted !== "string") return;
  if (!checker.matches(wanted, place.value)) checker.report(place, `must match pattern "${wanted}"`);
}

function checkFormat(checker: SchemaChecker, wanted: unknown, _schema: SchemaObject, place: SchemaLocation): void {
  const isFormat = formats.get(String(wanted));
  if (isFormat === undefined || typeof place.value !== "string") return;
  // What a pattern comes to can be far more than its length.
  checker.spend(place.value.length + (wanted === "regex" ? REGEX_WORK * measurePattern(place.value) : 0));
  if (!isFormat(place.value)) checker.report(place, `must match format "${wanted}"`);
}

/** By their text, because comparing every pair takes the square of the number. */
function checkUnique(checker: SchemaChecker, wanted: unknown, _schema: SchemaObject, place: SchemaLocation): void {
  if (wanted !== true || !Array.isArray(place.value)) return;
  const texts = new Set<string>();
  for (const item of place.value) {
    const text = canonicalJson(item);
    checker.spend(STEP_WORK + text.length * (typeof item === "object" ? 2 : 1));
    texts.add(text);
  }
  if (texts.size < place.value.length) checker.report(place, "must NOT have duplicate items");
}

function checkRequired(
  checker: SchemaChecker,
  wanted: unknown,
  { properties }: SchemaObject,
  place: SchemaLocation,
): void {
  if (!isRecord(place.value) || !Array.isArray(wanted)) return;
  checker.spend(wanted.length);
  for (const name of wanted) {
    if (Object.hasOwn(place.value, String(name))) continue;
    if (place.fills && getDefault(properties, String(name)) !== undefined) continue;
    checker.report(place, `must have required property '${name}'`);
  }
}

export function getDefault(properties: unknown, name: string): unknown {
  const schema = isRecord(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
  return isRecord(schema) && schema.default !== undefined ? structuredClone(schema.default) : undefined;
}
