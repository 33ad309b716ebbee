import type { Action, ActionOwner } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { JsonObject } from "../core/json.ts";
import { createPatternSet, listSpellings, type PatternSet } from "../core/name-patterns.ts";
import { didYouMean } from "../core/nearest.ts";
import type { ModelTier, SurfaceChoice } from "../core/surface-choice.ts";
import type { Budgets } from "./budget.ts";
import type { Objection } from "./objection.ts";
import type { CompiledWorld } from "./worlds.ts";

export interface ActorConfig {
  readonly name: string;
  /** Names, globs, or `tag:<tag>`. A specialist tool is seen only by the one actor that lists it by name. */
  readonly tools: readonly string[];
  /** A word for rules, as in `actor.scope != 'admin'`. */
  readonly scope?: string;
  /** Further facts for rules: `actor.<key>`. */
  readonly attributes?: JsonObject;
  /** Overrides the installation's surface. */
  readonly surface?: SurfaceChoice;
  /** Absent: the policy's `world`. `null`: none. */
  readonly world?: string | null;
  /** The name of the model that answers when the actor is called. Absent: `default`. */
  readonly model?: string;
  /** The part of its system prompt about its task. */
  readonly instructions?: string;
  /** Its purpose, as its callers see it. */
  readonly description?: string;
  /** Whether the clients of our A2A endpoint can call it. */
  readonly exposed?: boolean;
  readonly tier?: ModelTier;
  /** The most requests to the model in one turn. Absent: 20. */
  readonly maxSteps?: number;
  /** Further limits, for what this actor uses. */
  readonly budgets?: Budgets;
}

export interface CompiledActor {
  readonly name: string;
  readonly tools: PatternSet;
  readonly facts: JsonObject;
  readonly surface: SurfaceChoice;
  readonly world: CompiledWorld | undefined;
  readonly settings: ActorSettings;
}

/** The settings of an actor's turns, besides its view. */
export type ActorSettings = Pick<
  ActorConfig,
  "model" | "instructions" | "description" | "exposed" | "tier" | "maxSteps" | "budgets"
>;

export const DEFAULT_ACTOR: ActorConfig = { name: "default", tools: ["*"] };
export const compileActor = (
  { name, tools, scope, attributes, surface = {}, ...rest }: ActorConfig,
  world: CompiledWorld | undefined,
): CompiledActor => ({
  name,
  tools: createPatternSet(tools),
  facts: { ...attributes, name, scope: scope ?? "", world: world?.name ?? "" },
  surface,
  world,
  settings: rest,
});
type Actors = ReadonlyMap<string, CompiledActor>;

export function checkActor(actors: Actors, action: Action, caller: Caller): Objection | undefined {
  const rule = findHidingRule(actors, action, caller);
  if (rule === undefined) return undefined;
  return { layer: "actor", effect: "hide", rule, reason: "It is not available to you." };
}

function findHidingRule(actors: Actors, action: Action, caller: Caller): string | undefined {
  const actor = actors.get(caller.actor);
  if (actor === undefined) return `no actor ${JSON.stringify(caller.actor)} is configured`;
  if (action.owner !== undefined && !isOwner(action.owner, caller)) return "it belongs to another caller";
  if (action.localActor === caller.actor) return "an actor is not a peer of its own";
  if (action.scope === "specialist") {
    const owners = findOwners(actors.values(), action);
    if (!owners.includes(actor)) return "a specialist tool is seen only by the actor that lists it by name";
    return owners.length === 1 ? undefined : `it is listed by ${joinNames(owners)}, and can belong to one actor only`;
  }
  return actor.tools.findMatch(action) === undefined ? `not among the tools of actor ${actor.name}` : undefined;
}

export interface ActorProblem {
  /** For the actor's callers. */
  readonly message: string;
  /** For operators: may name actions and actors that a caller cannot see. */
  readonly details: string;
}

type KnownActions = { readonly actions: readonly Action[]; readonly pending: readonly { readonly prefix: string }[] };

/** Why an actor cannot be used: it lists an unknown tool, or another actor's specialist. `all`: the configured actors. */
export function findActorProblems(
  actor: CompiledActor,
  all: readonly CompiledActor[],
  { actions, pending }: KnownActions,
): readonly ActorProblem[] {
  if (actor.tools.exact.size === 0) return [];
  const known = new Set(actions.flatMap(listSpellings));
  // The names of a source whose actions are not known yet may be right.
  const unknown = [...actor.tools.exact].filter(
    (name) => !known.has(name) && !pending.some(({ prefix }) => name.startsWith(prefix)),
  );
  const shared = actions
    .filter((action) => action.scope === "specialist" && actor.tools.listsByName(action))
    .map((action) => ({ action, owners: findOwners(all, action) }))
    .filter(({ owners }) => owners.length > 1);
  return [
    ...unknown.map((name) => {
      const message = `actor ${actor.name} lists ${JSON.stringify(name)}, which does not exist`;
      return { message, details: message + didYouMean(name, known) };
    }),
    ...shared.map(({ action: { name }, owners }) => ({
      message: `actor ${actor.name} lists the specialist ${name}, which can belong to one actor only`,
      details: `specialist ${name} is listed by ${joinNames(owners)}; it can belong to one actor only`,
    })),
  ];
}

export function isOwner(owner: ActionOwner, { tenant, user, actor, session }: Caller): boolean {
  const own: Required<ActionOwner> = { tenant: tenant ?? "", user: user?.id ?? "", actor, session };
  return (Object.keys(own) as (keyof ActionOwner)[]).every(
    (key) => owner[key] === undefined || owner[key] === own[key],
  );
}

const findOwners = (actors: Iterable<CompiledActor>, action: Action): readonly CompiledActor[] =>
  [...actors].filter((actor) => actor.tools.listsByName(action));
const joinNames = (actors: readonly CompiledActor[]): string => actors.map(({ name }) => name).join(" and ");
