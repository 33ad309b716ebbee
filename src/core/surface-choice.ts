import type { LoadingMode } from "./action.ts";

/**
 * - `fts`: by words, ranked
 * - `regex`: a regular expression over names, descriptions and tags
 * - `exact`: the whole name, alias, description or a tag, ignoring case
 * - `semantic`: by meaning, if an embedder is configured
 * - `hybrid`: by words and by meaning, in one merged list
 */
export const searchTypes = ["fts", "regex", "exact", "semantic", "hybrid"] as const;
export type SearchType = (typeof searchTypes)[number];
export const surfaceKinds = ["universal", "deferred", "flat", "auto"] as const;
export type SurfaceKind = (typeof surfaceKinds)[number];
export const selections = ["none", "enum", "promote"] as const;

/**
 * Helps a model with exact names. On the universal surface, `enum` lists the names it was shown in the schema, and `promote`
 * makes them tools. On the deferred surface, `promote` makes tools of what `tool_get` returned, for libraries that let a
 * model call only listed tools.
 */
export type SurfaceSelection = (typeof selections)[number];
export const activationScopes = ["run", "session"] as const;

/** How long an activated action stays a tool: for one turn or for the session. */
export type ActivationScope = (typeof activationScopes)[number];

/** The hot list before anything is used. A caller gets those it sees. */
export const hotListSeed: readonly string[] = [
  "file__read",
  "file__list",
  "file__grep",
  "file__glob",
  "file__write",
  "mcp__search_registry",
  "mcp__install_registry",
  "mcp__install_package",
  "mcp__list_tools",
  "mcp__call_tool",
];

export const modelTiers = ["light", "strong"] as const;

/** How much help a model needs to use the tools. `light`: a weak model that is told each step. */
export type ModelTier = (typeof modelTiers)[number];

/** The tools a model is shown. An actor inherits the fields it leaves out from the installation. */
export interface SurfaceChoice {
  readonly kind?: SurfaceKind;
  /** For `auto`: the most tokens of schemas to show directly. */
  readonly tokenBudget?: number;
  readonly selection?: SurfaceSelection;
  /** For `universal`: how many of the most used actions are also shown as tools. */
  readonly hotListN?: number;
  readonly hotListSeed?: readonly string[];
  /** For `deferred`: the loading mode of actions that declare none. */
  readonly defaultLoadingMode?: LoadingMode;
  /** For `deferred`: names or globs of actions always shown from the start. */
  readonly alwaysLoadedPatterns?: readonly string[];
  readonly activationScope?: ActivationScope;
}
