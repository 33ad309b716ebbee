import { getErrorMessage, QmError } from "../core/errors.ts";
import { WithContent } from "../core/handler-result.ts";
import { cloneFrozen, getOwn, isRecord } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import { describeInvalidPath, type FieldPath, parseFieldPath } from "./field-path.ts";

/** Throws `invalid_output` if the record is not JSON. */
export function stringifyRecord(record: unknown): string {
  try {
    return JSON.stringify(record) ?? "null";
  } catch (thrown) {
    throw new QmError("invalid_output", `a result with annotations is not JSON: ${getErrorMessage(thrown)}`, {
      hint: "This is a bug in the action.",
    });
  }
}

/** A receiver of results, besides the calling program. */
export type Destination = "llm-session" | "ui" | "cache" | "audit" | "peer-response" | `formatter:${string}`;

const plainDestinations: ReadonlySet<string> = new Set(["llm-session", "ui", "cache", "audit", "peer-response"]);
const FORMATTER = /^formatter:[A-Za-z0-9][\w.-]{0,63}$/;
const EVERY_FORMATTER = "formatter:*";
export const DESTINATION_HINT = "Destinations are llm-session, ui, cache, audit, peer-response and formatter:<name>.";
export const isDestination = (word: unknown): word is Destination =>
  typeof word === "string" && (plainDestinations.has(word) || FORMATTER.test(word));
const isDestinationPattern = (word: unknown): word is Destination => word === EVERY_FORMATTER || isDestination(word);

export function includesDestination(words: readonly Destination[], destination: Destination): boolean {
  const isFormatter = destination.startsWith("formatter:");
  return words.some((word) => word === destination || (word === EVERY_FORMATTER && isFormatter));
}

const compositions = ["anchored", "validated", "narrative"] as const;

/** `anchored`: a model gets a token. `validated`: it must repeat the value exactly. `narrative`: it may paraphrase. */
export type Composition = (typeof compositions)[number];

/** The treatment of one field, and of everything below it. */
export interface FieldAnnotation {
  /** The destinations that do not get the field. `true`: all but the calling program. */
  readonly hidden?: readonly Destination[] | true;
  readonly redacted?: readonly Destination[];
  readonly composition?: Composition;
  readonly label?: string;
  /** When the value holds: "as of now", "until Friday". */
  readonly temporal?: string;
}

export type Annotations = Readonly<Record<FieldPath, FieldAnnotation>>;

const ANNOTATIONS_LIMIT = 500;
const PROSE_LIMIT = 200;

/** A result of a handler with different views for different destinations. It must be the whole result. */
export class AnnotatedRecord<T> {
  readonly record: T;
  readonly annotations: Annotations;

  constructor(record: T, annotations: Annotations) {
    if (record instanceof WithContent || record instanceof AnnotatedRecord) {
      throw annotationError("only plain data can be annotated", "Annotate the data once, with one path per field.");
    }
    this.record = record;
    this.annotations = checkAnnotations(annotations);
  }

  /** Inside another value, all destinations would get the whole record. */
  toJSON(): never {
    throw annotationError(
      "an annotated record is inside another value",
      "Return it as the whole result, and annotate items[].price instead of each item.",
    );
  }
}

/** Annotates the fields of a record: who may see them, and how a model may use them. Throws `invalid_output`. */
export function annotate<T>(record: T, annotations: Annotations): AnnotatedRecord<T> {
  return new AnnotatedRecord(record, annotations);
}

function checkAnnotations(input: Annotations): Annotations {
  const annotations = copyAnnotations(input);
  const entries = isRecord(annotations) ? Object.entries(annotations) : undefined;
  if (entries === undefined) {
    throw annotationError("annotations must be an object of paths", "Such as { email: { hidden: true } }.");
  }
  if (entries.length > ANNOTATIONS_LIMIT) {
    const hint = `Annotate at most ${ANNOTATIONS_LIMIT} fields, or the fields that contain them.`;
    throw annotationError(`${entries.length} fields are annotated`, hint);
  }
  for (const [path, annotation] of entries) {
    if (parseFieldPath(path) === undefined) {
      const { message, hint } = describeInvalidPath(path);
      throw annotationError(message, hint);
    }
    checkAnnotation(path, annotation);
  }
  return annotations;
}

function copyAnnotations(input: Annotations): Annotations {
  try {
    return cloneFrozen(input);
  } catch (thrown) {
    throw annotationError(`annotations are not plain data: ${getErrorMessage(thrown)}`, "Write them as JSON.");
  }
}

function checkAnnotation(path: FieldPath, annotation: unknown): void {
  if (!isRecord(annotation)) {
    throw annotationError(`the annotation of ${quoteName(path)} is not an object`, "Such as { hidden: true }.");
  }
  for (const [key, value] of Object.entries(annotation)) {
    const isValid = getOwn<(value: unknown) => boolean>(fields, key);
    if (isValid === undefined) {
      const hint = `Use one of ${Object.keys(fields).join(", ")}.`;
      throw annotationError(`${quoteName(key)} of ${quoteName(path)} is not an annotation`, hint);
    }
    if (value !== undefined && !isValid(value)) {
      throw annotationError(`${key} of ${quoteName(path)} is invalid${listInvalid(value)}`, hints[key] ?? PROSE_HINT);
    }
  }
}

function listInvalid(value: unknown): string {
  const unknown = Array.isArray(value) ? value.filter((word) => !isDestinationPattern(word)) : [value];
  return `: ${unknown.map((word) => quoteName(String(word))).join(", ")}`;
}

const fields: Readonly<Record<keyof FieldAnnotation, (value: unknown) => boolean>> = {
  hidden: (value) => value === true || areDestinations(value),
  redacted: areDestinations,
  composition: (value) => compositions.some((known) => known === value),
  label: isProse,
  temporal: isProse,
};

const PROSE_HINT = `Use a text of at most ${PROSE_LIMIT} characters.`;
const hints: Readonly<Record<string, string>> = {
  hidden: `Use true or a list. ${DESTINATION_HINT}`,
  redacted: `Use a list. ${DESTINATION_HINT}`,
  composition: `Use one of ${compositions.join(", ")}.`,
};

function areDestinations(value: unknown): boolean {
  return Array.isArray(value) && value.every(isDestinationPattern);
}

function isProse(value: unknown): boolean {
  return typeof value === "string" && value.trim() !== "" && value.length <= PROSE_LIMIT;
}

const annotationError = (message: string, hint: string): QmError =>
  new QmError("invalid_output", `annotate: ${message}`, { hint });
