import { type Action, fingerprint } from "../core/action.ts";
import { createPatternSet, listSpellings, matchesGlob, type PatternSet } from "../core/name-patterns.ts";
import { didYouMean } from "../core/nearest.ts";
import { type ActorConfig, type CompiledActor, compileActor, DEFAULT_ACTOR } from "./actors.ts";
import { type ApprovalSettings, type CompiledApprovals, compileApprovals } from "./approval-rules.ts";
import type { Budgets } from "./budget.ts";
import { type PolicyLayer, policyLayers } from "./objection.ts";
import { type CompiledTagRule, compileTagRule, type TagRule } from "./tag-rules.ts";
import {
  type CompiledGate,
  type CompiledToolPolicy,
  compileGate,
  type Gate,
  type ToolPolicy,
  type ToolVisibilityPolicy,
} from "./tool-policy.ts";

/** Options of the policy. Without any, every registered action may be used. */
export interface PolicyOptions {
  readonly tools?: ToolPolicy;
  readonly gates?: readonly Gate[];
  readonly rules?: readonly TagRule[];
  readonly visibility?: ToolVisibilityPolicy;
  /** Default: one actor, `default`, that may use everything but specialist tools. */
  readonly actors?: readonly ActorConfig[];
  readonly budgets?: Budgets;
  readonly approvals?: ApprovalSettings;
}

export interface Policy {
  /** A hash of the options; recorded with every decision. */
  readonly version: string;
  /** The layers that are configured. Others are skipped, because listing decides on every action. */
  readonly layers: readonly PolicyLayer[];
  readonly tools: CompiledToolPolicy;
  readonly gates: readonly CompiledGate[];
  readonly rules: readonly CompiledTagRule[];
  readonly visibility: ToolVisibilityPolicy | undefined;
  readonly actors: ReadonlyMap<string, CompiledActor>;
  readonly budgets: Budgets;
  readonly approvals: CompiledApprovals;
}

/** Throws `invalid_expression` for a rule that cannot be compiled. */
export function compilePolicy(options: PolicyOptions = {}): Policy {
  const { tools = {}, gates = [], rules = [], visibility, budgets = {}, approvals = {} } = options;
  const { actors = [DEFAULT_ACTOR] } = options;
  return {
    version: fingerprint({
      tools,
      gates: gates.map(({ name, guards }) => ({ name, guards })),
      rules,
      actors,
      budgets,
      // Times and limits are left out: changing them does not invalidate an approval.
      approvals: { categories: approvals.categories, levels: approvals.levels, allowSelf: approvals.allowSelf },
      visibility: visibility !== undefined,
    }).slice(0, 12),
    layers: listConfiguredLayers(options),
    tools: {
      allowed: tools.allowed === undefined ? undefined : createPatternSet(tools.allowed),
      denied: createPatternSet(tools.denied ?? []),
      requireTags: tools.requireTags ?? [],
    },
    gates: gates.map(compileGate),
    rules: rules.map(compileTagRule),
    visibility,
    actors: new Map(actors.map((actor) => [actor.name, compileActor(actor)])),
    budgets,
    approvals: compileApprovals(approvals),
  };
}

function listConfiguredLayers({ tools, gates, rules, visibility, budgets = {} }: PolicyOptions) {
  const hasItems = (list: readonly unknown[] = []): boolean => list.length > 0;
  const configured: Record<PolicyLayer, boolean> = {
    "tool-policy": tools?.allowed !== undefined || hasItems(tools?.denied) || hasItems(tools?.requireTags),
    gates: hasItems(gates),
    "tag-rules": hasItems(rules),
    visibility: visibility !== undefined,
    actor: true,
    budget: hasItems(Object.keys(budgets)),
    approval: true,
  };
  return policyLayers.filter((layer) => configured[layer]);
}

/**
 * Warns of patterns that fit no action. `findActorProblems` reports the exact names of actors. `mayFit` tells whether a
 * pattern may fit actions that are not known yet; such a pattern is not reported.
 */
export function findPolicyWarnings(
  { tools, gates, actors }: Policy,
  actions: readonly Action[],
  mayFit: (pattern: string) => boolean = () => false,
): readonly string[] {
  const known = new Set(actions.flatMap(listSpellings));
  const findIdlePatterns = (place: string, patterns: Iterable<string>): readonly string[] =>
    [...patterns]
      .filter((pattern) => !mayFit(pattern) && ![...known].some((name) => matchesGlob(pattern, name)))
      .map((pattern) => `${place} lists ${JSON.stringify(pattern)}, which no action fits${didYouMean(pattern, known)}`);
  const listPatterns = ({ exact, globs }: PatternSet) => [...exact, ...globs];
  return [
    ...findIdlePatterns("policy.denied", listPatterns(tools.denied)),
    ...(tools.allowed === undefined ? [] : findIdlePatterns("policy.allowed", listPatterns(tools.allowed))),
    ...gates.flatMap(({ name, guards }) => findIdlePatterns(`the gate ${name}`, listPatterns(guards))),
    ...[...actors.values()].flatMap(({ name, tools: { globs } }) => findIdlePatterns(`actor ${name}`, globs)),
  ];
}
