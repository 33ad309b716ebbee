import { WithContent } from "../core/content.ts";
import { messageOf, QmError } from "../core/errors.ts";
import { frozenCopy, isRecord } from "../core/json.ts";
import { quoted } from "../core/names.ts";
import { DESTINATION_HINT, type Destination, namesDestination } from "./destination.ts";
import { type FieldPath, notAPath, parsePath } from "./field-path.ts";

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
      throw wrong("only plain data can be annotated", "Annotate the data itself, once, with one path for each field.");
    }
    this.record = record;
    this.annotations = checked(annotations);
  }

  /** Inside something else it would be written out whole, for everybody. */
  toJSON(): never {
    throw wrong(
      "an annotated record lies inside another value",
      "Answer it as it is, and annotate the whole of it: items[].price, not each item.",
    );
  }
}

/** Says of a record's fields who is not to see them and what a model may make of them. Throws `invalid_output`. */
export function annotate<T>(record: T, annotations: Annotations): AnnotatedRecord<T> {
  return new AnnotatedRecord(record, annotations);
}

function checked(given: Annotations): Annotations {
  const annotations = copied(given);
  const entries = isRecord(annotations) ? Object.entries(annotations) : undefined;
  if (entries === undefined) throw wrong("annotations are an object of paths", "Such as { email: { hidden: true } }.");
  if (entries.length > ANNOTATIONS_LIMIT) {
    throw wrong(`${entries.length} fields are annotated`, `At most ${ANNOTATIONS_LIMIT}; annotate what they lie in.`);
  }
  for (const [path, annotation] of entries) {
    if (parsePath(path) === undefined) {
      const { message, hint } = notAPath(path);
      throw wrong(message, hint);
    }
    check(path, annotation);
  }
  return annotations;
}

function copied(given: Annotations): Annotations {
  try {
    return frozenCopy(given);
  } catch (thrown) {
    throw wrong(`annotations are no plain data: ${messageOf(thrown)}`, "Write them as JSON.");
  }
}

function check(path: FieldPath, annotation: unknown): void {
  if (!isRecord(annotation)) throw wrong(`the annotation of ${quoted(path)} is no object`, "Such as { hidden: true }.");
  for (const [key, value] of Object.entries(annotation)) {
    const isRight = Object.hasOwn(fields, key) ? fields[key as keyof FieldAnnotation] : undefined;
    if (isRight === undefined) {
      throw wrong(`${quoted(key)} of ${quoted(path)} is no annotation`, `Known: ${Object.keys(fields).join(", ")}.`);
    }
    if (value !== undefined && !isRight(value))
      throw wrong(`${key} of ${quoted(path)} is wrong${which(value)}`, hints[key] ?? PROSE_HINT);
  }
}

/** Of a list of destinations, those that are none. */
function which(value: unknown): string {
  const unknown = Array.isArray(value) ? value.filter((word) => !namesDestination(word)) : [value];
  return `: ${unknown.map((word) => quoted(String(word))).join(", ")}`;
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
  return Array.isArray(value) && value.every(namesDestination);
}

function isProse(value: unknown): boolean {
  return typeof value === "string" && value.trim() !== "" && value.length <= PROSE_LIMIT;
}

function wrong(message: string, hint: string): QmError {
  return new QmError("invalid_output", `annotate: ${message}`, { hint });
}
