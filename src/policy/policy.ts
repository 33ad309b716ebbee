import { type Action, fingerprint } from "../core/action.ts";
import { createPatternSet, findIdlePatterns } from "../core/name-patterns.ts";
import { quoteName } from "../core/names.ts";
import { type ActorConfig, type CompiledActor, compileActor, DEFAULT_ACTOR } from "./actors.ts";
import { type ApprovalSettings, type CompiledApprovals, compileApprovals } from "./approval-rules.ts";
import type { Budgets } from "./budget.ts";
import { type PolicyLayer, policyLayers } from "./objection.ts";
import { createRuleIndex, type RuleIndex } from "./rule-index.ts";
import { type CompiledTagRule, compileTagRule, type TagRule } from "./tag-rules.ts";
import {
  type CompiledGate,
  type CompiledToolPolicy,
  compileGate,
  type Gate,
  type ToolPolicy,
  type ToolVisibilityPolicy,
} from "./tool-policy.ts";
import { checkWorld, compileWorld, requireWorld, type WorldConfig, type Worlds } from "./worlds.ts";

/** Options of the policy. Without any, every registered action may be used. */
export interface PolicyOptions {
  readonly tools?: ToolPolicy;
  readonly gates?: readonly Gate[];
  readonly rules?: readonly TagRule[];
  readonly visibility?: ToolVisibilityPolicy;
  /** Default: one actor, `default`, that may use everything but specialist tools. */
  readonly actors?: readonly ActorConfig[];
  readonly worlds?: readonly WorldConfig[];
  /** The world of actors that name none. Absent: they are in no world. */
  readonly world?: string;
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
  readonly ruleIndex: RuleIndex;
  readonly visibility: ToolVisibilityPolicy | undefined;
  readonly actors: ReadonlyMap<string, CompiledActor>;
  readonly worlds: Worlds;
  readonly budgets: Budgets;
  readonly approvals: CompiledApprovals;
}

/** Throws `invalid_expression` for a rule that cannot be compiled, and `invalid_config` for an unknown world. */
export function compilePolicy(options: PolicyOptions = {}): Policy {
  const { tools = {}, gates = [], rules = [], visibility, budgets = {}, approvals = {} } = options;
  const { actors = [DEFAULT_ACTOR], world } = options;
  const compiledRules = rules.map(compileTagRule);
  const worlds = new Map((options.worlds ?? []).map((each) => [each.name, compileWorld(each)]));
  const defaultWorld = requireWorld(worlds, world, "world");
  return {
    version: fingerprint({
      tools,
      gates: gates.map(({ name, guards }) => ({ name, guards })),
      rules,
      // How an actor's model works is left out: changing it does not invalidate an approval.
      actors: actors.map(({ model, instructions, tier, maxSteps, ...rest }) => rest),
      worlds: options.worlds?.map(({ name, actions }) => ({ name, actions })),
      world,
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
    rules: compiledRules,
    ruleIndex: createRuleIndex(compiledRules),
    visibility,
    actors: new Map(
      actors.map((actor) => {
        const own = requireWorld(worlds, actor.world, `actors.${actor.name}.world`);
        return [actor.name, compileActor(actor, actor.world === undefined ? defaultWorld : own)];
      }),
    ),
    worlds,
    budgets,
    approvals: compileApprovals(approvals),
  };
}

function listConfiguredLayers({ tools, gates, rules, visibility, budgets = {}, actors = [] }: PolicyOptions) {
  const hasItems = (list: readonly unknown[] = []): boolean => list.length > 0;
  const configured: Record<PolicyLayer, boolean> = {
    "tool-policy": tools?.allowed !== undefined || hasItems(tools?.denied) || hasItems(tools?.requireTags),
    gates: hasItems(gates),
    "tag-rules": hasItems(rules),
    visibility: visibility !== undefined,
    actor: true,
    // Also without configured worlds: an action that names an unknown one is seen by no caller.
    world: true,
    budget: [budgets, ...actors.map((actor) => actor.budgets ?? {})].some((each) => hasItems(Object.keys(each))),
    approval: true,
  };
  return policyLayers.filter((layer) => configured[layer]);
}

/**
 * Warns of patterns that fit no action, and of actions that no caller can see because of their world. `findActorProblems`
 * reports the exact names of actors. A pattern is not reported if `mayFit` says that it may fit actions that are not known yet.
 */
export function findPolicyWarnings(
  { tools, gates, actors, worlds }: Policy,
  actions: readonly Action[],
  mayFit: (pattern: string) => boolean = () => false,
): readonly string[] {
  const findIdle = (place: string, patterns: readonly string[]): readonly string[] =>
    findIdlePatterns(patterns, actions)
      .filter(({ pattern }) => !mayFit(pattern))
      .map(({ pattern, near }) => `${place} lists ${JSON.stringify(pattern)}, which no action fits${near}`);
  return [
    ...findIdle("policy.denied", tools.denied.patterns),
    ...(tools.allowed === undefined ? [] : findIdle("policy.allowed", tools.allowed.patterns)),
    ...gates.flatMap(({ name, guards }) => findIdle(`the gate ${name}`, guards.patterns)),
    ...[...actors.values()].flatMap(({ name, tools: { patterns, exact } }) =>
      findIdle(
        `actor ${name}`,
        patterns.filter((pattern) => !exact.has(pattern)),
      ),
    ),
    ...[...worlds.values()].flatMap(({ name, actions }) => findIdle(`the world ${name}`, actions.patterns)),
    ...[...actors.values()].flatMap(({ name, tools, world }) =>
      actions.flatMap((action) => {
        const objection = tools.listsByName(action) ? checkWorld(worlds, world, action, name) : undefined;
        return objection === undefined ? [] : [`actor ${name} lists "${action.name}", but ${objection.rule}`];
      }),
    ),
    ...[...new Set(actions.flatMap(({ world }) => (world === undefined || worlds.has(world) ? [] : [world])))].map(
      (world) => `no world is called ${quoteName(world)}, so no caller sees its actions`,
    ),
  ];
}
