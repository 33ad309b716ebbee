import type { Action } from "../core/action.ts";
import { QmError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import { nearest } from "../core/nearest.ts";
import { type PatternSet, patternSet } from "./patterns.ts";
import type { Objection } from "./verdict.ts";

export type SurfaceKind = "universal" | "flat" | "auto";

/** Which tools a model is shown, and for `auto` how many tokens of schemas it may be shown as they are. */
export interface SurfaceChoice {
  readonly kind?: SurfaceKind;
  readonly tokenBudget?: number;
}

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
  return { name, tools: patternSet(tools), facts: { ...attributes, name, scope: scope ?? "" }, surface };
}

export function actorObjection(
  actors: ReadonlyMap<string, CompiledActor>,
  action: Action,
  actorName: string,
): Objection | undefined {
  const actor = actors.get(actorName);
  if (actor === undefined) return hide(`no actor ${JSON.stringify(actorName)} is configured`);
  if (action.scope === "specialist") {
    return actor.tools.names(action)
      ? undefined
      : hide("a specialist tool is seen only by the actor that lists it by name");
  }
  return actor.tools.matching(action) === undefined ? hide(`not among the tools of actor ${actorName}`) : undefined;
}

/** Fails an actor's start when it names what does not exist, or claims another actor's specialist. */
export function checkActors(actors: Iterable<CompiledActor>, actions: readonly Action[]): void {
  const owners = new Map<string, string>();
  const known = new Set(
    actions.flatMap((action) => (action.category === "tool" ? [action.name, action.entry] : [action.name])),
  );
  const problems: string[] = [];
  const all = [...actors];
  for (const actor of all) {
    for (const name of actor.tools.exact) {
      if (known.has(name)) continue;
      const near = nearest(name, known);
      problems.push(
        `actor ${actor.name} lists ${JSON.stringify(name)}, which does not exist${near === undefined ? "" : `; did you mean ${near}?`}`,
      );
    }
  }
  for (const action of actions) {
    if (action.scope !== "specialist") continue;
    for (const actor of all.filter((each) => each.tools.names(action))) {
      const owner = owners.get(action.name);
      if (owner !== undefined)
        problems.push(
          `specialist ${action.name} is listed by both ${owner} and ${actor.name}; it can belong to one actor only`,
        );
      owners.set(action.name, actor.name);
    }
  }
  if (problems.length > 0) {
    throw new QmError("invalid_config", problems.join("; "), {
      hint: "List existing names, or globs such as file__*. `qm list` shows the names.",
    });
  }
}

function hide(rule: string): Objection {
  return { layer: "actor", effect: "hide", rule, reason: "It is not available to you." };
}
