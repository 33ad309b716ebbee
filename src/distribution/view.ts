import { QmError } from "../core/errors.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { AnnotatedRecord } from "./annotated-record.ts";
import { stringifyRecord } from "./annotated-record.ts";
import { type FieldPath, ITEMS } from "./field-path.ts";
import { buildRules, type FieldRule, pickStrongerRule, type RuleNode } from "./rules.ts";

/** In place of a field that is not there. */
export const ABSENT = Symbol("absent");

export const REDACTED_FIELD = "[redacted]";

/** What stands in place of a value for which there is a rule. `inner` cuts what lies below it, in another way. */
export type FieldTreatment = (
  rule: FieldRule,
  inner: (treat: FieldTreatment) => Json,
  value: Json,
) => Json | typeof ABSENT;

const DEPTH_LIMIT = 512;

/**
 * A value as the rules leave it. What no rule speaks of is not copied. Throws `invalid_output` for lists that lie too
 * deep in lists.
 */
export function applyRules(value: Json, rules: RuleNode, treat: FieldTreatment): Json {
  const left = applyNodes(value, new Set([rules]), treat, 0);
  return left === ABSENT ? null : left;
}

/** The usual treatment, with `anchor` making the tokens. */
export function createTreatment(anchor: (value: Json, rule: FieldRule) => string | typeof ABSENT): FieldTreatment {
  return (rule, inner) => {
    switch (rule.treatment) {
      case "hidden":
        return ABSENT;
      case "redacted":
        return REDACTED_FIELD;
      // A token must not bring back what was taken out below it.
      case "anchored":
        return anchor(inner(showAnchored), rule);
      case "validated":
        return inner(createTreatment(anchor));
    }
  };
}

/** A value without anything that has a rule, but what a model may say. */
export function createPlainView(value: Json, rules: RuleNode): Json {
  return applyRules(
    value,
    rules,
    createTreatment(() => ABSENT),
  );
}

const showAnchored: FieldTreatment = (rule, inner) => {
  if (rule.treatment === "hidden") return ABSENT;
  return rule.treatment === "redacted" ? REDACTED_FIELD : inner(showAnchored);
};

type Nodes = ReadonlySet<RuleNode>;

function applyNodes(value: Json, at: Nodes, treat: FieldTreatment, depth: number): Json | typeof ABSENT {
  if (depth > DEPTH_LIMIT) throw new QmError("invalid_output", "a result with annotations lies too deep to be divided");
  const nodes = Array.isArray(value) ? at : withItems(at);
  let rule: FieldRule | undefined;
  for (const node of nodes) rule = pickStrongerRule(rule, node.rule);
  const inner = (way: FieldTreatment): Json => {
    if (typeof value !== "object" || value === null) return value;
    return isList(value) ? applyToItems(value, nodes, way, depth + 1) : applyToFields(value, nodes, way, depth + 1);
  };
  return rule === undefined ? inner(treat) : treat(rule, inner, value);
}

/** What is said of a list's items holds for one that comes without its list. */
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
    const left = below.size === 0 ? value : applyNodes(value, below, treat, depth);
    if (left !== ABSENT) entries.push([name, left]);
  }
  // Not by assignment, which would take `__proto__` for something else than a name.
  return Object.fromEntries(entries);
}

function isList(value: readonly Json[] | JsonObject): value is readonly Json[] {
  return Array.isArray(value);
}

interface MissingValue {
  readonly path: FieldPath;
  readonly value: Json;
}

/**
 * The `validated` values of a record that a text does not have word for word: texts as they are, everything else as JSON,
 * a number not as a part of another. Throws `invalid_output` for a record that is not JSON.
 */
export function findMissingValues(text: string, annotated: AnnotatedRecord<unknown>): readonly MissingValue[] {
  const missing: MissingValue[] = [];
  const check: FieldTreatment = ({ path, treatment }, inner) => {
    if (treatment !== "validated") return ABSENT;
    const shown = inner(check);
    if (!isStated(text, shown)) missing.push({ path, value: shown });
    return shown;
  };
  applyRules(
    JSON.parse(stringifyRecord(annotated.record)) as Json,
    buildRules("llm-session", annotated.annotations),
    check,
  );
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
