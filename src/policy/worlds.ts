import type { Action } from "../core/action.ts";
import { QmError } from "../core/errors.ts";
import { omitUndefined } from "../core/json.ts";
import { createPatternSet, type PatternSet } from "../core/name-patterns.ts";
import { quoteName } from "../core/names.ts";
import { didYouMean } from "../core/nearest.ts";
import type { DirectoryGroup, World } from "../core/world.ts";
import type { Objection } from "./objection.ts";

export interface WorldConfig {
  readonly name: string;
  readonly description?: string;
  /** The actions that belong to it, besides its skills: names or globs. */
  readonly actions?: readonly string[];
  /** Groups of the directory for callers in this world, before all others. */
  readonly groups?: readonly DirectoryGroup[];
}

export interface CompiledWorld extends World {
  readonly actions: PatternSet;
}

export type Worlds = ReadonlyMap<string, CompiledWorld>;

export function compileWorld({ name, description, actions: patterns = [], groups = [] }: WorldConfig): CompiledWorld {
  const actions = createPatternSet(patterns);
  const has = (action: Action): boolean => action.world === name || actions.findMatch(action) !== undefined;
  return { name, groups, actions, has, ...omitUndefined({ description }) };
}

/** Throws `invalid_config` for an unknown name. `place`: where the name is written. */
export function requireWorld(
  worlds: Worlds,
  name: string | null | undefined,
  place: string,
): CompiledWorld | undefined {
  if (name === undefined || name === null) return undefined;
  const world = worlds.get(name);
  if (world !== undefined) return world;
  const message = `${place}: no world is called ${quoteName(name)}${didYouMean(name, worlds.keys())}`;
  throw new QmError("invalid_config", message);
}

/** The worlds that an action belongs to. Empty: it is a core action. */
export function listWorlds(worlds: Worlds, action: Action): readonly string[] {
  const names = [...worlds.values()].filter((world) => world.has(action)).map(({ name }) => name);
  // A skill of a world that is no longer configured still belongs to it, so that no caller sees it.
  return action.world === undefined || worlds.has(action.world) ? names : [...names, action.world];
}

/** `own`: the actor's world. */
export function checkWorld(
  worlds: Worlds,
  own: World | undefined,
  action: Action,
  actor: string,
): Objection | undefined {
  if (own?.has(action) === true) return undefined;
  const names = listWorlds(worlds, action);
  const [world] = names;
  if (world === undefined) return undefined;
  const noun = names.length === 1 ? "world" : "worlds";
  const rule = `it belongs to the ${noun} ${names.join(" and ")}; actor ${actor} is in ${own?.name ?? "none"}`;
  return { layer: "world", effect: "hide", rule, reason: "It is not available to you.", world };
}
