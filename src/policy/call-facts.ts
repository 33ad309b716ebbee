import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { JsonObject } from "../core/json.ts";
import type { CompiledActor } from "./actors.ts";

/** What an expression may speak of, as `CALL_VARIABLES` names it. */
export type CallFacts = Readonly<Record<"tool" | "actor" | "ctx" | "args", unknown>>;

export function toCallFacts(
  action: Action,
  caller: Caller,
  actor: CompiledActor | undefined,
  args?: JsonObject,
): CallFacts {
  return {
    tool: toToolFacts(action),
    actor: actor?.facts ?? { name: caller.actor, scope: "" },
    ctx: toCallerFacts(caller),
    args: args ?? {},
  };
}

const toolFactsCache = new WeakMap<Action, JsonObject>();

function toToolFacts(action: Action): JsonObject {
  let facts = toolFactsCache.get(action);
  if (facts === undefined) {
    const { name, category, entry, effect, tags, scope, routing, idempotent, peerExposed } = action;
    facts = { name, category, entry, effect, tags, scope, routing, idempotent, peer_exposed: peerExposed };
    toolFactsCache.set(action, facts);
  }
  return facts;
}

function toCallerFacts({ session, turn, user, person, tenant }: Caller): JsonObject {
  return { session, turn: turn ?? "", user: user ?? { id: "" }, person: person ?? "", tenant: tenant ?? "" };
}
