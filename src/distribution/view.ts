import { QmError } from "../core/errors.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { ITEMS } from "./field-path.ts";
import { type Rule, type RuleNode, stronger } from "./rules.ts";

/** In place of a field that is not there. */
export const ABSENT = Symbol("absent");

export const REDACTED = "[redacted]";

/** What stands in place of a value for which there is a rule. `inner` cuts what lies below it, in another way. */
export type Treat = (rule: Rule, inner: (treat: Treat) => Json, value: Json) => Json | typeof ABSENT;

const DEPTH_LIMIT = 512;

/**
 * A value as the rules leave it. What no rule speaks of is not copied. Throws `invalid_output` for lists that lie too
 * deep in lists.
 */
export function cut(value: Json, rules: RuleNode, treat: Treat): Json {
  const left = cutAt(value, new Set([rules]), treat, 0);
  return left === ABSENT ? null : left;
}

/** The usual treatment, with `anchor` making the tokens. */
export function treatment(anchor: (value: Json, rule: Rule) => string | typeof ABSENT): Treat {
  return (rule, inner) => {
    switch (rule.treatment) {
      case "hidden":
        return ABSENT;
      case "redacted":
        return REDACTED;
      // A token must not bring back what was taken out below it.
      case "anchored":
        return anchor(inner(asItIs), rule);
      case "validated":
        return inner(treatment(anchor));
    }
  };
}

/** A value without anything that has a rule, but what a model may say. */
export function plainView(value: Json, rules: RuleNode): Json {
  return cut(
    value,
    rules,
    treatment(() => ABSENT),
  );
}

const asItIs: Treat = (rule, inner) => {
  if (rule.treatment === "hidden") return ABSENT;
  return rule.treatment === "redacted" ? REDACTED : inner(asItIs);
};

type Nodes = ReadonlySet<RuleNode>;

function cutAt(value: Json, at: Nodes, treat: Treat, depth: number): Json | typeof ABSENT {
  if (depth > DEPTH_LIMIT) throw new QmError("invalid_output", "a result with annotations lies too deep to be divided");
  const nodes = Array.isArray(value) ? at : withItems(at);
  let rule: Rule | undefined;
  for (const node of nodes) rule = stronger(rule, node.rule);
  const inner = (way: Treat): Json => {
    if (typeof value !== "object" || value === null) return value;
    return isList(value) ? cutList(value, nodes, way, depth + 1) : cutFields(value, nodes, way, depth + 1);
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

function cutList(list: readonly Json[], nodes: Nodes, treat: Treat, depth: number): Json {
  const below = new Set<RuleNode>();
  for (const node of nodes) {
    const items = node.next.get(ITEMS);
    if (items !== undefined) below.add(items);
    if (node.next.size > 0) below.add(node.through);
  }
  if (below.size === 0) return list;
  return list.map((item) => cutAt(item, below, treat, depth)).filter((item) => item !== ABSENT);
}

function cutFields(record: JsonObject, nodes: Nodes, treat: Treat, depth: number): Json {
  const entries: [string, Json][] = [];
  for (const [name, value] of Object.entries(record)) {
    const below = new Set<RuleNode>();
    for (const node of nodes) {
      const next = node.next.get(name);
      if (next !== undefined) below.add(next);
    }
    const left = below.size === 0 ? value : cutAt(value, below, treat, depth);
    if (left !== ABSENT) entries.push([name, left]);
  }
  // Not by assignment, which would take `__proto__` for something else than a name.
  return Object.fromEntries(entries);
}

function isList(value: readonly Json[] | JsonObject): value is readonly Json[] {
  return Array.isArray(value);
}
