import type { LoadingMode } from "./action.ts";

/**
 * - `fts`: by words, ranked
 * - `regex`: a regular expression over names, descriptions and tags
 * - `exact`: the whole name, alias, description or a tag, whatever the case
 * - `semantic`: by meaning, where an embedder is there
 * - `hybrid`: by words and by meaning, the two lists made one
 */
export const searchTypes = ["fts", "regex", "exact", "semantic", "hybrid"] as const;

export type SearchType = (typeof searchTypes)[number];

export const surfaceKinds = ["universal", "deferred", "flat", "auto"] as const;

/** Which set of tools a model is shown. */
export type SurfaceKind = (typeof surfaceKinds)[number];

export const selections = ["none", "enum", "promote"] as const;

/**
 * How a model is spared writing names by heart. On the universal surface, `enum` lists the names it was shown where one
 * is asked for, and `promote` makes them tools of their own; on the deferred one, `promote` shows what `tool_get` gave
 * before it is called, for libraries that let a model call nothing else.
 */
export type SurfaceSelection = (typeof selections)[number];

export const activationScopes = ["run", "session"] as const;

/** How long an activated action stays a tool of its own: for one model loop, or for the conversation. */
export type ActivationScope = (typeof activationScopes)[number];

/** What a model is shown. Everything is optional; what an actor leaves out is as the installation says. */
export interface SurfaceChoice {
  readonly kind?: SurfaceKind;
  /** For `auto`: how many tokens of schemas may be shown as they are. */
  readonly tokenBudget?: number;
  readonly selection?: SurfaceSelection;
  /** For `universal`: so many of the actions most used are shown as tools of their own. */
  readonly hotListN?: number;
  /** For `universal`: what the hot list holds until something else is used more. */
  readonly hotListSeed?: readonly string[];
  /** For `deferred`: whether an action that does not say is shown from the start. */
  readonly defaultLoadingMode?: LoadingMode;
  /** For `deferred`: names or globs of actions that are shown from the start, whatever they say. */
  readonly alwaysLoadedPatterns?: readonly string[];
  readonly activationScope?: ActivationScope;
}
