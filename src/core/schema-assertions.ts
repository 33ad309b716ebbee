import { canonicalJson, getOwn, isRecord } from "./json.ts";
import { isUnicodePattern, measurePattern } from "./linear-pattern.ts";
import type { KeywordChecker, KeywordCheckers, SchemaChecker } from "./schema-validator.ts";

/** The formats that are checked, in linear time: no pattern has two repetitions that match the same characters. */
const formats: Readonly<Record<string, RegExp | ((text: string) => boolean)>> = {
  date: isDate,
  time: (text) => isTime(text, true),
  "iso-time": (text) => isTime(text, false),
  "date-time": (text) => isDate(text.slice(0, 10)) && DATED.test(text) && isTime(text.slice(11), true),
  "iso-date-time": (text) => isDate(text.slice(0, 10)) && DATED.test(text) && isTime(text.slice(11), false),
  duration: /^P(?!$)(?:\d+Y)?(?:\d+M)?(?:\d+W)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?$/,
  uri: /^[a-z][a-z0-9+\-.]*:[^\s"<>\\^`{|}]*$/i,
  "uri-reference": /^[^\s"<>\\^`{|}]*$/,
  "uri-template": /^(?:[^\s"'<>\\^`{|}]|\{[^\s"'<>\\^`{|}]+\})*$/,
  url: (text) => URL.canParse(text),
  email: isEmail,
  hostname: isHostname,
  ipv4: /^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/,
  ipv6: (text) => text.length <= 45 && /^[0-9a-f:.]+$/i.test(text) && URL.canParse(`http://[${text}]`),
  regex: (text) => text.length <= REGEX_LIMIT && isUnicodePattern(text),
  uuid: /^(?:urn:uuid:)?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i,
  "json-pointer": /^(?:\/(?:[^~/]|~[01])*)*$/,
  "json-pointer-uri-fragment": /^#(?:\/(?:[a-z0-9_\-.!$&'()*+,;:=@]|%[0-9a-f]{2}|~[01])*)*$/i,
  "relative-json-pointer": /^(?:0|[1-9]\d*)(?:#|(?:\/(?:[^~/]|~[01])*)*)$/,
  byte: /^(?:[a-z0-9+/]{4})*(?:[a-z0-9+/]{2}==|[a-z0-9+/]{3}=)?$/i,
};

const REGEX_LIMIT = 10_000;
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

export const STEP_WORK = 10;
const ITEMS_PER_UNIT = 8;
const REGEX_WORK = 50;
const ALLOWED_LIMIT = 300;

/** The keywords that check a value itself, in the order in which they are checked. */
export const assertionKeywords: KeywordCheckers = {
  type(checker, wanted, place, { nullable }) {
    const { value } = place;
    if (isType(wanted, value) || (nullable === true && value === null)) return;
    if (Array.isArray(wanted)) {
      checker.spend(2 * wanted.length);
      if (wanted.some((type) => isType(type, value))) return;
    }
    checker.report(place, `must be ${Array.isArray(wanted) ? wanted.join(",") : wanted}`);
  },
  const(checker, wanted, place) {
    if (!isEqual(checker, wanted, place.value)) checker.report(place, "must be equal to constant");
  },
  enum(checker, wanted, place) {
    if (!Array.isArray(wanted) || wanted.some((one) => isEqual(checker, one, place.value))) return;
    const allowed: string[] = [];
    for (let length = 0, at = 0; at < wanted.length && length < ALLOWED_LIMIT; at++) {
      const text = JSON.stringify(wanted[at]);
      checker.spend(STEP_WORK + text.length);
      length += text.length;
      allowed.push(text);
    }
    checker.report(place, `must be equal to one of the allowed values: ${allowed.join(", ")}`);
  },
  minimum: createBoundKeyword(">=", (value, wanted) => value >= wanted),
  maximum: createBoundKeyword("<=", (value, wanted) => value <= wanted),
  exclusiveMinimum: createBoundKeyword(">", (value, wanted) => value > wanted),
  exclusiveMaximum: createBoundKeyword("<", (value, wanted) => value < wanted),
  multipleOf: createBoundKeyword("multiple of", isMultiple),
  minLength: createSizeKeyword("fewer", "characters", countCharacters),
  maxLength: createSizeKeyword("more", "characters", countCharacters),
  pattern(checker, wanted, place) {
    if (typeof place.value !== "string" || typeof wanted !== "string") return;
    if (!checker.matches(wanted, place.value)) checker.report(place, `must match pattern "${wanted}"`);
  },
  format(checker, wanted, place) {
    const format = getOwn(formats, String(wanted));
    if (format === undefined || typeof place.value !== "string") return;
    // Compiling a pattern can take far more work than its length.
    checker.spend(place.value.length + (wanted === "regex" ? REGEX_WORK * measurePattern(place.value) : 0));
    const fits = typeof format === "function" ? format(place.value) : format.test(place.value);
    if (!fits) checker.report(place, `must match format "${wanted}"`);
  },
  minItems: createSizeKeyword("fewer", "items", (value) => (Array.isArray(value) ? value.length : undefined)),
  maxItems: createSizeKeyword("more", "items", (value) => (Array.isArray(value) ? value.length : undefined)),
  uniqueItems(checker, wanted, place) {
    if (wanted !== true || !Array.isArray(place.value)) return;
    // Compares texts, because comparing every pair takes quadratic time.
    const texts = new Set<string>();
    for (const item of place.value) {
      const text = canonicalJson(item);
      checker.spend(STEP_WORK + text.length * (typeof item === "object" ? 2 : 1));
      texts.add(text);
    }
    if (texts.size < place.value.length) checker.report(place, "must NOT have duplicate items");
  },
  minProperties: createSizeKeyword("fewer", "properties", countFields),
  maxProperties: createSizeKeyword("more", "properties", countFields),
  required(checker, wanted, place, { properties }) {
    if (!isRecord(place.value) || !Array.isArray(wanted)) return;
    checker.spend(wanted.length);
    for (const name of wanted) {
      if (Object.hasOwn(place.value, String(name))) continue;
      if (place.fills && getDefault(properties, String(name)) !== undefined) continue;
      checker.report(place, `must have required property '${name}'`);
    }
  },
};

function isType(type: unknown, value: unknown): boolean {
  if (type === "object") return isRecord(value);
  if (type === "array") return Array.isArray(value);
  if (type === "null") return value === null;
  if (type === "integer") return Number.isInteger(value);
  return type === "number" ? Number.isFinite(value) : typeof value === type;
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
  return (checker, wanted, place) => {
    if (typeof place.value !== "number" || typeof wanted !== "number" || holds(place.value, wanted)) return;
    checker.report(place, `must be ${sign} ${wanted}`);
  };
}

function isMultiple(value: number, wanted: number): boolean {
  const times = value / wanted;
  return Number.isFinite(times) && Math.abs(times - Math.round(times)) < 1e-9;
}

function createSizeKeyword(
  than: "fewer" | "more",
  what: string,
  measure: (value: unknown, checker: SchemaChecker) => number | undefined,
): KeywordChecker {
  return (checker, wanted, place) => {
    const size = measure(place.value, checker);
    if (size === undefined || typeof wanted !== "number") return;
    checker.spend(size);
    if (than === "fewer" ? size < wanted : size > wanted)
      checker.report(place, `must NOT have ${than} than ${wanted} ${what}`);
  };
}

function countCharacters(value: unknown): number | undefined {
  if (typeof value !== "string") return undefined;
  let count = value.length;
  for (let at = 1; at < value.length; at++) {
    if ((value.charCodeAt(at) & 0xfc00) === 0xdc00 && (value.charCodeAt(at - 1) & 0xfc00) === 0xd800) count--;
  }
  return count;
}

function countFields(value: unknown, checker: SchemaChecker): number | undefined {
  return isRecord(value) ? checker.listNames(value).length : undefined;
}

export function getDefault(properties: unknown, name: string): unknown {
  const schema = isRecord(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
  return isRecord(schema) && schema.default !== undefined ? structuredClone(schema.default) : undefined;
}
