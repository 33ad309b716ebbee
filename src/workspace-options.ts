import { resolve } from "node:path";
import type { LoadedConfig } from "./config/parse.ts";
import { type Environment, resolveReference } from "./config/references.ts";
import type { Config } from "./config/schema.ts";
import type { Duration } from "./core/duration.ts";
import type { SurfaceChoice } from "./core/surface-choice.ts";
import type { InfospaceSettings, SearchSettings } from "./options.ts";
import type { ApprovalSettings } from "./policy/approvers.ts";
import type { PolicyOptions } from "./policy/policy.ts";
import type { RouteRule } from "./routing/rules.ts";

/** The file's policy in the words of the library. */
export function policyOf({ policy, actors, approvals }: Config): PolicyOptions {
  const { allowed, denied, require_tags, rules, budgets } = policy;
  return {
    tools: given({ allowed, denied, requireTags: require_tags }),
    rules: rules.map(({ expires_in, ...rule }) => given({ ...rule, expiresIn: expires_in as Duration | undefined })),
    actors: Object.entries(actors).map(([name, { tools, scope, attributes, surface }]) =>
      given({
        name,
        tools,
        scope,
        attributes,
        surface: surface && surfaceOf(surface),
      }),
    ),
    budgets: given({
      turn: budgets.turn && given(budgets.turn),
      session: budgets.session && given(budgets.session),
      tenant: budgets.tenant && given(budgets.tenant),
    }),
    approvals: approvalsOf(approvals),
  };
}

function approvalsOf(approvals: Config["approvals"]): ApprovalSettings {
  const { expires_in, allow_self, ask_client, max_open, categories, levels } = approvals;
  return {
    expiresIn: expires_in as Duration,
    allowSelf: allow_self,
    askClient: ask_client,
    maxOpen: max_open,
    levels,
    categories: Object.fromEntries(
      Object.entries(categories).map(([category, rule]) => {
        if (typeof rule === "boolean") return [category, rule];
        const { auto_approve_if, level, expires_in } = rule;
        return [
          category,
          given({ autoApproveIf: auto_approve_if, level, expiresIn: expires_in as Duration | undefined }),
        ];
      }),
    ),
  };
}

/** What becomes of calls on their way. */
export function routesOf({ routing }: Pick<Config, "routing">): readonly RouteRule[] {
  return routing.rules.map(({ deadline_ms, retry, ...rule }) =>
    given({
      ...rule,
      deadlineMs: deadline_ms,
      retry: retry && { attempts: retry.attempts, backoffMs: retry.backoff_ms },
    }),
  );
}

export function infospaceOf({ infospace }: Pick<Config, "infospace">): InfospaceSettings {
  const { enabled, expires_in, preview_chars, fill_chars, quota } = infospace;
  return {
    enabled,
    expiresIn: expires_in as Duration,
    previewLimit: preview_chars,
    fillLimit: fill_chars,
    quota,
  };
}

export function surfaceOf(surface: Loose<Config["surface"]>): SurfaceChoice {
  return given({
    kind: surface.kind,
    tokenBudget: surface.token_budget,
    selection: surface.selection,
    hotListN: surface.hot_list_n,
    hotListSeed: surface.hot_list_seed,
    defaultLoadingMode: surface.default_loading_mode,
    alwaysLoadedPatterns: surface.always_loaded_patterns,
    activationScope: surface.activation_scope,
  });
}

/** Where a configuration keeps vectors apart from the store. */
export function indexPathOf({ config, folder }: LoadedConfig, env: Environment): string | undefined {
  const { path } = config.search.index;
  return path === undefined ? undefined : resolve(folder, resolveReference(path, env, "search.index.path"));
}

/** How actions are found, and of vectors where they are and whether any are made unasked. */
export function searchOf(
  { config, folder }: LoadedConfig,
  env: Environment,
  index: { readonly path: string | undefined; readonly background: boolean },
): SearchSettings {
  const { search } = config;
  const filled = (text: string | undefined, key: string) =>
    text === undefined ? undefined : resolveReference(text, env, `search.${key}`);
  return given({
    enabled: search.enabled,
    maxResults: search.max_results,
    preferredNamespaces: search.preferred_namespaces,
    embedder: embedderOf(search.embedder, folder, filled),
    embedderTimeoutMs: search.embedder.timeout_ms,
    index: given({
      path: index.path,
      incremental: search.index.incremental,
      rebuild: search.index.rebuild,
      background: index.background,
    }),
    hints: given({
      enabled: search.hints.enabled,
      topK: search.hints.top_k,
      searchType: search.hints.search_type,
      includeAlwaysLoaded: search.hints.include_always_loaded,
    }),
    directory: {
      enabled: search.directory.enabled,
      maxGroups: search.directory.max_groups,
      maxActionsPerGroup: search.directory.max_actions_per_group,
      showCounts: search.directory.show_counts,
      defaultGroups: search.directory.default_groups,
      groups: search.directory.groups.map(given),
    },
  });
}

function embedderOf(
  { class: kind, base_url, model, api_key, dimensions, model_path }: Config["search"]["embedder"],
  folder: string,
  filled: (text: string | undefined, key: string) => string | undefined,
): SearchSettings["embedder"] {
  if (kind === undefined || kind === null) return kind;
  if (kind === "local-mini") {
    const path = filled(model_path, "embedder.model_path");
    return given({ class: kind, modelPath: path === undefined ? undefined : resolve(folder, path) });
  }
  return given({
    class: kind,
    baseUrl: filled(base_url, "embedder.base_url"),
    apiKey: filled(api_key, "embedder.api_key"),
    model,
    dimensions,
  });
}

/** The same without what is undefined: an option that is there and undefined is not an absent one. */
function given<T extends object>(options: T): Given<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Given<T>;
}

type Given<T> = { [Key in keyof T as undefined extends T[Key] ? Key : never]?: Exclude<T[Key], undefined> } & {
  [Key in keyof T as undefined extends T[Key] ? never : Key]: T[Key];
};

/** What may be left out may also be there and undefined. */
type Loose<T> = { readonly [Key in keyof T]?: T[Key] | undefined };
