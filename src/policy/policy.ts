import { fingerprint } from "../core/definition.ts";
import { patternSet } from "../core/patterns.ts";
import { type ActorConfig, type CompiledActor, compileActor, DEFAULT_ACTOR } from "./actors.ts";
import { type ApprovalSettings, type CompiledApprovals, compileApprovals } from "./approvers.ts";
import type { Budgets } from "./budget.ts";
import type { Gate } from "./gates.ts";
import { type CompiledTagRule, compileTagRule, type TagRule } from "./tag-rules.ts";
import type { CompiledToolPolicy, ToolPolicy } from "./tool-policy.ts";
import { type Layer, layers } from "./verdict.ts";
import type { ToolVisibilityPolicy } from "./visibility.ts";

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
  readonly layers: readonly Layer[];
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
    layers: layers.filter((layer) => isConfigured(layer, options)),
    tools: {
      allowed: tools.allowed === undefined ? undefined : patternSet(tools.allowed),
      denied: patternSet(tools.denied ?? []),
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

function isConfigured(layer: Layer, { tools, gates, rules, visibility, budgets }: PolicyOptions): boolean {
  switch (layer) {
    case "tool-policy":
      return tools?.allowed !== undefined || some(tools?.denied) || some(tools?.requireTags);
    case "gates":
      return some(gates);
    case "tag-rules":
      return some(rules);
    case "visibility":
      return visibility !== undefined;
    case "budget":
      return some(Object.keys(budgets ?? {}));
    case "actor":
    case "approval":
      return true;
  }
}

function some(list: readonly unknown[] | undefined): boolean {
  return list !== undefined && list.length > 0;
}
