import type { View } from "../catalog/view.ts";

const NAMES_LISTED = 5;
/** Characters of the names. The note must fit beside the hits of a search. */
const NAMES_LENGTH = 120;

/** Tells a model which sources have actions that are not known yet, and the action that asks them. */
export function formatPendingNote(view: View, categories?: readonly string[]): string | undefined {
  const pending = view.pending(categories);
  const [first] = pending;
  if (first === undefined) return undefined;
  const names = pending.slice(0, NAMES_LISTED).map(({ name }) => name);
  while (names.length > 1 && names.join(", ").length > NAMES_LENGTH) names.pop();
  const rest = pending.length - names.length;
  const { askedBy } = first;
  const next = askedBy !== undefined && view.get(askedBy) !== undefined ? ` ${askedBy} asks them.` : "";
  return `Not known yet: ${names.join(", ")}${rest > 0 ? ` and ${rest} more` : ""}.${next}`;
}

/** The names of such sources, for programs and people. Empty if there are none. */
export function toPendingNames(view: View, categories?: readonly string[]): { readonly pending?: readonly string[] } {
  const pending = view.pending(categories).map(({ name }) => name);
  return pending.length === 0 ? {} : { pending };
}

export function joinNotes(...notes: readonly (string | undefined)[]): string | undefined {
  return notes.filter((note) => note !== undefined).join(" ") || undefined;
}
