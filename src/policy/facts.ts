import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { JsonObject } from "../core/json.ts";
import type { CompiledActor } from "./actors.ts";

/** What an expression may speak of, as `CALL_VARIABLES` names it. */
export type Facts = Readonly<Record<"tool" | "actor" | "ctx" | "args", unknown>>;

export function factsOf(action: Action, caller: Caller, actor: CompiledActor | undefined, args?: JsonObject): Facts {
  return {
    tool: toolFacts(action),
    actor: actor?.facts ?? { name: caller.actor, scope: "" },
    ctx: callerFacts(caller),
    args: args ?? {},
  };
}

const known = new WeakMap<Action, JsonObject>();

function toolFacts(action: Action): JsonObject {
  let facts = known.get(action);
  if (facts === undefined) {
    const { name, category, entry, effect, tags, scope, routing, idempotent, peerExposed } = action;
    facts = { name, category, entry, effect, tags, scope, routing, idempotent, peer_exposed: peerExposed };
    known.set(action, facts);
  }
  return facts;
}

function callerFacts({ session, turn, user, person, tenant }: Caller): JsonObject {
  return { session, turn: turn ?? "", user: user ?? { id: "" }, person: person ?? "", tenant: tenant ?? "" };
}
