import { getErrorMessage, QmError } from "../core/errors.ts";
import { WithContent } from "../core/handler-result.ts";
import { cloneFrozen, isRecord } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import { describeInvalidPath, type FieldPath, parseFieldPath } from "./field-path.ts";

/** A record as it leaves. Throws `invalid_output` for what is not JSON. */
export function stringifyRecord(record: unknown): string {
  try {
    return JSON.stringify(record) ?? "null";
  } catch (thrown) {
    throw new QmError("invalid_output", `a result with annotations is not JSON: ${getErrorMessage(thrown)}`, {
      hint: "This is a fault of the action.",
    });
  }
}

/** Where a result goes beside the program that called. */
export type Destination = "llm-session" | "ui" | "cache" | "audit" | "peer-response" | `formatter:${string}`;

const plainDestinations: ReadonlySet<string> = new Set(["llm-session", "ui", "cache", "audit", "peer-response"]);
const FORMATTER = /^formatter:[A-Za-z0-9][\w.-]{0,63}$/;
const EVERY_FORMATTER = "formatter:*";

export const DESTINATION_HINT = "Destinations are llm-session, ui, cache, audit, peer-response and formatter:<name>.";

/** Whether something can be sent there. */
export function isDestination(word: unknown): word is Destination {
  return typeof word === "string" && (plainDestinations.has(word) || FORMATTER.test(word));
}

/** Whether an annotation can speak of it: a destination, or every formatter there is. */
function isDestinationPattern(word: unknown): word is Destination {
  return word === EVERY_FORMATTER || isDestination(word);
}

export function includesDestination(words: readonly Destination[], destination: Destination): boolean {
  return words.some(
    (word) => word === destination || (word === EVERY_FORMATTER && destination.startsWith("formatter:")),
  );
}

const compositions = ["anchored", "validated", "narrative"] as const;

/**
 * What a model may make of a value: `anchored`, it gets a token and never the value; `validated`, it gets the value and
 * what it says can be checked; `narrative`, it may say it in its own words.
 */
export type Composition = (typeof compositions)[number];

/** What is to become of one field, and of everything below it. */
export interface FieldAnnotation {
  /** Where the field is missing. `true`: everywhere but in the program that called. */
  readonly hidden?: readonly Destination[] | true;
  /** Where "[redacted]" stands in its place. */
  readonly redacted?: readonly Destination[];
  readonly composition?: Composition;
  /** What the field is called where it is shown. */
  readonly label?: string;
  /** When it is true: "as of now", "until Friday". */
  readonly temporal?: string;
}

export type Annotations = Readonly<Record<FieldPath, FieldAnnotation>>;

const ANNOTATIONS_LIMIT = 500;
const PROSE_LIMIT = 200;

/** What a handler answers when its result is not for everybody alike. It must be the whole answer, not a part of one. */
export class AnnotatedRecord<T> {
  readonly record: T;
  readonly annotations: Annotations;

  /** Throws `invalid_output` for annotations that would not do what they seem to say. */
  constructor(record: T, annotations: Annotations) {
    if (record instanceof WithContent || record instanceof AnnotatedRecord) {
      throw annotationError(
        "only plain data can be annotated",
        "Annotate the data itself, once, with one path for each field.",
      );
    }
    this.record = record;
    this.annotations = checkAnnotations(annotations);
  }

  /** Inside something else it would be written out whole, for everybody. */
  toJSON(): never {
    throw annotationError(
      "an annotated record lies inside another value",
      "Answer it as it is, and annotate the whole of it: items[].price, not each item.",
    );
  }
}

/** Says of a record's fields who is not to see them and what a model may make of them. Throws `invalid_output`. */
export function annotate<T>(record: T, annotations: Annotations): AnnotatedRecord<T> {
  return new AnnotatedRecord(record, annotations);
}

function checkAnnotations(given: Annotations): Annotations {
  const annotations = copyAnnotations(given);
  const entries = isRecord(annotations) ? Object.entries(annotations) : undefined;
  if (entries === undefined)
    throw annotationError("annotations are an object of paths", "Such as { email: { hidden: true } }.");
  if (entries.length > ANNOTATIONS_LIMIT) {
    throw annotationError(
      `${entries.length} fields are annotated`,
      `At most ${ANNOTATIONS_LIMIT}; annotate what they lie in.`,
    );
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

function copyAnnotations(given: Annotations): Annotations {
  try {
    return cloneFrozen(given);
  } catch (thrown) {
    throw annotationError(`annotations are no plain data: ${getErrorMessage(thrown)}`, "Write them as JSON.");
  }
}

function checkAnnotation(path: FieldPath, annotation: unknown): void {
  if (!isRecord(annotation))
    throw annotationError(`the annotation of ${quoteName(path)} is no object`, "Such as { hidden: true }.");
  for (const [key, value] of Object.entries(annotation)) {
    const isRight = Object.hasOwn(fields, key) ? fields[key as keyof FieldAnnotation] : undefined;
    if (isRight === undefined) {
      throw annotationError(
        `${quoteName(key)} of ${quoteName(path)} is no annotation`,
        `Known: ${Object.keys(fields).join(", ")}.`,
      );
    }
    if (value !== undefined && !isRight(value))
      throw annotationError(`${key} of ${quoteName(path)} is wrong${listInvalid(value)}`, hints[key] ?? PROSE_HINT);
  }
}

/** Of a list of destinations, those that are none. */
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

const PROSE_HINT = `A short text of at most ${PROSE_LIMIT} characters.`;
const hints: Readonly<Record<string, string>> = {
  hidden: `true, or a list. ${DESTINATION_HINT}`,
  redacted: `A list. ${DESTINATION_HINT}`,
  composition: `One of ${compositions.join(", ")}.`,
};

function areDestinations(value: unknown): boolean {
  return Array.isArray(value) && value.every(isDestinationPattern);
}

function isProse(value: unknown): boolean {
  return typeof value === "string" && value.trim() !== "" && value.length <= PROSE_LIMIT;
}

function annotationError(message: string, hint: string): QmError {
  return new QmError("invalid_output", `annotate: ${message}`, { hint });
}
