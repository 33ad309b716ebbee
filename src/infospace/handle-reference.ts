import { QmError } from "../core/errors.ts";
import { getOwn, isRecord, type Json } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import { type JsonPath, parseJsonPath } from "./json-path.ts";
import { isList } from "./json-preview.ts";
import { parseHandle } from "./note.ts";

const handleTextFormats = ["json", "jsonl", "text"] as const;

/** `json`: JSON; `jsonl`: of a list one JSON line each; `text`: texts as they are, several as lines, all else JSON. */
type HandleTextFormat = (typeof handleTextFormats)[number];

/** What is written in the place of something kept: `{"$from": "note__12", "path": "items[0].id"}`. */
export interface HandleReference {
  readonly handle: string;
  readonly path?: string;
  /** Absent: as it is. */
  readonly version?: number;
  /** Absent: the value itself. */
  readonly as?: HandleTextFormat;
}

const FROM = "$from";
const referenceKeys: ReadonlySet<string> = new Set(["path", "version", "as"]);
/** A text that is longer is not read: it is none. */
const TEXT_LIMIT = 1_000;

/** Whether something in it is, or is meant to be, what `writtenHandle` reads. */
export function hasHandleReference(value: unknown): boolean {
  if (typeof value === "string") return parseReferenceText(value) !== undefined;
  if (typeof value !== "object" || value === null) return false;
  if (isRecord(value) && (typeof getOwn(value, FROM) === "string" || findMisspelledKey(value) !== undefined))
    return true;
  return Object.values(value).some(hasHandleReference);
}

/**
 * What is written here. Undefined: nothing, it is data, as everything is that has no text under that name. A text that is the
 * JSON of one is taken as one: models write arguments in texts now and then. Throws `invalid_arguments` where it is meant to
 * be one and is not.
 */
function parseHandleReference(value: unknown, at: string): HandleReference | undefined {
  if (typeof value === "string") return parseReferenceText(value);
  if (!isRecord(value)) return undefined;
  if (typeof getOwn(value, FROM) !== "string") {
    const misspelt = findMisspelledKey(value);
    if (misspelt === undefined) return undefined;
    throw invalidReferenceError(at, `there is no ${quoteName(misspelt)}: did you mean ${quoteName(FROM)}`);
  }
  const problem = findReferenceProblem(value);
  if (problem !== undefined) throw invalidReferenceError(at, problem);
  return toHandleReference(value);
}

/** The value as the text that was asked for. */
export function formatAsText(value: Json, as: HandleTextFormat): string {
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

function parseReferenceText(text: string): HandleReference | undefined {
  if (text.length > TEXT_LIMIT || !text.includes(`"${FROM}"`) || !/^\s*\{/.test(text)) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) && findReferenceProblem(value) === undefined ? toHandleReference(value) : undefined;
  } catch {
    return undefined;
  }
}

function toHandleReference(value: Readonly<Record<string, unknown>>): HandleReference {
  const { [FROM]: handle, path, version, as } = value as Record<string, unknown> & { readonly as?: HandleTextFormat };
  return {
    handle: String(handle),
    ...(typeof path === "string" && path !== "" ? { path } : {}),
    ...(typeof version === "number" ? { version } : {}),
    ...(as === undefined ? {} : { as }),
  };
}

function findReferenceProblem(value: Readonly<Record<string, unknown>>): string | undefined {
  const handle = getOwn(value, FROM);
  if (typeof handle !== "string" || parseHandle(handle) === undefined)
    return `${quoteName(String(handle))} is not a handle`;
  const unknown = Object.keys(value).find((key) => key !== FROM && !referenceKeys.has(key));
  if (unknown !== undefined) return `${quoteName(unknown)} is nothing that a handle has`;
  const [path, version, as] = [getOwn(value, "path"), getOwn(value, "version"), getOwn(value, "as")];
  if (path !== undefined && typeof path !== "string") return "path is not a text";
  if (version !== undefined && !(Number.isSafeInteger(version) && Number(version) > 0)) {
    return "version is not a whole number from 1";
  }
  if (as !== undefined && !handleTextFormats.some((form) => form === as))
    return `as is not one of ${handleTextFormats.join(", ")}`;
  return undefined;
}

/** The one key with a dollar sign, where a handle is under it and nothing else is there than what a handle has. */
function findMisspelledKey(value: Readonly<Record<string, unknown>>): string | undefined {
  const [key, ...more] = Object.keys(value).filter((each) => !referenceKeys.has(each));
  if (key === undefined || more.length > 0 || !/^\$\w+$/.test(key) || key === "$item") return undefined;
  const handle = getOwn(value, key);
  return typeof handle === "string" && parseHandle(handle) !== undefined ? key : undefined;
}

function invalidReferenceError(at: string, problem: string): QmError {
  return new QmError("invalid_arguments", `${at || "the arguments"}: ${problem}`, {
    hint: 'Write {"$from": "note__12"}, or {"$from": "collection__7", "path": "[0].id"} for a part of it; "version": 2 is an earlier one, and "as": "json", "jsonl" or "text" makes a text of it.',
    details: { at },
  });
}

/** Where something is written that stands for a value. */
export interface ArgumentReference {
  readonly at: string;
  readonly written: HandleReference;
  readonly path: JsonPath;
  /** The same for places that need the same note, or the same collection or item of it. */
  readonly source: string;
  /** Whether a text there would be taken for a handle. */
  readonly isHandle: boolean;
}

/** The same arguments with what `put` answers in each place; where a handle is meant, with that. */
export function replaceReferences(
  args: unknown,
  asHandles: readonly string[],
  put: (place: ArgumentReference) => unknown,
): unknown {
  function visit(value: unknown, at: string): unknown {
    const written = parseHandleReference(value, at);
    if (written !== undefined) return put(toArgumentReference(written, at));
    if (Array.isArray(value)) return value.map((part, index) => visit(part, `${at}[${index}]`));
    return isRecord(value) ? mapEntries(value, (key, part) => visit(part, `${at}${formatStep(key, ".")}`)) : value;
  }

  function readHandle(part: unknown, at: string): unknown {
    const written = parseHandleReference(part, at);
    if (written === undefined) return visit(part, at);
    return getBareHandle(written) ?? put({ ...toArgumentReference(written, at), isHandle: true });
  }

  if (parseHandleReference(args, "") !== undefined) {
    if (asHandles.length > 0) throw handleFromDataError("");
    return visit(args, "");
  }
  if (!isRecord(args)) return visit(args, "");
  return mapEntries(args, (key, part) => {
    const at = formatStep(key);
    if (asHandles.includes(`${key}[]`)) return readHandles(part, at);
    return asHandles.includes(key) ? readHandle(part, at) : visit(part, at);
  });
}

/** One handle or several, and nothing but these. */
function readHandles(part: unknown, at: string): unknown {
  if (Array.isArray(part)) return part.map((each, index) => readHandles(each, `${at}[${index}]`));
  const written = parseHandleReference(part, at);
  if (written === undefined) return part;
  const handle = getBareHandle(written);
  if (handle === undefined) throw handleFromDataError(at);
  return handle;
}

function toArgumentReference(written: HandleReference, at: string): ArgumentReference {
  const { handle, version, path: text = "" } = written;
  try {
    const path = parseJsonPath(text);
    const [first = ""] = parseHandle(handle)?.kind === "collection" ? path.steps : [];
    return { at, written, path, source: JSON.stringify([handle, version ?? null, first]), isHandle: false };
  } catch (thrown) {
    throw addArgumentPath(thrown, at);
  }
}

function mapEntries(record: Readonly<Record<string, unknown>>, put: (key: string, part: unknown) => unknown) {
  return Object.fromEntries(Object.entries(record).map(([key, part]) => [key, put(key, part)]));
}

/** The handle, where nothing but that is written. */
function getBareHandle(written: HandleReference): string | undefined {
  return Object.keys(written).length > 1 ? undefined : written.handle;
}

function formatStep(key: string, before = ""): string {
  return /^[\p{L}_$][\p{L}\p{N}_$-]*$/u.test(key) ? `${before}${key}` : `[${quoteName(key)}]`;
}

/** The same error, with where in the arguments it came up. */
export function addArgumentPath(thrown: unknown, at: string): unknown {
  if (!(thrown instanceof QmError)) return thrown;
  const { code, hint, details } = thrown;
  return new QmError(code, `${at || "the arguments"}: ${thrown.message}`, {
    cause: thrown,
    ...(hint === undefined ? {} : { hint }),
    details: { ...details, at },
  });
}

export function handleFromDataError(at: string): QmError {
  return new QmError("invalid_arguments", `${at || "the arguments"}: a handle cannot be taken from data`, {
    hint: "Write the handle itself, such as note__12. What a note says is read with infospace__load.",
    details: { at },
  });
}
