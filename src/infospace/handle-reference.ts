import { QmError } from "../core/errors.ts";
import { getOwn, isRecord, type Json } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import { type JsonPath, parseJsonPath } from "./json-path.ts";
import { isList } from "./json-preview.ts";
import { parseHandle } from "./note.ts";

/** `json`: JSON; `jsonl`: a JSON line per item; `text`: texts as they are, lists of texts as lines, else JSON. */
const handleTextFormats = ["json", "jsonl", "text"] as const;
type HandleTextFormat = (typeof handleTextFormats)[number];

/**
 * `{"$from": "note__12", "path": "items[0].id"}` in arguments, which stands for a stored value: without `version` the
 * current one, without `as` the value itself.
 */
export type HandleReference = Readonly<{ handle: string; path?: string; version?: number; as?: HandleTextFormat }>;

export interface ArgumentReference {
  /** Its place in the arguments. */
  readonly at: string;
  readonly reference: HandleReference;
  readonly path: JsonPath;
  /** Equal for references to the same note, or to the same collection or item of it. */
  readonly source: string;
  /** Whether a text in this argument would be taken for a handle. */
  readonly isHandle: boolean;
}

type PutReference = (reference: ArgumentReference) => unknown;
const FROM = "$from";
const referenceKeys: ReadonlySet<string> = new Set(["path", "version", "as"]);
/** Longer texts are not parsed as references. */
const TEXT_LIMIT = 1_000;

/**
 * Replaces each reference by what `put` returns. Arguments in `asHandles` take handles: there, a reference without a path
 * stands for its handle.
 */
export function replaceReferences(args: unknown, asHandles: readonly string[], put: PutReference): unknown {
  function visit(value: unknown, at: string): unknown {
    const reference = parseHandleReference(value, at);
    if (reference !== undefined) return put(toArgumentReference(reference, at));
    if (Array.isArray(value)) return value.map((part, index) => visit(part, `${at}[${index}]`));
    return isRecord(value) ? mapEntries(value, (key, part) => visit(part, `${at}${formatStep(key, ".")}`)) : value;
  }

  function readHandle(part: unknown, at: string): unknown {
    const reference = parseHandleReference(part, at);
    if (reference === undefined) return visit(part, at);
    return getBareHandle(reference) ?? put({ ...toArgumentReference(reference, at), isHandle: true });
  }

  const isReference = parseHandleReference(args, "") !== undefined;
  if (isReference && asHandles.length > 0) throw handleFromDataError("");
  if (isReference || !isRecord(args)) return visit(args, "");
  return mapEntries(args, (key, part) => {
    const at = formatStep(key);
    if (asHandles.includes(`${key}[]`)) return readHandles(part, at);
    return asHandles.includes(key) ? readHandle(part, at) : visit(part, at);
  });
}

function readHandles(part: unknown, at: string): unknown {
  if (Array.isArray(part)) return part.map((each, index) => readHandles(each, `${at}[${index}]`));
  const reference = parseHandleReference(part, at);
  if (reference === undefined) return part;
  const handle = getBareHandle(reference);
  if (handle === undefined) throw handleFromDataError(at);
  return handle;
}

/** Whether a value contains a reference or a misspelled one. */
export function hasHandleReference(value: unknown): boolean {
  if (typeof value === "string") return parseReferenceText(value) !== undefined;
  if (typeof value !== "object" || value === null) return false;
  if (isRecord(value) && (typeof getOwn(value, FROM) === "string" || findMisspelledKey(value) !== undefined))
    return true;
  return Object.values(value).some(hasHandleReference);
}

/**
 * Undefined for data, which is everything without a text under `$from`. The JSON of a reference in a text counts, because
 * models sometimes write arguments as texts. Throws `invalid_arguments` for a malformed reference.
 */
function parseHandleReference(value: unknown, at: string): HandleReference | undefined {
  if (typeof value === "string") return parseReferenceText(value);
  if (!isRecord(value)) return undefined;
  if (typeof getOwn(value, FROM) !== "string") {
    const misspelled = findMisspelledKey(value);
    if (misspelled === undefined) return undefined;
    throw invalidReferenceError(at, `there is no ${quoteName(misspelled)}: did you mean ${quoteName(FROM)}`);
  }
  const problem = findReferenceProblem(value);
  if (problem !== undefined) throw invalidReferenceError(at, problem);
  return toHandleReference(value);
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
  if (unknown !== undefined) return `unknown key ${quoteName(unknown)}`;
  const [path, version, as] = [getOwn(value, "path"), getOwn(value, "version"), getOwn(value, "as")];
  if (path !== undefined && typeof path !== "string") return "path is not a text";
  if (version !== undefined && !(Number.isSafeInteger(version) && Number(version) > 0))
    return "version is not a whole number from 1";
  if (as !== undefined && !handleTextFormats.some((format) => format === as))
    return `as is not one of ${handleTextFormats.join(", ")}`;
  return undefined;
}

function findMisspelledKey(value: Readonly<Record<string, unknown>>): string | undefined {
  const [key, ...more] = Object.keys(value).filter((each) => !referenceKeys.has(each));
  if (key === undefined || more.length > 0 || !/^\$\w+$/.test(key) || key === "$item") return undefined;
  const handle = getOwn(value, key);
  return typeof handle === "string" && parseHandle(handle) !== undefined ? key : undefined;
}

function toArgumentReference(reference: HandleReference, at: string): ArgumentReference {
  const { handle, version, path: text = "" } = reference;
  try {
    const path = parseJsonPath(text);
    const [first = ""] = parseHandle(handle)?.kind === "collection" ? path.steps : [];
    return { at, reference, path, source: JSON.stringify([handle, version ?? null, first]), isHandle: false };
  } catch (thrown) {
    throw addArgumentPath(thrown, at);
  }
}

function getBareHandle(reference: HandleReference): string | undefined {
  return Object.keys(reference).length > 1 ? undefined : reference.handle;
}

function mapEntries(record: Readonly<Record<string, unknown>>, put: (key: string, part: unknown) => unknown) {
  return Object.fromEntries(Object.entries(record).map(([key, part]) => [key, put(key, part)]));
}

function formatStep(key: string, before = ""): string {
  return /^[\p{L}_$][\p{L}\p{N}_$-]*$/u.test(key) ? `${before}${key}` : `[${quoteName(key)}]`;
}

export function formatAsText(value: Json, as: HandleTextFormat): string {
  if (as === "jsonl") return (isList(value) ? value : [value]).map((each) => `${JSON.stringify(each)}\n`).join("");
  if (as === "text" && typeof value === "string") return value;
  const isLines = as === "text" && isList(value) && value.every((each) => typeof each === "string");
  return isLines ? value.join("\n") : JSON.stringify(value);
}

export function addArgumentPath(thrown: unknown, at: string): unknown {
  if (!(thrown instanceof QmError)) return thrown;
  const { code, hintTemplate: hint, details } = thrown;
  return new QmError(code, `${formatPlace(at)}: ${thrown.message}`, {
    cause: thrown,
    ...(hint === undefined ? {} : { hint }),
    details: { ...details, at },
  });
}

export function formatPlace(at: string): string {
  return at || "the arguments";
}

function invalidReferenceError(at: string, problem: string): QmError {
  const hint =
    'Write {"$from": "note__12"}, or {"$from": "collection__7", "path": "[0].id"} for a part of it. "version": 2 is an earlier version, and "as": "json", "jsonl" or "text" makes it a text.';
  return new QmError("invalid_arguments", `${formatPlace(at)}: ${problem}`, { hint, details: { at } });
}

export function handleFromDataError(at: string): QmError {
  return new QmError("invalid_arguments", `${formatPlace(at)}: a handle cannot be taken from data`, {
    hint: "Write the handle itself, such as note__12. Read the content of a note with {infospace__load}.",
    details: { at },
  });
}
