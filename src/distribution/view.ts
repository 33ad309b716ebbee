import { QmError } from "../core/errors.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { type AnnotatedRecord, stringifyRecord } from "./annotated-record.ts";
import { type FieldPath, ITEMS } from "./field-path.ts";
import { buildRules, type FieldRule, pickStrongerRule, type RuleNode } from "./rules.ts";

export const ABSENT = Symbol("absent");
export const REDACTED_FIELD = "[redacted]";

/** Returns the replacement of a value that has a rule. `inner` applies another treatment to the parts of the value. */
export type FieldTreatment = (
  rule: FieldRule,
  inner: (treat: FieldTreatment) => Json,
  value: Json,
) => Json | typeof ABSENT;

const DEPTH_LIMIT = 512;

/** Applies rules to a value. Parts without rules are not copied. Throws `invalid_output` for lists nested too deep. */
export function applyRules(value: Json, rules: RuleNode, treat: FieldTreatment): Json {
  const result = applyNodes(value, new Set([rules]), treat, 0);
  return result === ABSENT ? null : result;
}

export function createTreatment(anchor: (value: Json, rule: FieldRule) => string | typeof ABSENT): FieldTreatment {
  return (rule, inner) => {
    if (rule.treatment === "hidden") return ABSENT;
    if (rule.treatment === "redacted") return REDACTED_FIELD;
    // The value of a token must not contain parts that are withheld.
    return rule.treatment === "anchored" ? anchor(inner(showAnchored), rule) : inner(createTreatment(anchor));
  };
}

export function createPlainView(value: Json, rules: RuleNode): Json {
  const hideAnchored = createTreatment(() => ABSENT);
  return applyRules(value, rules, hideAnchored);
}

const showAnchored: FieldTreatment = (rule, inner) => {
  if (rule.treatment === "hidden") return ABSENT;
  return rule.treatment === "redacted" ? REDACTED_FIELD : inner(showAnchored);
};

type Nodes = ReadonlySet<RuleNode>;

function applyNodes(value: Json, at: Nodes, treat: FieldTreatment, depth: number): Json | typeof ABSENT {
  if (depth > DEPTH_LIMIT) throw new QmError("invalid_output", "a result with annotations is nested too deep");
  const nodes = Array.isArray(value) ? at : withItems(at);
  let rule: FieldRule | undefined;
  for (const node of nodes) rule = pickStrongerRule(rule, node.rule);
  const inner = (treat: FieldTreatment): Json => {
    if (typeof value !== "object" || value === null) return value;
    return isList(value) ? applyToItems(value, nodes, treat, depth + 1) : applyToFields(value, nodes, treat, depth + 1);
  };
  return rule === undefined ? inner(treat) : treat(rule, inner, value);
}

/** A rule for the items of a list also holds for a single item without its list. */
function withItems(nodes: Nodes): Nodes {
  const reached = new Set(nodes);
  for (const node of reached) {
    const items = node.next.get(ITEMS);
    if (items !== undefined) reached.add(items);
  }
  return reached;
}

function applyToItems(list: readonly Json[], nodes: Nodes, treat: FieldTreatment, depth: number): Json {
  const below = new Set<RuleNode>();
  for (const node of nodes) {
    const items = node.next.get(ITEMS);
    if (items !== undefined) below.add(items);
    if (node.next.size > 0) below.add(node.through);
  }
  if (below.size === 0) return list;
  return list.map((item) => applyNodes(item, below, treat, depth)).filter((item) => item !== ABSENT);
}

function applyToFields(record: JsonObject, nodes: Nodes, treat: FieldTreatment, depth: number): Json {
  const entries: [string, Json][] = [];
  for (const [name, value] of Object.entries(record)) {
    const below = new Set<RuleNode>();
    for (const node of nodes) {
      const next = node.next.get(name);
      if (next !== undefined) below.add(next);
    }
    const result = below.size === 0 ? value : applyNodes(value, below, treat, depth);
    if (result !== ABSENT) entries.push([name, result]);
  }
  // Not by assignment, which would set the prototype for `__proto__`.
  return Object.fromEntries(entries);
}

const isList = (value: readonly Json[] | JsonObject): value is readonly Json[] => Array.isArray(value);

type MissingValue = { readonly path: FieldPath; readonly value: Json };

/** Finds the `validated` values that a text does not contain exactly. Throws `invalid_output` if it is not JSON. */
export function findMissingValues(text: string, annotated: AnnotatedRecord<unknown>): readonly MissingValue[] {
  const missing: MissingValue[] = [];
  const check: FieldTreatment = ({ path, treatment }, inner) => {
    if (treatment !== "validated") return ABSENT;
    const shown = inner(check);
    if (!isStated(text, shown)) missing.push({ path, value: shown });
    return shown;
  };
  const record = JSON.parse(stringifyRecord(annotated.record)) as Json;
  applyRules(record, buildRules("llm-session", annotated.annotations), check);
  return missing;
}

function isStated(text: string, value: Json): boolean {
  if (typeof value === "string") return text.includes(value);
  const written = JSON.stringify(value);
  if (typeof value !== "number") return text.includes(written);
  for (let at = text.indexOf(written); at >= 0; at = text.indexOf(written, at + 1)) {
    const isWhole = !/[\d.,-]$/.test(text.slice(0, at).slice(-1)) && !/^[.,]?\d/.test(text.slice(at + written.length));
    if (isWhole) return true;
  }
  return false;
}
