import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { canonicalJson, getOrCreate } from "../core/json.ts";
import { LruMap } from "../core/lru-map.ts";
import { type CallFacts, toCallerFacts, toToolFacts } from "./call-facts.ts";
import type { ApplicableRule, CompiledTagRule } from "./tag-rules.ts";

export interface RuleIndex {
  /** The rules that can be true for the action, in their order. Evaluates each rule once for each action. */
  findRules(action: Action): readonly ApplicableRule[];
  /** Whether, while nothing is called, the rules can tell two callers with the same actor apart. */
  readonly readsCaller: boolean;
  /** The same text for callers that the rules cannot tell apart while nothing is called. */
  toCallerKey(caller: Caller): string;
}

const KIND_LIMIT = 1000;
/** A rule that needs more work is evaluated in each decision, on the decision's budget. */
const SETTLE_LIMIT = 20_000;

/** Caches by action object in the compiled policy: a new catalog and a new policy start anew. */
export function createRuleIndex(rules: readonly CompiledTagRule[]): RuleIndex {
  const all = rules.map((rule) => ({ rule, isSettled: false }));
  const byKind = new LruMap<string, readonly ApplicableRule[]>(KIND_LIMIT);
  const byAction = new WeakMap<Action, readonly ApplicableRule[]>();
  const callerFields = listCallerFields(rules);

  /** Evaluates what many actions have in common once for all of them. */
  function settleRules(action: Action): readonly ApplicableRule[] {
    const found = getOrCreate(byKind, toKind(action), () => settle(all, createKindFacts(action)));
    const isOpen = ({ rule, isSettled }: ApplicableRule): boolean => !isSettled && readsName(rule);
    if (!found.some(isOpen)) return found;
    const facts = createActionFacts(action);
    return found.flatMap((each) => (isOpen(each) ? settle([each], facts) : [each]));
  }

  return {
    findRules: (action) => (all.length === 0 ? all : getOrCreate(byAction, action, () => settleRules(action))),
    readsCaller: callerFields.length > 0,
    toCallerKey(caller) {
      if (callerFields.length === 0) return caller.actor;
      const ctx = toCallerFacts(caller);
      return canonicalJson([caller.actor, ...callerFields.map((field) => ctx[field])]);
    },
  };
}

function settle(rules: readonly ApplicableRule[], facts: CallFacts): readonly ApplicableRule[] {
  return rules.flatMap(({ rule }) => {
    const answer = rule.condition.answer(facts, { left: SETTLE_LIMIT });
    return answer === false ? [] : [{ rule, isSettled: answer === true }];
  });
}

const readsName = ({ condition }: CompiledTagRule): boolean =>
  condition.reads.some(
    ({ variable, field }) => variable === "tool" && (field === undefined || field === "name" || field === "entry"),
  );

type CallerField = keyof ReturnType<typeof toCallerFacts>;

/** The fields of `ctx` that rules without arguments read. */
function listCallerFields(rules: readonly CompiledTagRule[]): readonly CallerField[] {
  const reads = rules.flatMap(({ aboutArgs, condition }) => (aboutArgs ? [] : condition.reads));
  const fields = new Set(reads.flatMap(({ variable, field }) => (variable === "ctx" ? [field] : [])));
  const known = Object.keys(toCallerFacts({ actor: "", session: "" })) as readonly CallerField[];
  return fields.has(undefined) ? known : known.filter((field) => fields.has(field));
}

/** What `createKindFacts` tells of an action, as a text. */
function toKind({ category, effect, tags, scope, routing, idempotent, peerExposed }: Action): string {
  const list = tags.length === 0 ? "[]" : JSON.stringify(tags);
  return `${effect} ${scope} ${routing} ${idempotent} ${peerExposed} ${list} ${category}`;
}

/**
 * The facts of an action without a call. Reading any other fact fails. In CEL, `&&` and `||` ignore the failure of one side
 * if the other side decides, so an answer is the answer for every caller and all arguments.
 */
class PartialFacts implements CallFacts {
  readonly tool: unknown;

  constructor(tool: unknown) {
    this.tool = tool;
  }

  get actor() {
    return failAsUnknown();
  }

  get ctx() {
    return failAsUnknown();
  }

  get args() {
    return failAsUnknown();
  }
}

/** Without the world, which depends on the actor, too. */
const createActionFacts = (action: Action): CallFacts =>
  new PartialFacts({
    ...toToolFacts(action),
    get world() {
      return failAsUnknown();
    },
  });

/** Without what distinguishes actions of one kind. */
const createKindFacts = (action: Action): CallFacts =>
  new PartialFacts({
    ...toToolFacts(action),
    get name() {
      return failAsUnknown();
    },
    get entry() {
      return failAsUnknown();
    },
    get world() {
      return failAsUnknown();
    },
  });

// Created once, because creating an error is expensive.
const UNKNOWN_FACT = new Error("the fact is not known yet");

function failAsUnknown(): never {
  throw UNKNOWN_FACT;
}
