import { resolve } from "node:path";
import type { InfospaceSettings, SearchSettings } from "../app/options.ts";
import { type ServerConfig, serverSchema } from "../config/mcp-schema.ts";
import type { LoadedConfig } from "../config/parse.ts";
import { type Environment, resolveReference } from "../config/references.ts";
import type { Config } from "../config/schema.ts";
import type { JsonObject } from "../core/json.ts";
import type { Duration } from "../core/runtime.ts";
import type { SurfaceChoice } from "../core/surface-choice.ts";
import type { Launch, ServerSpec } from "../mcp/server-spec.ts";
import type { ApprovalSettings } from "../policy/approval-rules.ts";
import type { PolicyOptions } from "../policy/policy.ts";
import type { RouteRule } from "../routing/rules.ts";

/** The configured servers in the words of the hub. Relative paths are relative to `folder`. */
export function toServerSpecs({ servers }: Pick<Config, "servers">, folder: string): readonly ServerSpec[] {
  return Object.entries(servers)
    .filter(([, { enabled }]) => enabled)
    .map(([name, server]) => toServerSpec(name, server, folder))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The servers that stand in the file and are not to be used. */
export function toDisabledServerSpecs({ servers }: Pick<Config, "servers">, folder: string): readonly ServerSpec[] {
  return Object.entries(servers)
    .filter(([, { enabled }]) => !enabled)
    .map(([name, server]) => toServerSpec(name, server, folder));
}

/** One server as it would stand in the file. Throws when it could not. */
export function parseServerSpec(name: string, entry: JsonObject, folder: string): ServerSpec {
  return toServerSpec(name, serverSchema.parse(entry), folder);
}

/** One server as it stands in the file. */
export function toServerSpec(name: string, server: ServerConfig, folder: string): ServerSpec {
  return {
    name,
    launch: toLaunch(server, folder),
    protocol: server.protocol,
    startTimeoutMs: server.start_timeout_ms,
    idleTimeoutMs: server.idle_timeout_ms,
    trustAnnotations: server.trust_annotations,
    pin: server.pin,
    tools: Object.entries(server.tools).map(
      ([match, { enabled, effect, tags, approval, loading, arguments: forms }]) => ({
        match,
        enabled,
        tags,
        ...(Object.keys(forms).length === 0 ? {} : { arguments: forms }),
        ...(effect === undefined ? {} : { effect }),
        ...(approval === undefined ? {} : { approval }),
        ...(loading === undefined ? {} : { loading }),
      }),
    ),
    ...(server.description === undefined ? {} : { description: server.description }),
    ...(server.version === undefined ? {} : { version: server.version }),
    ...(server.source === undefined ? {} : { source: server.source }),
    ...(server.call_timeout_ms === undefined ? {} : { callTimeoutMs: server.call_timeout_ms }),
  };
}

function toLaunch({ command, args, env, cwd, url, headers, oauth }: ServerConfig, folder: string): Launch {
  if (url === undefined) return { kind: "stdio", command: command ?? "", args, env, cwd: resolve(folder, cwd ?? ".") };
  if (oauth === undefined) return { kind: "http", url, headers };
  const { client_id, client_secret, client_metadata_url, scopes, callback_port } = oauth;
  return {
    kind: "http",
    url,
    headers,
    oauth: {
      ...(client_id === undefined ? {} : { clientId: client_id }),
      ...(client_secret === undefined ? {} : { clientSecret: client_secret }),
      ...(client_metadata_url === undefined ? {} : { clientMetadataUrl: client_metadata_url }),
      ...(scopes === undefined ? {} : { scopes }),
      ...(callback_port === undefined ? {} : { callbackPort: callback_port }),
    },
  };
}

/** The file's policy in the words of the library. */
export function toPolicyOptions({ policy, actors, approvals }: Config): PolicyOptions {
  const { allowed, denied, require_tags, rules, budgets } = policy;
  return {
    tools: dropUndefined({ allowed, denied, requireTags: require_tags }),
    rules: rules.map(({ expires_in, ...rule }) =>
      dropUndefined({ ...rule, expiresIn: expires_in as Duration | undefined }),
    ),
    actors: Object.entries(actors).map(([name, { tools, scope, attributes, surface }]) =>
      dropUndefined({
        name,
        tools,
        scope,
        attributes,
        surface: surface && toSurfaceChoice(surface),
      }),
    ),
    budgets: dropUndefined({
      turn: budgets.turn && dropUndefined(budgets.turn),
      session: budgets.session && dropUndefined(budgets.session),
      tenant: budgets.tenant && dropUndefined(budgets.tenant),
    }),
    approvals: toApprovalSettings(approvals),
  };
}

function toApprovalSettings(approvals: Config["approvals"]): ApprovalSettings {
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
          dropUndefined({ autoApproveIf: auto_approve_if, level, expiresIn: expires_in as Duration | undefined }),
        ];
      }),
    ),
  };
}

/** What becomes of calls on their way. */
export function toRouteRules({ routing }: Pick<Config, "routing">): readonly RouteRule[] {
  return routing.rules.map(({ deadline_ms, retry, ...rule }) =>
    dropUndefined({
      ...rule,
      deadlineMs: deadline_ms,
      retry: retry && { attempts: retry.attempts, backoffMs: retry.backoff_ms },
    }),
  );
}

export function toInfospaceSettings({ infospace }: Pick<Config, "infospace">): InfospaceSettings {
  const { enabled, expires_in, preview_chars, fill_chars, quota } = infospace;
  return {
    enabled,
    expiresIn: expires_in as Duration,
    previewLimit: preview_chars,
    fillLimit: fill_chars,
    quota,
  };
}

export function toSurfaceChoice(surface: PossiblyUndefined<Config["surface"]>): SurfaceChoice {
  return dropUndefined({
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
export function resolveIndexPath({ config, folder }: LoadedConfig, env: Environment): string | undefined {
  const { path } = config.search.index;
  return path === undefined ? undefined : resolve(folder, resolveReference(path, env, "search.index.path"));
}

/** How actions are found, and of vectors where they are and whether any are made unasked. */
export function toSearchSettings(
  { config, folder }: LoadedConfig,
  env: Environment,
  index: { readonly path: string | undefined; readonly background: boolean },
): SearchSettings {
  const { search } = config;
  const fillText = (text: string | undefined, key: string) =>
    text === undefined ? undefined : resolveReference(text, env, `search.${key}`);
  return dropUndefined({
    enabled: search.enabled,
    maxResults: search.max_results,
    preferredNamespaces: search.preferred_namespaces,
    embedder: toEmbedderChoice(search.embedder, folder, fillText),
    embedderTimeoutMs: search.embedder.timeout_ms,
    index: dropUndefined({
      path: index.path,
      incremental: search.index.incremental,
      rebuild: search.index.rebuild,
      background: index.background,
    }),
    hints: dropUndefined({
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
      groups: search.directory.groups.map(dropUndefined),
    },
  });
}

function toEmbedderChoice(
  { class: kind, base_url, model, api_key, dimensions, model_path }: Config["search"]["embedder"],
  folder: string,
  filled: (text: string | undefined, key: string) => string | undefined,
): SearchSettings["embedder"] {
  if (kind === undefined || kind === null) return kind;
  if (kind === "local-mini") {
    const path = filled(model_path, "embedder.model_path");
    return dropUndefined({ class: kind, modelPath: path === undefined ? undefined : resolve(folder, path) });
  }
  return dropUndefined({
    class: kind,
    baseUrl: filled(base_url, "embedder.base_url"),
    apiKey: filled(api_key, "embedder.api_key"),
    model,
    dimensions,
  });
}

/** The same without what is undefined: an option that is there and undefined is not an absent one. */
function dropUndefined<T extends object>(options: T): WithoutUndefined<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as WithoutUndefined<T>;
}

type WithoutUndefined<T> = {
  [Key in keyof T as undefined extends T[Key] ? Key : never]?: Exclude<T[Key], undefined>;
} & {
  [Key in keyof T as undefined extends T[Key] ? never : Key]: T[Key];
};

/** What may be left out may also be there and undefined. */
type PossiblyUndefined<T> = { readonly [Key in keyof T]?: T[Key] | undefined };
