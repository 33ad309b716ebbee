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

export type AnchoredView = { readonly view: Json; readonly tokens: ReadonlySet<string>; readonly problem?: QmError };

interface AnchoringOptions {
  readonly store: Pick<AnchorStore, "put">;
  readonly owner: string;
  readonly newId: Runtime["newId"];
  /** How many values get a token. Further ones are hidden. */
  readonly limit: number;
}

/** The longest anchored value, in characters. A longer one is hidden. */
const VALUE_LIMIT = 65_536;
const ATTEMPTS = 3;

/** Creates the view of a model and stores its tokens. Rejects if the store fails. */
export async function createAnchoredView(value: Json, rules: RuleNode, options: AnchoringOptions) {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const issued = createTokenIssuer(options);
    const view = applyRules(value, rules, createTreatment(issued.anchor));
    const { values, problem } = issued.result();
    if (values.size > 0 && !(await options.store.put(options.owner, values))) continue;
    const tokens = new Set([...values.keys()].map(wrapToken));
    return { view, tokens, ...(problem === undefined ? {} : { problem }) };
  }
  throw createPublicError("conflict", "all new tokens exist already");
}

function createTokenIssuer({ newId, limit }: AnchoringOptions) {
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
      const message = `${hidden} anchored values are hidden: there are more than ${limit}, or one has over ${VALUE_LIMIT} characters`;
      return { values, problem: hidden === 0 ? undefined : createPublicError("too_large", message) };
    },
  };
}

function chooseLabel({ label, path }: FieldRule): string {
  const names = parseFieldPath(path)?.filter((step) => step !== ITEMS);
  return label ?? names?.at(-1) ?? "";
}

/** Shorter values occur in longer texts by chance, so they must match whole words. */
const MIN_SUBSTRING_LENGTH = 4;
const WORK_LIMIT = 200_000_000;

/** The texts and numbers of a record that the rules withhold. Booleans and null tell nothing. */
export function collectWithheldValues(record: Json, rules: RuleNode): readonly string[] {
  const values = new Set<string>();
  const collect: FieldTreatment = (rule, inner, value) => {
    if (rule.treatment === "validated") return inner(collect);
    for (const text of collectTexts(value)) values.add(text);
    return ABSENT;
  };
  applyRules(record, rules, collect);
  return [...values];
}

/** Whether a text contains a value that `other` does not. Returns true if the search would take too long. */
export function containsWithheld(text: string, values: readonly string[], other = ""): boolean {
  if (Math.max(text.length, other.length) * values.length > WORK_LIMIT) return true;
  return values.some((value) => containsValue(text, value) && !containsValue(other, value));
}

const toReadableText = (value: Json): string => collectTexts(value, true).join("\n");

function containsValue(text: string, value: string): boolean {
  if (value.length >= MIN_SUBSTRING_LENGTH) return text.includes(value);
  for (let at = text.indexOf(value); at >= 0; at = text.indexOf(value, at + 1)) {
    if (!isWordPart(text[at - 1]) && !isWordPart(text[at + value.length])) return true;
  }
  return false;
}

const isWordPart = (character: string | undefined): boolean =>
  character !== undefined && /[\p{L}\p{N}]/u.test(character);

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

/** Copies a host's view for the model. Throws `invalid_output` if it is not JSON or adds something withheld. */
export function checkModelAnswer(answer: unknown, record: Json, rules: RuleNode, own: AnchoredView): Json {
  if (typeof answer === "function" || typeof answer === "symbol") throw answerError("is not JSON");
  const text = stringifyRecord(answer);
  const copy = JSON.parse(text) as Json;
  const tokens = [...own.tokens];
  const isAnchored = (value: Json): value is string =>
    typeof value === "string" && tokens.some((token) => value.includes(token));
  const treatment = createTreatment((value) => (isAnchored(value) ? value : ABSENT));
  const rest = applyRules(copy, rules, treatment);
  if (JSON.stringify(rest) !== text) throw answerError("has a field that is withheld from the model");
  if (containsWithheld(toReadableText(copy), collectWithheldValues(record, rules), toReadableText(own.view))) {
    throw answerError("contains a value that is withheld from the model");
  }
  return copy;
}

const answerError = (why: string): QmError => createPublicError("invalid_output", `its answer ${why}`);
