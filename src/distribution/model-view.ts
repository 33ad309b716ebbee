import type { QmError } from "../core/errors.ts";
import { canonicalJson, type Json } from "../core/json.ts";
import type { Runtime } from "../core/runtime.ts";
import { createAnchorToken, wrapToken } from "./anchor-token.ts";
import type { AnchorStore } from "./anchors.ts";
import { stringifyRecord } from "./annotated-record.ts";
import { createPublicError } from "./delivery-queue.ts";
import { ITEMS, parseFieldPath } from "./field-path.ts";
import type { FieldRule, RuleNode } from "./rules.ts";
import { ABSENT, applyRules, createTreatment, type FieldTreatment } from "./view.ts";

/** A value with tokens in place of what is anchored. */
export interface AnchoredView {
  readonly view: Json;
  /** As they stand in the view, with braces. */
  readonly tokens: ReadonlySet<string>;
  /** Why something that should have a token is missing instead. */
  readonly problem?: QmError;
}

interface AnchoredViewParts {
  readonly store: Pick<AnchorStore, "put">;
  readonly owner: string;
  readonly newId: Runtime["newId"];
  /** Values that get a token; one beyond is hidden. */
  readonly limit: number;
}

/** Characters of one anchored value; a longer one is hidden. */
const VALUE_LIMIT = 65_536;

const ATTEMPTS = 3;

/** What a model is shown, once its tokens are kept. Rejects when the store does. */
export async function createAnchoredView(
  value: Json,
  rules: RuleNode,
  parts: AnchoredViewParts,
): Promise<AnchoredView> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const issued = createTokenIssuer(parts);
    const view = applyRules(value, rules, createTreatment(issued.anchor));
    const { values, problem } = issued.result();
    if (values.size > 0 && !(await parts.store.put(parts.owner, values))) continue;
    const tokens = new Set([...values.keys()].map(wrapToken));
    return { view, tokens, ...(problem === undefined ? {} : { problem }) };
  }
  throw createPublicError("conflict", "every token that was made is taken");
}

function createTokenIssuer({ newId, limit }: AnchoredViewParts) {
  const known = new Map<string, string>();
  const values = new Map<string, string>();
  let hidden = 0;
  return {
    anchor(value: Json, rule: FieldRule): string | typeof ABSENT {
      const json = canonicalJson(value);
      const key = `${rule.path}\n${json}`;
      const before = known.get(key);
      if (before !== undefined) return before;
      if (values.size >= limit || json.length > VALUE_LIMIT) {
        hidden++;
        return ABSENT;
      }
      const token = createAnchorToken(chooseLabel(rule), newId);
      known.set(key, wrapToken(token));
      values.set(token, json);
      return wrapToken(token);
    },
    result() {
      const problem = createPublicError(
        "too_large",
        `${hidden} anchored values are hidden: there are more than ${limit}, or one has over ${VALUE_LIMIT} characters`,
      );
      return { values, problem: hidden === 0 ? undefined : problem };
    },
  };
}

function chooseLabel({ label, path }: FieldRule): string {
  const names = parseFieldPath(path)?.filter((step) => step !== ITEMS);
  return label ?? names?.at(-1) ?? "";
}

/** Shorter texts stand by chance in longer ones, so they count as whole words only. */
const TELLING_LENGTH = 4;

/** More characters than this are not looked through: it would keep everybody waiting. */
const WORK_LIMIT = 200_000_000;

/** The texts and numbers of a record that rules keep back, each once. True, false and nothing give nobody away. */
export function collectWithheldValues(record: Json, rules: RuleNode): readonly string[] {
  const values = new Set<string>();
  const gather: FieldTreatment = (rule, inner, value) => {
    if (rule.treatment === "validated") return inner(gather);
    for (const text of collectTexts(value)) values.add(text);
    return ABSENT;
  };
  applyRules(record, rules, gather);
  return [...values];
}

/**
 * Whether a text holds one of the values that another does not. What would take too long to look through counts as holding
 * one.
 */
export function containsWithheld(text: string, values: readonly string[], other = ""): boolean {
  if (Math.max(text.length, other.length) * values.length > WORK_LIMIT) return true;
  return values.some((value) => containsValue(text, value) && !containsValue(other, value));
}

/** All that can be read in a value, names too. */
function toReadableText(value: Json): string {
  return collectTexts(value, true).join("\n");
}

function containsValue(text: string, value: string): boolean {
  if (value.length >= TELLING_LENGTH) return text.includes(value);
  for (let at = text.indexOf(value); at >= 0; at = text.indexOf(value, at + 1)) {
    if (!isWordPart(text[at - 1]) && !isWordPart(text[at + value.length])) return true;
  }
  return false;
}

function isWordPart(character: string | undefined): boolean {
  return character !== undefined && /[\p{L}\p{N}]/u.test(character);
}

function collectTexts(value: Json, withNames = false): readonly string[] {
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

/**
 * Another view that a host answered in place of the model's own, as a copy. Throws `invalid_output` when it is not JSON,
 * has a field that is kept from the model, or holds a value that is and that the model's own view does not.
 */
export function checkModelAnswer(answer: unknown, record: Json, rules: RuleNode, own: AnchoredView): Json {
  if (typeof answer === "function" || typeof answer === "symbol") throw answerError("is not JSON");
  const text = stringifyRecord(answer);
  const copy = JSON.parse(text) as Json;
  const tokens = [...own.tokens];
  const isAnchored = (value: Json): value is string =>
    typeof value === "string" && tokens.some((token) => value.includes(token));
  const left = applyRules(
    copy,
    rules,
    createTreatment((value) => (isAnchored(value) ? value : ABSENT)),
  );
  if (JSON.stringify(left) !== text) throw answerError("has a field that is kept from the model");
  if (containsWithheld(toReadableText(copy), collectWithheldValues(record, rules), toReadableText(own.view))) {
    throw answerError("holds a value that is kept from the model");
  }
  return copy;
}

function answerError(why: string): QmError {
  return createPublicError("invalid_output", `what it answered ${why}`);
}
