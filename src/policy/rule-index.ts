import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { canonicalJson, getOrCreate } from "../core/json.ts";
import { LruMap } from "../core/lru-map.ts";
import { type CallFacts, toCallerFacts, toToolFacts } from "./call-facts.ts";
import type { ApplicableRule, CompiledTagRule } from "./tag-rules.ts";

export interface RuleIndex {
  /** The rules that can be true for the action, in their order. Evaluates each rule once for each action. */
  findRules(action: Action): readonly ApplicableRule[];
  /** The same text for callers that the rules cannot tell apart while nothing is called. */
  toCallerKey(caller: Caller): string;
}

const KIND_LIMIT = 1000;
/** A rule that needs more work is evaluated in each decision, on the decision's budget. */
const SETTLE_LIMIT = 20_000;

/** Caches by action object, so a new catalog starts anew, and in the compiled policy, so a new policy does. */
export function createRuleIndex(rules: readonly CompiledTagRule[]): RuleIndex {
  const byAction = new WeakMap<Action, readonly ApplicableRule[]>();
  const entries = rules.map((rule) => {
    const reads = readFields(rule, "tool");
    return {
      rule,
      // An action's world depends on the actor.
      dependsOnActor: reads.has(undefined) || reads.has("world"),
      isByName: reads.has("name") || reads.has("entry"),
      byKind: new LruMap<string, Answer>(KIND_LIMIT),
    };
  });
  const needsKind = entries.some(({ isByName }) => !isByName);
  const callerFields = listCallerFields(rules);

  function settleRules(action: Action): readonly ApplicableRule[] {
    const facts = createActionFacts(action);
    const kind = needsKind ? toKind(facts.tool) : "";
    return entries.flatMap(({ rule, dependsOnActor, isByName, byKind }): readonly ApplicableRule[] => {
      if (dependsOnActor) return [{ rule, isSettled: false }];
      const settle = (): Answer => rule.condition.answer(facts, { left: SETTLE_LIMIT }) ?? "open";
      const answer = isByName ? settle() : getOrCreate(byKind, kind, settle);
      return answer === false ? [] : [{ rule, isSettled: answer === true }];
    });
  }

  return {
    findRules: (action) => (rules.length === 0 ? [] : getOrCreate(byAction, action, () => settleRules(action))),
    toCallerKey(caller) {
      const ctx: Readonly<Record<string, unknown>> = toCallerFacts(caller);
      return canonicalJson([caller.actor, ...callerFields.map((field) => ctx[field])]);
    },
  };
}

type Answer = boolean | "open";

const readFields = ({ condition }: CompiledTagRule, variable: string): ReadonlySet<string | undefined> =>
  new Set(condition.reads.flatMap((read) => (read.variable === variable ? [read.field] : [])));

/** The fields of `ctx` that rules without arguments read. */
function listCallerFields(rules: readonly CompiledTagRule[]): readonly string[] {
  const read = new Set(rules.flatMap((rule) => (rule.aboutArgs ? [] : [...readFields(rule, "ctx")])));
  return Object.keys(toCallerFacts({ actor: "", session: "" })).filter(
    (field) => read.has(field) || read.has(undefined),
  );
}

/** The facts that many actions share. */
function toKind({ category, effect, tags, scope, routing, idempotent, peer_exposed }: ToolFacts): string {
  return JSON.stringify([category, effect, scope, routing, idempotent, peer_exposed, tags]);
}

type ToolFacts = ReturnType<typeof toToolFacts>;

/**
 * The facts of an action without a call. Reading another fact fails. CEL's `&&` and `||` ignore the failure of one side if
 * the other side decides, so an answer is the answer for every caller and all arguments.
 */
const createActionFacts = (action: Action): CallFacts & { readonly tool: ToolFacts } => ({
  tool: toToolFacts(action),
  get actor() {
    return failAsUnknown();
  },
  get ctx() {
    return failAsUnknown();
  },
  get args() {
    return failAsUnknown();
  },
});

// Created once, because creating an error is expensive.
const UNKNOWN_FACT = new Error("the fact is not known yet");

function failAsUnknown(): never {
  throw UNKNOWN_FACT;
}
