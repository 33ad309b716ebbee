import type { Action, ActionOwner } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { JsonObject } from "../core/json.ts";
import { createPatternSet, listSpellings, type PatternSet } from "../core/name-patterns.ts";
import { didYouMean } from "../core/nearest.ts";
import type { SurfaceChoice } from "../core/surface-choice.ts";
import type { Objection } from "./objection.ts";

/** A named configuration that callers act under. */
export interface ActorConfig {
  readonly name: string;
  /** Names or globs. A specialist tool is seen only by the one actor that lists it by name. */
  readonly tools: readonly string[];
  /** A word of the installation's own for rules to speak of, as in `actor.scope != 'admin'`. */
  readonly scope?: string;
  /** Further facts for rules: `actor.<key>`. */
  readonly attributes?: JsonObject;
  /** Where its model is shown something else than the installation's default. */
  readonly surface?: SurfaceChoice;
}

export interface CompiledActor {
  readonly name: string;
  readonly tools: PatternSet;
  readonly facts: JsonObject;
  readonly surface: SurfaceChoice;
}

export const DEFAULT_ACTOR: ActorConfig = { name: "default", tools: ["*"] };

export function compileActor({ name, tools, scope, attributes, surface = {} }: ActorConfig): CompiledActor {
  return { name, tools: createPatternSet(tools), facts: { ...attributes, name, scope: scope ?? "" }, surface };
}

export function checkActor(
  actors: ReadonlyMap<string, CompiledActor>,
  action: Action,
  caller: Caller,
): Objection | undefined {
  const { actor: actorName } = caller;
  const actor = actors.get(actorName);
  if (actor === undefined) return hideFromActor(`no actor ${JSON.stringify(actorName)} is configured`);
  if (action.owner !== undefined && !isOwner(action.owner, caller))
    return hideFromActor("it belongs to another caller");
  if (action.scope === "specialist") {
    const owners = findOwners(actors.values(), action);
    if (!owners.includes(actor))
      return hideFromActor("a specialist tool is seen only by the actor that lists it by name");
    return owners.length === 1
      ? undefined
      : hideFromActor(`it is listed by ${joinNames(owners)}, and can belong to one actor only`);
  }
  return actor.tools.findMatch(action) === undefined
    ? hideFromActor(`not among the tools of actor ${actorName}`)
    : undefined;
}

/** What keeps an actor from starting: it names what does not exist, or what is another's. `all` are those configured. */
export function findActorProblems(
  actor: CompiledActor,
  all: readonly CompiledActor[],
  actions: readonly Action[],
): readonly string[] {
  const known = new Set(actions.flatMap(listSpellings));
  const unknown = [...actor.tools.exact].filter((name) => !known.has(name));
  const shared = actions
    .filter((action) => action.scope === "specialist" && actor.tools.listsByName(action))
    .map((action) => ({ action, owners: findOwners(all, action) }))
    .filter(({ owners }) => owners.length > 1);
  return [
    ...unknown.map(
      (name) => `actor ${actor.name} lists ${JSON.stringify(name)}, which does not exist${didYouMean(name, known)}`,
    ),
    ...shared.map(
      ({ action, owners }) =>
        `specialist ${action.name} is listed by ${joinNames(owners)}; it can belong to one actor only`,
    ),
  ];
}

/** Whether a caller is one that the owner names. */
export function isOwner(owner: ActionOwner, { tenant, user, actor, session }: Caller): boolean {
  const has: Required<ActionOwner> = { tenant: tenant ?? "", user: user?.id ?? "", actor, session };
  return (Object.keys(has) as (keyof ActionOwner)[]).every(
    (key) => owner[key] === undefined || owner[key] === has[key],
  );
}

function findOwners(actors: Iterable<CompiledActor>, action: Action): readonly CompiledActor[] {
  return [...actors].filter((actor) => actor.tools.listsByName(action));
}

function joinNames(actors: readonly CompiledActor[]): string {
  return actors.map(({ name }) => name).join(" and ");
}

function hideFromActor(rule: string): Objection {
  return { layer: "actor", effect: "hide", rule, reason: "It is not available to you." };
}
