import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { getOrCreate, type JsonObject } from "../core/json.ts";
import type { CompiledActor } from "./actors.ts";

/** The variables of an expression, as `CALL_VARIABLES` names them. */
export type CallFacts = Readonly<Record<"tool" | "actor" | "ctx" | "args", unknown>>;

export function toCallFacts(action: Action, caller: Caller, actor: CompiledActor | undefined, args: JsonObject = {}) {
  const world = actor?.world?.has(action) === true ? actor.world.name : "";
  const tool = toToolFacts(action);
  return {
    tool: world === "" ? tool : { ...tool, world },
    actor: actor?.facts ?? { name: caller.actor, scope: "", world: "" },
    ctx: toCallerFacts(caller),
    args,
  };
}

export function toCallerFacts({ session, turn = "", user = { id: "" }, person = "", tenant = "", hops = 0 }: Caller) {
  return { session, turn, user, person, tenant, hops };
}

const toolFactsCache = new WeakMap<Action, JsonObject>();

export const toToolFacts = (action: Action): JsonObject =>
  getOrCreate(toolFactsCache, action, () => createToolFacts(action));

function createToolFacts({ name, category, entry, effect, tags, scope, routing, idempotent, peerExposed }: Action) {
  return { name, category, entry, effect, tags, scope, routing, idempotent, peer_exposed: peerExposed, world: "" };
}
