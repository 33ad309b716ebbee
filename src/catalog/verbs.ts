import type { Effect } from "../core/effect.ts";

// Words that say what somebody who wrote a name meant to do. They only ever hold a repair back; what an action can do
// is stated by whoever supplies it.
const observing = new Set(
  "read get list show find search look lookup fetch view query check count describe glob grep load recall open cat head tail stat inspect explain preview".split(
    " ",
  ),
);
const changing = new Set(
  "write create update edit set add put post send delete remove drop rm move rename install run execute exec call invoke start stop kill save store insert append patch deploy publish merge close approve remember forget delegate upload".split(
    " ",
  ),
);

/**
 * The most dangerous effect that a name, as it was written, can have meant: only looking when it says so, anything when
 * it says that it changes something, and only looking when it says neither.
 */
export function effectAsked(words: readonly string[]): Effect {
  if (words.some((word) => changing.has(word))) return "stateful";
  return "read";
}

export function saysWhatItDoes(words: readonly string[]): boolean {
  return words.some((word) => changing.has(word) || observing.has(word));
}
