import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { JsonObject } from "../core/json.ts";
import type { CompiledActor } from "./actors.ts";

/** The variables of an expression, as `CALL_VARIABLES` names them. */
export type CallFacts = Readonly<Record<"tool" | "actor" | "ctx" | "args", unknown>>;

export function toCallFacts(action: Action, caller: Caller, actor: CompiledActor | undefined, args: JsonObject = {}) {
  const { session, turn = "", user = { id: "" }, person = "", tenant = "", hops = 0 } = caller;
  const ctx = { session, turn, user, person, tenant, hops };
  const world = actor?.world?.has(action) === true ? actor.world.name : "";
  const tool = toToolFacts(action);
  return {
    tool: world === "" ? tool : { ...tool, world },
    actor: actor?.facts ?? { name: caller.actor, scope: "", world: "" },
    ctx,
    args,
  };
}

const toolFactsCache = new WeakMap<Action, JsonObject>();

function toToolFacts(action: Action): JsonObject {
  let facts = toolFactsCache.get(action);
  if (facts === undefined) {
    const { name, category, entry, effect, tags, scope, routing, idempotent, peerExposed } = action;
    facts = { name, category, entry, effect, tags, scope, routing, idempotent, peer_exposed: peerExposed, world: "" };
    toolFactsCache.set(action, facts);
  }
  return facts;
}
