import type { QmError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { AnchoredView } from "./anchored-view.ts";
import { jsonTextOf } from "./json-text.ts";
import { ownProblem } from "./own-problem.ts";
import type { RuleNode } from "./rules.ts";
import { ABSENT, cut, treatment } from "./view.ts";
import { holdsOneOf, readableText, withheldValues } from "./withheld-values.ts";

/**
 * Another view that a host answered in place of the model's own, as a copy. Throws `invalid_output` when it is not JSON,
 * has a field that is kept from the model, or holds a value that is and that the model's own view does not.
 */
export function checkedAnswer(answer: unknown, record: Json, rules: RuleNode, own: AnchoredView): Json {
  if (typeof answer === "function" || typeof answer === "symbol") throw refused("is not JSON");
  const text = jsonTextOf(answer);
  const copy = JSON.parse(text) as Json;
  const tokens = [...own.tokens];
  const isAnchored = (value: Json): value is string =>
    typeof value === "string" && tokens.some((token) => value.includes(token));
  const left = cut(
    copy,
    rules,
    treatment((value) => (isAnchored(value) ? value : ABSENT)),
  );
  if (JSON.stringify(left) !== text) throw refused("has a field that is kept from the model");
  if (holdsOneOf(readableText(copy), withheldValues(record, rules), readableText(own.view))) {
    throw refused("holds a value that is kept from the model");
  }
  return copy;
}

function refused(why: string): QmError {
  return ownProblem("invalid_output", `what it answered ${why}`);
}
