import type { Action } from "../core/action.ts";
import { fingerprint } from "../core/action.ts";
import { createPatternSet, listSpellings, matchesGlob, type PatternSet } from "../core/name-patterns.ts";
import { didYouMean } from "../core/nearest.ts";
import { type ActorConfig, type CompiledActor, compileActor, DEFAULT_ACTOR } from "./actors.ts";
import { type ApprovalSettings, type CompiledApprovals, compileApprovals } from "./approval-rules.ts";
import type { Budgets } from "./budget.ts";
import { type PolicyLayer, policyLayers } from "./objection.ts";
import { type CompiledTagRule, compileTagRule, type TagRule } from "./tag-rules.ts";
import type { CompiledToolPolicy, Gate, ToolPolicy, ToolVisibilityPolicy } from "./tool-policy.ts";

/** Who may do what. Everything is optional; nothing configured means that everything registered may be used. */
export interface PolicyOptions {
  readonly tools?: ToolPolicy;
  readonly gates?: readonly Gate[];
  readonly rules?: readonly TagRule[];
  readonly visibility?: ToolVisibilityPolicy;
  /** Absent: one actor, `default`, that may use everything that is nobody's specialist tool. */
  readonly actors?: readonly ActorConfig[];
  readonly budgets?: Budgets;
  /** Who may agree to calls that ask, and how long a question stands. */
  readonly approvals?: ApprovalSettings;
}

export interface Policy {
  /** Changes when anything that is written down in the policy changes; recorded with every decision. */
  readonly version: string;
  /** The layers that have something to say; a decision is asked for every action in a list. */
  readonly layers: readonly PolicyLayer[];
  readonly tools: CompiledToolPolicy;
  readonly gates: readonly Gate[];
  readonly rules: readonly CompiledTagRule[];
  readonly visibility: ToolVisibilityPolicy | undefined;
  readonly actors: ReadonlyMap<string, CompiledActor>;
  readonly budgets: Budgets;
  readonly approvals: CompiledApprovals;
}

/** Throws `invalid_expression` for a rule that cannot be compiled. */
export function compilePolicy(options: PolicyOptions = {}): Policy {
  const {
    tools = {},
    gates = [],
    rules = [],
    visibility,
    actors = [DEFAULT_ACTOR],
    budgets = {},
    approvals = {},
  } = options;
  return {
    version: fingerprint({
      tools,
      gates: gates.map(({ name, guards }) => ({ name, guards })),
      rules,
      actors,
      budgets,
      // Who may agree and to what; how long and how many is no part of what was agreed to.
      approvals: { categories: approvals.categories, levels: approvals.levels, allowSelf: approvals.allowSelf },
      visibility: visibility !== undefined,
    }).slice(0, 12),
    layers: policyLayers.filter((layer) => isConfigured(layer, options)),
    tools: {
      allowed: tools.allowed === undefined ? undefined : createPatternSet(tools.allowed),
      denied: createPatternSet(tools.denied ?? []),
      requireTags: tools.requireTags ?? [],
    },
    gates,
    rules: rules.map(compileTagRule),
    visibility,
    actors: new Map(actors.map((actor) => [actor.name, compileActor(actor)])),
    budgets,
    approvals: compileApprovals(approvals),
  };
}

function isConfigured(layer: PolicyLayer, { tools, gates, rules, visibility, budgets }: PolicyOptions): boolean {
  switch (layer) {
    case "tool-policy":
      return tools?.allowed !== undefined || hasItems(tools?.denied) || hasItems(tools?.requireTags);
    case "gates":
      return hasItems(gates);
    case "tag-rules":
      return hasItems(rules);
    case "visibility":
      return visibility !== undefined;
    case "budget":
      return hasItems(Object.keys(budgets ?? {}));
    case "actor":
    case "approval":
      return true;
  }
}

function hasItems(list: readonly unknown[] | undefined): boolean {
  return list !== undefined && list.length > 0;
}

/**
 * What is written in a policy and has no effect, because nothing is called that: most often a misspelt name, and a
 * misspelt name under `denied` denies nothing. Names that actors list are not among them; they keep an actor from
 * starting.
 */
export function findPolicyWarnings({ tools, actors }: Policy, actions: readonly Action[]): readonly string[] {
  const known = new Set(actions.flatMap(listSpellings));
  const findIdlePatterns = (place: string, patterns: Iterable<string>): readonly string[] =>
    [...patterns]
      .filter((pattern) => ![...known].some((name) => matchesGlob(pattern, name)))
      .map((pattern) => `${place} lists ${JSON.stringify(pattern)}, which no action fits${didYouMean(pattern, known)}`);
  const listPatterns = ({ exact, globs }: PatternSet) => [...exact, ...globs];
  return [
    ...findIdlePatterns("policy.denied", listPatterns(tools.denied)),
    ...(tools.allowed === undefined ? [] : findIdlePatterns("policy.allowed", listPatterns(tools.allowed))),
    ...[...actors.values()].flatMap(({ name, tools: { globs } }) => findIdlePatterns(`actor ${name}`, globs)),
  ];
}
