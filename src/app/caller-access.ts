import type { Catalog } from "../catalog/catalog.ts";
import { addLiveResources, type CatalogSnapshot } from "../catalog/snapshot.ts";
import { createView, findTarget, type View } from "../catalog/view.ts";
import type { Action, ActionProvenance } from "../core/action.ts";
import { yieldToEventLoop } from "../core/async.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { SYSTEM_SESSION } from "../core/events.ts";
import { getOrCreate, type JsonObject } from "../core/json.ts";
import { LruMap } from "../core/lru-map.ts";
import { findNearest } from "../core/nearest.ts";
import type { ResourceAccess } from "../core/resource-access.ts";
import { type ActorProblem, type CompiledActor, findActorProblems, isOwner } from "../policy/actors.ts";
import { type Access, decide, evaluateAccess, hasSharedAccess, type PolicyDecision } from "../policy/decide.ts";
import { type Explanation, explain } from "../policy/explain.ts";
import type { Policy } from "../policy/policy.ts";
import { type CallerOptions, callerSchema, checkOptions } from "./options.ts";

/** The host's description of a caller, checked and with defaults. Throws `invalid_config`. */
export function parseCaller(caller: CallerOptions | undefined): Caller {
  if (caller !== undefined) checkOptions(callerSchema, "caller", caller);
  return applyCallerDefaults(caller);
}

export const applyCallerDefaults = (caller: CallerOptions = {}): Caller => ({
  ...caller,
  actor: caller.actor ?? "default",
  session: caller.session ?? "local",
});

export function requireActor(policy: Policy, actor: string): CompiledActor {
  const known = policy.actors.get(actor);
  if (known !== undefined) return known;
  throw createUnknownActorError(actor, [...policy.actors.keys()]);
}

export function createUnknownActorError(actor: string, known: readonly string[]): QmError {
  const near = findNearest(actor, known);
  const hint = near === undefined ? `Known actors: ${known.join(", ")}.` : `Did you mean ${near}?`;
  return new QmError("unknown_actor", `no actor ${JSON.stringify(actor)} is configured`, { hint });
}

type DecisionBasis = { readonly policy: Policy; readonly snapshot: CatalogSnapshot };
const PAIR_LIMIT = 20_000;
const PAIRS_PER_TURN = 100;
const LISTED_CHANGES = 20;

/** Remembers policy and actions as they are now. The returned function lists the decisions that are less strict by then. */
export function watchDecisions(getBasis: () => DecisionBasis): () => Promise<readonly string[]> {
  const before = getBasis();
  return () => findOpenedActions(before, getBasis());
}

/** Compares the decisions on known actors and actions, a bounded number, and lets other work run in between. */
async function findOpenedActions(before: DecisionBasis, after: DecisionBasis): Promise<readonly string[]> {
  const found: string[] = [];
  let compared = 0;
  const actors = [...after.policy.actors.keys()].filter((actor) => before.policy.actors.has(actor));
  for (const actor of actors) {
    // The session matches no caller: rules about one person or tenant cannot be tried for all of them.
    const caller = { actor, session: "" };
    for (const { name } of after.snapshot.actions) {
      if (before.snapshot.get(name) === undefined) continue;
      if (compared === PAIR_LIMIT) return limitChanges(found, `only ${PAIR_LIMIT} decisions were compared`);
      if (++compared % PAIRS_PER_TURN === 0) await yieldToEventLoop();
      const was = describeDecision(explain(before.policy, before.snapshot, name, caller));
      const is = describeDecision(explain(after.policy, after.snapshot, name, caller));
      if (decisionOrder.indexOf(is) > decisionOrder.indexOf(was))
        found.push(`${name} was ${was} for the actor ${actor} and is ${is}`);
    }
  }
  return limitChanges(found);
}

const decisionOrder = ["hidden", "denied", "asked about", "allowed"] as const;

function describeDecision({ visible, decision }: Explanation): (typeof decisionOrder)[number] {
  if (!visible) return "hidden";
  return decision === "allow" ? "allowed" : decision === "ask" ? "asked about" : "denied";
}

function limitChanges(found: readonly string[], ...notes: readonly string[]): readonly string[] {
  const more = found.length > LISTED_CHANGES ? [`${found.length - LISTED_CHANGES} more decisions are less strict`] : [];
  return [...found.slice(0, LISTED_CHANGES), ...more, ...notes];
}

const describeProblems = (problems: readonly ActorProblem[]): string =>
  problems.map(({ message }) => message).join("; ");
const VIEW_LIMIT = 128;
const ACTOR_LIMIT = 16;

interface DecisionCache {
  /** The policy and the state of its gates. */
  readonly basis: readonly unknown[];
  readonly views: Map<string, View>;
  /** By actor: the decisions that are the same for all of its callers. */
  readonly access: Map<string, Map<Action, Access>>;
  /** By actor. A refused caller may try again and again. */
  readonly problems: Map<string, string>;
}

export interface Views {
  /** Throws `unknown_actor`, and `invalid_config` if the actor lists an action that it cannot have. */
  check(policy: Policy, caller: Caller): void;
  /** The caller's actions and `live`. Throws as `check` does, and `invalid_arguments` for the system's session. */
  get(policy: Policy, caller: Caller, live?: readonly Action[]): View;
  /** Whether an action is ready and a call of it without arguments would be allowed without approval. */
  isRunnable(policy: Policy, caller: Caller, action: Action): boolean;
  /** The decision on a call, without making it. Undefined: the caller does not see the action. */
  decide(policy: Policy, caller: Caller, name: string, args: JsonObject): PolicyDecision | undefined;
  explain(policy: Policy, caller: Caller, name: string): Explanation;
  /** The policy's decision on a resource, before it is used by its handle. */
  access(policy: Policy, caller: Caller, resource: Action): ResourceAccess;
  /** Whether the caller may use every action that a resource was made from. Decides once for each action. */
  mayUseAll(policy: Policy, caller: Caller, madeFrom: ActionProvenance): boolean;
  /** Another value whenever `access` may answer differently. */
  rights(policy: Policy): unknown;
}

/**
 * Caches views by caller until the policy, the catalog or a gate changes: a view checks every action once, and a model
 * lists page after page. All sessions that the rules cannot tell apart share one. With a visibility policy of the host
 * nothing is cached, because a kill switch must act at once.
 */
export function createViews(catalog: Pick<Catalog, "snapshot">): Views {
  /** By snapshot, so that a former one can be collected. */
  const caches = new WeakMap<CatalogSnapshot, DecisionCache>();
  const decisions = new WeakMap<View, Map<string, boolean>>();
  /** A host's own policy may answer differently each time, so its answers are cached until the next await. */
  let asked: { readonly policy: Policy; readonly caller: Caller; readonly answers: Map<string, boolean> } | undefined;

  function getAnswers(policy: Policy, caller: Caller): Map<string, boolean> {
    if (policy.visibility === undefined) {
      const view = findView(policy, caller);
      const answers = decisions.get(view) ?? new Map<string, boolean>();
      decisions.set(view, answers);
      return answers;
    }
    if (asked?.policy === policy && asked.caller === caller) return asked.answers;
    asked = { policy, caller, answers: new Map() };
    queueMicrotask(() => {
      asked = undefined;
    });
    return asked.answers;
  }

  function mayUseAll(policy: Policy, caller: Caller, { actions, maker }: ActionProvenance): boolean {
    const answers = getAnswers(policy, caller);
    const snapshot = catalog.snapshot();
    return actions.every((name) => {
      const action = snapshot.get(name);
      if (action === undefined) return isOwner(maker, caller);
      const known = answers.get(action.name);
      if (known !== undefined) return known;
      const answer = decide(policy, { action, target: findTarget(snapshot, action), caller }).kind !== "deny";
      answers.set(action.name, answer);
      return answer;
    });
  }

  const canReach = (policy: Policy, caller: Caller, { madeFrom }: Action): boolean =>
    madeFrom === undefined || mayUseAll(policy, caller, madeFrom);

  /** The same cache while nothing that decisions without arguments depend on has changed. */
  function getCache(policy: Policy): DecisionCache {
    const snapshot = catalog.snapshot();
    const basis = [policy, ...policy.gates.map((gate) => gate.shut())];
    const known = caches.get(snapshot);
    if (known?.basis.length === basis.length && basis.every((part, index) => part === known.basis[index])) return known;
    const cache: DecisionCache = {
      basis,
      views: new LruMap(VIEW_LIMIT),
      access: new LruMap(ACTOR_LIMIT),
      problems: new Map(),
    };
    caches.set(snapshot, cache);
    return cache;
  }

  /** Decides on an action once for all callers of an actor, unless it depends on more than the actor. */
  function createEvaluator(policy: Policy, caller: Caller, snapshot: CatalogSnapshot) {
    const evaluate = (action: Action) =>
      evaluateAccess(policy, { action, target: findTarget(snapshot, action), caller });
    // Otherwise all callers of an actor share one view.
    if (!policy.ruleIndex.readsCaller) return evaluate;
    const shared = getOrCreate(getCache(policy).access, caller.actor, () => new Map<Action, Access>());
    const listed = catalog.snapshot();
    const isShared = (action: Action | undefined): boolean =>
      action === undefined || (listed.get(action.name) === action && hasSharedAccess(policy, action));
    return (action: Action): Access => {
      const known = shared.get(action);
      if (known !== undefined) return known;
      const access = evaluate(action);
      if (isShared(action) && isShared(findTarget(snapshot, action))) shared.set(action, access);
      return access;
    };
  }

  function findView(policy: Policy, caller: Caller, live: readonly Action[] = []): View {
    const reached = live.filter((resource) => canReach(policy, caller, resource));
    const snapshot = reached.length === 0 ? catalog.snapshot() : addLiveResources(catalog.snapshot(), reached);
    const { world } = requireActor(policy, caller.actor);
    const create = () => createView(snapshot, createEvaluator(policy, caller, snapshot), world);
    if (policy.visibility !== undefined || live.length > 0) return create();
    return getOrCreate(getCache(policy).views, policy.ruleIndex.toCallerKey(caller), create);
  }

  function check(policy: Policy, caller: Caller): void {
    const actor = requireActor(policy, caller.actor);
    const problems = getOrCreate(getCache(policy).problems, actor.name, () =>
      describeProblems(findActorProblems(actor, [...policy.actors.values()], catalog.snapshot())),
    );
    if (problems === "") return;
    const hint = "An operator must correct the actor's tools. {qm doctor} shows how.";
    throw new QmError("invalid_config", problems, { hint });
  }

  return {
    check,
    get(policy, caller, live) {
      check(policy, caller);
      if (caller.session === SYSTEM_SESSION) {
        const message = `the session ${SYSTEM_SESSION} is reserved for the system's own events`;
        throw new QmError("invalid_arguments", message, { hint: "Use another session." });
      }
      return findView(policy, caller, live);
    },
    isRunnable(policy, caller, action) {
      const question = { action, target: findTarget(catalog.snapshot(), action), caller, args: {} };
      return (action.readiness?.() ?? "ready") === "ready" && decide(policy, question).kind === "allow";
    },
    decide(policy, caller, name, args) {
      const action = findView(policy, caller).get(name);
      const decision =
        action && decide(policy, { action, target: findTarget(catalog.snapshot(), action), caller, args });
      return decision?.kind === "deny" && decision.hidden ? undefined : decision;
    },
    explain(policy, caller, name) {
      const explained = explain(policy, catalog.snapshot(), name, caller);
      if (!explained.visible || findView(policy, caller).get(explained.action) !== undefined) return explained;
      const rule = "it serves other actions, and the caller sees none of them";
      return { ...explained, visible: false, decision: "deny", because: { layer: "visibility", rule } };
    },
    mayUseAll,
    rights: (policy) => (policy.visibility === undefined ? getCache(policy) : {}),
    access(policy, caller, resource) {
      if (!canReach(policy, caller, resource)) return "hidden";
      const view = addLiveResources(catalog.snapshot(), [resource]);
      const action = view.get(resource.name);
      if (action === undefined) return "hidden";
      const decision = decide(policy, { action, target: findTarget(view, action), caller, args: {} });
      if (decision.kind === "allow") return "allowed";
      if (decision.hidden) return "hidden";
      return { refused: decision.objection.reason, ...(decision.kind === "ask" ? { asks: true } : {}) };
    },
  };
}
