import type { Json } from "../core/json.ts";
import type { RuleNode } from "./rules.ts";
import { ABSENT, cut, type Treat } from "./view.ts";

/** Shorter texts stand by chance in longer ones, so they count as whole words only. */
const TELLING_LENGTH = 4;

/** More characters than this are not looked through: it would keep everybody waiting. */
const WORK_LIMIT = 200_000_000;

/** The texts and numbers of a record that rules keep back, each once. True, false and nothing give nobody away. */
export function withheldValues(record: Json, rules: RuleNode): readonly string[] {
  const values = new Set<string>();
  const gather: Treat = (rule, inner, value) => {
    if (rule.treatment === "validated") return inner(gather);
    for (const text of leavesOf(value)) values.add(text);
    return ABSENT;
  };
  cut(record, rules, gather);
  return [...values];
}

/**
 * Whether a text holds one of the values that another does not. What would take too long to look through counts as holding
 * one.
 */
export function holdsOneOf(text: string, values: readonly string[], other = ""): boolean {
  if (Math.max(text.length, other.length) * values.length > WORK_LIMIT) return true;
  return values.some((value) => holds(text, value) && !holds(other, value));
}

/** All that can be read in a value, names too. */
export function readableText(value: Json): string {
  return leavesOf(value, true).join("\n");
}

function holds(text: string, value: string): boolean {
  if (value.length >= TELLING_LENGTH) return text.includes(value);
  for (let at = text.indexOf(value); at >= 0; at = text.indexOf(value, at + 1)) {
    if (!isWordPart(text[at - 1]) && !isWordPart(text[at + value.length])) return true;
  }
  return false;
}

function isWordPart(character: string | undefined): boolean {
  return character !== undefined && /[\p{L}\p{N}]/u.test(character);
}

function leavesOf(value: Json, withNames = false): readonly string[] {
  const leaves: string[] = [];
  const open: Json[] = [value];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next === "number") leaves.push(JSON.stringify(next));
    else if (typeof next === "string" && next !== "") leaves.push(next);
    else if (typeof next === "object" && next !== null) {
      for (const [name, part] of Object.entries(next)) {
        if (withNames && !Array.isArray(next)) leaves.push(name);
        open.push(part as Json);
      }
    }
  }
  return leaves;
}
