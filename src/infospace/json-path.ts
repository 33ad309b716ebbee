import { formatCount } from "../core/display-text.ts";
import { QmError } from "../core/errors.ts";
import { clip, getOwn, type Json, type JsonObject } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import { formatKey, getJsonKind, isList } from "./json-preview.ts";

/** A field name, or a position in a list, from its end if negative. */
export type PathStep = string | number;

/** A place in a JSON value: `items[0].id`, `a["b.c"][-1]`. Without steps it is the value itself. */
export type JsonPath = Readonly<{ text: string; steps: readonly PathStep[] }>;

/** `missing`: a sentence about where the path ends and what is there. */
export type PathResult = Readonly<{ found: true; value: Json } | { found: false; missing: string }>;
const PATH_LIMIT = 512;
const LISTED_FIELDS = 8;
const STEP = /\[(-?\d{1,10})\]|\[("(?:[^"\\]|\\.)*")\]|(\.?)([^.[\]"\p{Cc}]+)/uy;
const PLAIN_NAME = /^[^.[\]"\s\p{Cc}]+$/u;

/** Throws `invalid_arguments` with the position of the error. An empty text is the path of the value itself. */
export function parseJsonPath(text: string): JsonPath {
  if (text.length > PATH_LIMIT) throw invalidPathError(text, `is longer than ${PATH_LIMIT} characters`);
  const steps: PathStep[] = [];
  const step = new RegExp(STEP);
  while (step.lastIndex < text.length) {
    const at = step.lastIndex;
    const [, position, quoted, dot, name] = step.exec(text) ?? [];
    // `|| 0` turns -0 into 0.
    const next = position === undefined ? (name ?? unquote(quoted)) : Number(position) || 0;
    const isJoined = name === undefined || (dot === "") === (steps.length === 0);
    if (next === undefined || !isJoined) {
      throw invalidPathError(text, `goes wrong at character ${at + 1}, ${quoteName(clip(text.slice(at), 20))}`);
    }
    steps.push(next);
  }
  return { text, steps };
}

export function readJsonPath(value: Json, { steps }: Pick<JsonPath, "steps">): PathResult {
  let at = value;
  for (const [index, step] of steps.entries()) {
    const next = stepInto(at, step);
    if (next === undefined) return { found: false, missing: describeMissing(at, steps.slice(0, index), step) };
    at = next;
  }
  return { found: true, value: at };
}

/** A copy with another value at the path, which must exist. */
export function replaceJsonPath(value: Json, { steps }: Pick<JsonPath, "steps">, put: Json): Json {
  const [step, ...rest] = steps;
  if (step === undefined) return put;
  const inner = replaceJsonPath(stepInto(value, step) ?? null, { steps: rest }, put);
  if (isList(value)) return value.with(Number(step), inner);
  return Object.fromEntries(Object.entries(value as JsonObject).map(([key, old]) => [key, key === step ? inner : old]));
}

export function formatJsonPath(steps: readonly PathStep[]): string {
  let text = "";
  for (const step of steps) {
    if (typeof step === "number") text += `[${step}]`;
    else if (PLAIN_NAME.test(step)) text += text === "" ? step : `.${step}`;
    else text += `[${JSON.stringify(step)}]`;
  }
  return text;
}

function stepInto(value: Json, step: PathStep): Json | undefined {
  if (isList(value)) return typeof step === "number" ? value.at(step) : undefined;
  if (typeof value !== "object" || value === null || typeof step === "number") return undefined;
  return getOwn(value, step);
}

function describeMissing(value: Json, before: readonly PathStep[], step: PathStep): string {
  const where = before.length === 0 ? "the value" : formatKey(clip(formatJsonPath(before), 60));
  if (isList(value)) {
    const items = formatCount(value.length, "item");
    if (typeof step === "number") return `${where} has ${items}, so there is no [${step}]`;
    return `${where} is a list of ${items}, whose parts have positions: ${formatKey(clip(formatJsonPath([...before, 0]), 60))}`;
  }
  if (typeof value !== "object" || value === null) {
    return value === null ? `${where} is null` : `${where} is a ${getJsonKind(value)}, which has no parts`;
  }
  const asked = typeof step === "number" ? `is an object, which has no [${step}]` : `has no ${formatKey(step)}`;
  const keys = Object.keys(value);
  if (keys.length === 0) return `${where} ${asked}; it has no fields`;
  const more = keys.length > LISTED_FIELDS ? `, and ${keys.length - LISTED_FIELDS} more` : "";
  return `${where} ${asked}; it has: ${keys.slice(0, LISTED_FIELDS).map(formatKey).join(", ")}${more}`;
}

function unquote(quoted: string | undefined): string | undefined {
  try {
    return JSON.parse(quoted ?? "") as string;
  } catch {
    return undefined;
  }
}

function invalidPathError(text: string, problem: string): QmError {
  const hint = 'Write names with dots between them and positions in brackets: items[0].id, a["b.c"][-1].';
  return new QmError("invalid_arguments", `${quoteName(text)} is not a path: it ${problem}`, { hint });
}
