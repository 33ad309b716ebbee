import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { isRecord, type Json } from "../core/json.ts";
import { type ActionName, quoteName } from "../core/names.ts";
import type { Annotations, FieldAnnotation } from "./annotated-record.ts";
import { DESTINATION_HINT, type Destination, isDestination } from "./annotated-record.ts";
import { describeInvalidPath, type FieldPath, parseFieldPath } from "./field-path.ts";
import { resolveTreatment, type WithheldFields } from "./rules.ts";

/** What is said of a field to a destination that gets it. */
export type FieldFacts = Pick<FieldAnnotation, "composition" | "label" | "temporal">;

/** What a destination is told beside its view. */
export interface DeliveryFacts {
  readonly callId: string;
  readonly action: ActionName;
  readonly caller: Caller;
  readonly destination: Destination;
  /** Of the fields that the destination gets. */
  readonly fields: Readonly<Record<FieldPath, FieldFacts>>;
  /** Aborted when nobody waits any longer. */
  readonly signal: AbortSignal;
}

/**
 * Takes a view, which is its own to change. What it answers or throws is nobody else's business; `llm-session` alone may
 * answer another view, a shorter one say, in place of the one it was given.
 */
export type Deliver = (view: Json, about: DeliveryFacts) => unknown;

/** Where views go, and what is kept from it whatever a record's annotations say. */
export interface DestinationConfig extends WithheldFields {
  readonly deliver: Deliver;
  readonly timeoutMs?: number | undefined;
}

export type Destinations = { readonly [Name in Destination]?: Deliver | DestinationConfig };

export interface CheckedDestination extends DestinationConfig {
  readonly name: Destination;
}

/** The destinations as they were configured. Throws `invalid_config`. */
export function checkDestinations(destinations: Destinations): readonly CheckedDestination[] {
  return Object.entries(destinations).map(([name, given]) => checkDestination(name, given));
}

/** What is said of the fields that are not kept from a destination. */
export function describeFields(destination: Destination, annotations: Annotations): DeliveryFacts["fields"] {
  const told = Object.entries(annotations).flatMap(([path, annotation]) => {
    const treatment = resolveTreatment(destination, annotation);
    if (treatment === "hidden" || treatment === "redacted") return [];
    const { composition, label, temporal } = annotation;
    const said = Object.entries({ composition, label, temporal }).filter(([, value]) => value !== undefined);
    return said.length === 0 ? [] : [[path, Object.fromEntries(said) as FieldFacts] as const];
  });
  return Object.fromEntries(told);
}

function checkDestination(name: string, given: unknown): CheckedDestination {
  if (!isDestination(name)) throw destinationError(`${quoteName(name)} is no destination`, DESTINATION_HINT);
  const config = typeof given === "function" ? { deliver: given } : given;
  if (!isRecord(config) || typeof config.deliver !== "function") {
    throw destinationError(`${name} has no deliver`, "Give a function, or { deliver, hide?, redact?, timeoutMs? }.");
  }
  for (const key of Object.keys(config)) {
    if (!settings.has(key))
      throw destinationError(`${quoteName(key)} of ${name} is unknown`, `Known: ${[...settings].join(", ")}.`);
  }
  const { deliver, hide, redact, timeoutMs } = config;
  if (timeoutMs !== undefined && !isTimeout(timeoutMs)) {
    throw destinationError(`timeoutMs of ${name} is wrong`, `Milliseconds, from 1 to ${LONGEST_TIMER_MS}.`);
  }
  return {
    name,
    deliver: deliver as Deliver,
    hide: checkPaths(name, "hide", hide),
    redact: checkPaths(name, "redact", redact),
    timeoutMs: timeoutMs as number | undefined,
  };
}

const settings: ReadonlySet<string> = new Set(["deliver", "hide", "redact", "timeoutMs"]);

/** A timer cannot hold more; asked to, it fires at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

function isTimeout(value: unknown): boolean {
  return typeof value === "number" && value >= 1 && value <= LONGEST_TIMER_MS;
}

function checkPaths(name: Destination, key: string, given: unknown): readonly FieldPath[] {
  if (given === undefined) return [];
  if (!Array.isArray(given)) throw destinationError(`${key} of ${name} is no list`, "Give a list of paths.");
  const garbled = given.find((path) => parseFieldPath(path) === undefined);
  if (garbled === undefined && !given.includes(undefined)) return [...given];
  const { message, hint } = describeInvalidPath(garbled);
  throw destinationError(`${key} of ${name}: ${message}`, hint);
}

function destinationError(message: string, hint: string): QmError {
  return new QmError("invalid_config", `destinations: ${message}`, { hint });
}
