import { QmError } from "../core/errors.ts";
import { getOwn, isRecord, type Json } from "../core/json.ts";
import { quoted } from "../core/names.ts";
import { isList } from "./content.ts";
import { parseHandle } from "./handle.ts";

const textForms = ["json", "jsonl", "text"] as const;

/** `json`: JSON; `jsonl`: of a list one JSON line each; `text`: texts as they are, several as lines, all else JSON. */
export type AsText = (typeof textForms)[number];

/** What is written in the place of something kept: `{"$from": "note__12", "path": "items[0].id"}`. */
export interface Written {
  readonly handle: string;
  readonly path?: string;
  /** Absent: as it is. */
  readonly version?: number;
  /** Absent: the value itself. */
  readonly as?: AsText;
}

const FROM = "$from";
const beside: ReadonlySet<string> = new Set(["path", "version", "as"]);
/** A text that is longer is not read: it is none. */
const TEXT_LIMIT = 1_000;

/** Whether something in it is, or is meant to be, what `writtenHandle` reads. */
export function holdsWritten(value: unknown): boolean {
  if (typeof value === "string") return writtenInText(value) !== undefined;
  if (typeof value !== "object" || value === null) return false;
  if (isRecord(value) && (typeof getOwn(value, FROM) === "string" || misspeltIn(value) !== undefined)) return true;
  return Object.values(value).some(holdsWritten);
}

/**
 * What is written here. Undefined: nothing, it is data, as everything is that has no text under that name. A text that is the
 * JSON of one is taken as one: models write arguments in texts now and then. Throws `invalid_arguments` where it is meant to
 * be one and is not.
 */
export function writtenHandle(value: unknown, at: string): Written | undefined {
  if (typeof value === "string") return writtenInText(value);
  if (!isRecord(value)) return undefined;
  if (typeof getOwn(value, FROM) !== "string") {
    const misspelt = misspeltIn(value);
    if (misspelt === undefined) return undefined;
    throw notUnderstood(at, `there is no ${quoted(misspelt)}: did you mean ${quoted(FROM)}`);
  }
  const problem = problemOf(value);
  if (problem !== undefined) throw notUnderstood(at, problem);
  return readFrom(value);
}

/** The value as the text that was asked for. */
export function textOf(value: Json, as: AsText): string {
  switch (as) {
    case "json":
      return JSON.stringify(value);
    case "jsonl":
      return (isList(value) ? value : [value]).map((each) => `${JSON.stringify(each)}\n`).join("");
    case "text":
      if (typeof value === "string") return value;
      return isList(value) && value.every((each) => typeof each === "string")
        ? value.join("\n")
        : JSON.stringify(value);
  }
}

function writtenInText(text: string): Written | undefined {
  if (text.length > TEXT_LIMIT || !text.includes(`"${FROM}"`) || !/^\s*\{/.test(text)) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) && problemOf(value) === undefined ? readFrom(value) : undefined;
  } catch {
    return undefined;
  }
}

function readFrom(value: Readonly<Record<string, unknown>>): Written {
  const { [FROM]: handle, path, version, as } = value as Record<string, unknown> & { readonly as?: AsText };
  return {
    handle: String(handle),
    ...(typeof path === "string" && path !== "" ? { path } : {}),
    ...(typeof version === "number" ? { version } : {}),
    ...(as === undefined ? {} : { as }),
  };
}

function problemOf(value: Readonly<Record<string, unknown>>): string | undefined {
  const handle = getOwn(value, FROM);
  if (typeof handle !== "string" || parseHandle(handle) === undefined)
    return `${quoted(String(handle))} is not a handle`;
  const unknown = Object.keys(value).find((key) => key !== FROM && !beside.has(key));
  if (unknown !== undefined) return `${quoted(unknown)} is nothing that a handle has`;
  const [path, version, as] = [getOwn(value, "path"), getOwn(value, "version"), getOwn(value, "as")];
  if (path !== undefined && typeof path !== "string") return "path is not a text";
  if (version !== undefined && !(Number.isSafeInteger(version) && Number(version) > 0)) {
    return "version is not a whole number from 1";
  }
  if (as !== undefined && !textForms.some((form) => form === as)) return `as is not one of ${textForms.join(", ")}`;
  return undefined;
}

/** The one key with a dollar sign, where a handle is under it and nothing else is there than what a handle has. */
function misspeltIn(value: Readonly<Record<string, unknown>>): string | undefined {
  const [key, ...more] = Object.keys(value).filter((each) => !beside.has(each));
  if (key === undefined || more.length > 0 || !/^\$\w+$/.test(key) || key === "$item") return undefined;
  const handle = getOwn(value, key);
  return typeof handle === "string" && parseHandle(handle) !== undefined ? key : undefined;
}

function notUnderstood(at: string, problem: string): QmError {
  return new QmError("invalid_arguments", `${at || "the arguments"}: ${problem}`, {
    hint: 'Write {"$from": "note__12"}, or {"$from": "collection__7", "path": "[0].id"} for a part of it; "version": 2 is an earlier one, and "as": "json", "jsonl" or "text" makes a text of it.',
    details: { at },
  });
}
