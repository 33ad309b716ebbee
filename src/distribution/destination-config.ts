import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { isRecord, type Json, omitUndefined } from "../core/json.ts";
import { type ActionName, quoteName } from "../core/names.ts";
import { type Annotations, DESTINATION_HINT, type Destination, isDestination } from "./annotated-record.ts";
import { describeInvalidPath, type FieldPath, parseFieldPath } from "./field-path.ts";
import { resolveTreatment, type WithheldFields } from "./rules.ts";

export type FieldFacts = Pick<Annotations[FieldPath], "composition" | "label" | "temporal">;

export interface DeliveryFacts {
  readonly callId: string;
  readonly action: ActionName;
  readonly caller: Caller;
  readonly destination: Destination;
  readonly fields: Readonly<Record<FieldPath, FieldFacts>>;
  /** Aborts when the result is no longer needed. */
  readonly signal: AbortSignal;
}

/** Receives a copy of its view. Only `llm-session` may return another view, such as a shorter one, to replace it. */
export type Deliver = (view: Json, about: DeliveryFacts) => unknown;

/** A destination, and fields that it never gets, regardless of annotations. */
export interface DestinationConfig extends WithheldFields {
  readonly deliver: Deliver;
  readonly timeoutMs?: number | undefined;
}

export type Destinations = { readonly [Name in Destination]?: Deliver | DestinationConfig };

export interface CheckedDestination extends DestinationConfig {
  readonly name: Destination;
}

export const checkDestinations = (destinations: Destinations): readonly CheckedDestination[] =>
  Object.entries(destinations).map(([name, config]) => checkDestination(name, config));

export function describeFields(destination: Destination, annotations: Annotations): DeliveryFacts["fields"] {
  const described = Object.entries(annotations).flatMap(([path, annotation]) => {
    const treatment = resolveTreatment(destination, annotation);
    if (treatment === "hidden" || treatment === "redacted") return [];
    const { composition, label, temporal } = annotation;
    const facts: FieldFacts = omitUndefined({ composition, label, temporal });
    return Object.keys(facts).length === 0 ? [] : [[path, facts] as const];
  });
  return Object.fromEntries(described);
}

function checkDestination(name: string, input: unknown): CheckedDestination {
  if (!isDestination(name)) throw destinationError(`${quoteName(name)} is not a destination`, DESTINATION_HINT);
  const config = typeof input === "function" ? { deliver: input } : input;
  if (!isRecord(config) || typeof config.deliver !== "function") {
    throw destinationError(`${name} has no deliver`, "Use a function, or { deliver, hide?, redact?, timeoutMs? }.");
  }
  const unknown = Object.keys(config).find((key) => !settings.includes(key));
  if (unknown !== undefined) {
    throw destinationError(`${quoteName(unknown)} of ${name} is unknown`, `Use ${settings.join(", ")}.`);
  }
  const { deliver, hide, redact, timeoutMs } = config;
  const isTimeout = typeof timeoutMs === "number" && timeoutMs >= 1 && timeoutMs <= LONGEST_TIMER_MS;
  if (timeoutMs !== undefined && !isTimeout) {
    throw destinationError(`timeoutMs of ${name} is invalid`, `Use milliseconds, from 1 to ${LONGEST_TIMER_MS}.`);
  }
  return {
    name,
    deliver: deliver as Deliver,
    hide: checkPaths(name, "hide", hide),
    redact: checkPaths(name, "redact", redact),
    timeoutMs: timeoutMs as number | undefined,
  };
}

const settings = ["deliver", "hide", "redact", "timeoutMs"];
/** A longer timer fires at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

function checkPaths(name: Destination, key: string, paths: unknown): readonly FieldPath[] {
  if (paths === undefined) return [];
  if (!Array.isArray(paths)) throw destinationError(`${key} of ${name} is not a list`, "Use a list of paths.");
  const invalid = paths.find((path) => parseFieldPath(path) === undefined);
  if (invalid === undefined && !paths.includes(undefined)) return [...paths];
  const { message, hint } = describeInvalidPath(invalid);
  throw destinationError(`${key} of ${name}: ${message}`, hint);
}

const destinationError = (message: string, hint: string): QmError =>
  new QmError("invalid_config", `destinations: ${message}`, { hint });
