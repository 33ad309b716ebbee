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
export function namesDestination(word: unknown): word is Destination {
  return word === EVERY_FORMATTER || isDestination(word);
}

export function includesDestination(words: readonly Destination[], destination: Destination): boolean {
  return words.some(
    (word) => word === destination || (word === EVERY_FORMATTER && destination.startsWith("formatter:")),
  );
}
