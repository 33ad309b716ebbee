import { QmError } from "../core/errors.ts";
import { clip, getOwn, type Json, type JsonObject } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import { formatKey, getJsonKind, isList } from "./json-preview.ts";

/** One part of a path: a field's name, or a position in a list, from its end where negative. */
export type PathStep = string | number;

/** Where in a JSON value something is: `items[0].id`, `a["b.c"][-1]`; without steps it is the value itself. */
export interface JsonPath {
  readonly text: string;
  readonly steps: readonly PathStep[];
}

export type PathResult =
  | { readonly found: true; readonly value: Json }
  /** Why not, as a sentence that says where the path stops and what there is. */
  | { readonly found: false; readonly missing: string };

const PATH_LIMIT = 512;
const NAMED_FIELDS = 8;

const STEP = /\[(-?\d{1,10})\]|\[("(?:[^"\\]|\\.)*")\]|(\.?)([^.[\]"\p{Cc}]+)/uy;
const PLAIN_NAME = /^[^.[\]"\s\p{Cc}]+$/u;

/** Throws `invalid_arguments` saying where it goes wrong. The empty text is the path of the value itself. */
export function parseJsonPath(text: string): JsonPath {
  if (text.length > PATH_LIMIT) throw invalidPathError(text, `is longer than ${PATH_LIMIT} characters`);
  const steps: PathStep[] = [];
  const step = new RegExp(STEP);
  while (step.lastIndex < text.length) {
    const at = step.lastIndex;
    const [, position, written, dot, name] = step.exec(text) ?? [];
    // Minus nothing is nothing.
    const next = position === undefined ? (name ?? unquote(written)) : Number(position) || 0;
    const isJoined = name === undefined || (dot === "") === (steps.length === 0);
    if (next === undefined || !isJoined) {
      throw invalidPathError(text, `goes wrong at character ${at + 1}, ${quoteName(clip(text.slice(at), 20))}`);
    }
    steps.push(next);
  }
  return { text, steps };
}

/** Own fields and positions only. */
export function readJsonPath(value: Json, { steps }: Pick<JsonPath, "steps">): PathResult {
  let at = value;
  for (const [index, step] of steps.entries()) {
    const next = stepInto(at, step);
    if (next === undefined) return { found: false, missing: describeMissing(at, steps.slice(0, index), step) };
    at = next;
  }
  return { found: true, value: at };
}

/** The same value with another at the path, which must lead somewhere. */
export function replaceJsonPath(value: Json, { steps }: Pick<JsonPath, "steps">, put: Json): Json {
  const [step, ...rest] = steps;
  if (step === undefined) return put;
  const inner = replaceJsonPath(stepInto(value, step) ?? null, { steps: rest }, put);
  if (isList(value)) return value.with(Number(step), inner);
  return Object.fromEntries(Object.entries(value as JsonObject).map(([key, old]) => [key, key === step ? inner : old]));
}

/** A path as it is written. */
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
    const items = value.length === 1 ? "1 item" : `${value.length} items`;
    if (typeof step === "number") return `${where} has ${items}, so there is no [${step}]`;
    return `${where} is a list of ${items}, whose parts have positions: ${formatKey(clip(formatJsonPath([...before, 0]), 60))}`;
  }
  if (typeof value !== "object" || value === null) {
    return value === null ? `${where} is null` : `${where} is a ${getJsonKind(value)}, which has no parts`;
  }
  const asked = typeof step === "number" ? `is an object, which has no [${step}]` : `has no ${formatKey(step)}`;
  const keys = Object.keys(value);
  if (keys.length === 0) return `${where} ${asked}; it has no fields`;
  const more = keys.length > NAMED_FIELDS ? `, and ${keys.length - NAMED_FIELDS} more` : "";
  return `${where} ${asked}; it has: ${keys.slice(0, NAMED_FIELDS).map(formatKey).join(", ")}${more}`;
}

function unquote(written: string | undefined): string | undefined {
  try {
    return JSON.parse(written ?? "") as string;
  } catch {
    return undefined;
  }
}

function invalidPathError(text: string, problem: string): QmError {
  return new QmError("invalid_arguments", `${quoteName(text)} is not a path: it ${problem}`, {
    hint: 'Write names with dots between them and positions in brackets: items[0].id, a["b.c"][-1].',
  });
}
