import { resolve } from "node:path";
import type { PeerOptions, SearchSettings } from "../app/options.ts";
import { parseFileValue } from "../config/file-keys.ts";
import { type ServerConfig, serverSchema } from "../config/mcp-schema.ts";
import type { LoadedConfig } from "../config/parse.ts";
import { type Environment, listVariables, resolveReference } from "../config/references.ts";
import type { SandboxConfig } from "../config/sandbox-schema.ts";
import type { Config } from "../config/schema.ts";
import { type JsonObject, omitUndefined } from "../core/json.ts";
import type { Model } from "../core/model.ts";
import type { SandboxSettings } from "../core/sandbox.ts";
import type { Launch, ServerSpec } from "../mcp/server-spec.ts";
import { createConfiguredModel } from "../model/configured-model.ts";
import type { PolicyOptions } from "../policy/policy.ts";
import type { Gate } from "../policy/tool-policy.ts";

/** The enabled servers, sorted by name. Relative paths start from `folder`. */
export const toServerSpecs = ({ servers }: Pick<Config, "servers">, folder: string): readonly ServerSpec[] =>
  Object.entries(servers)
    .filter(([, { enabled }]) => enabled)
    .map(([name, server]) => toServerSpec(name, server, folder))
    .sort((a, b) => (a.name < b.name ? -1 : 1));

export const toDisabledServerSpecs = ({ servers }: Pick<Config, "servers">, folder: string): readonly ServerSpec[] =>
  Object.entries(servers)
    .filter(([, { enabled }]) => !enabled)
    .map(([name, server]) => toServerSpec(name, server, folder));

/** One server from an entry as it would be in the file. Throws when the file could not hold it. */
export function parseServerSpec(name: string, entry: JsonObject, folder: string): ServerSpec {
  const parsed = parseFileValue(serverSchema, entry);
  if (!parsed.success) throw new TypeError(`${name}: ${parsed.issues[0]?.message}`);
  return toServerSpec(name, parsed.data as ServerConfig, folder);
}

export function toServerSpec(name: string, server: ServerConfig, folder: string): ServerSpec {
  const { enabled: _, command, args, env, cwd, sandbox, url, headers, oauth, tools, ...rest } = server;
  const launch: Launch =
    url === undefined
      ? {
          ...{ kind: "stdio", command: command ?? "", args, env, cwd: resolve(folder, cwd ?? ".") },
          ...(sandbox === undefined ? {} : { sandbox: toServerSandbox(sandbox, folder) }),
        }
      : omitUndefined({ kind: "http", url, headers, oauth });
  return {
    ...rest,
    name,
    launch,
    tools: Object.entries(tools).map(([match, { arguments: forms, ...override }]) => ({
      match,
      ...override,
      ...(Object.keys(forms).length === 0 ? {} : { arguments: forms }),
    })),
  };
}

/** A path that begins with a reference is taken as it is once that is filled in. */
function toServerSandbox({ read, write, ...rest }: SandboxConfig, folder: string): SandboxSettings {
  const locate = (path: string) => (path.startsWith("${") ? path : resolve(folder, path));
  return { ...rest, read: read.map(locate), write: write.map(locate) };
}

export function toPolicyOptions({ policy, actors, approvals, worlds, world, routerModel }: Config): PolicyOptions {
  const { rules, budgets, gates, ...tools } = policy;
  const { approvers: _approvers, publicUrl: _publicUrl, ...approvalSettings } = approvals;
  // Strong is the default of the policy, and stays out of its version.
  const tier = routerModel === "strong" ? {} : { tier: routerModel };
  const named = Object.entries(actors).map(([name, actor]) => ({ name, ...tier, ...actor }));
  return {
    tools,
    gates: toClosedGates(gates),
    rules,
    actors: named,
    worlds: Object.entries(worlds).map(([name, { skills: _skills, ...rest }]) => ({ name, ...rest })),
    ...omitUndefined({ world }),
    budgets,
    approvals: approvalSettings,
  };
}

/** An open gate is left out: it only stops hiding actions, and opens no gate of the environment. */
const toClosedGates = (gates: Config["policy"]["gates"]): readonly Gate[] =>
  Object.entries(gates).flatMap(([name, { guards, open, reason }]) => {
    const setting = `policy.gates.${name}.open`;
    const shut = () => `policy.gates.${name} is closed${reason === undefined ? "" : `: ${reason}`}`;
    return open ? [] : guards.map((pattern) => ({ name, guards: pattern, shut, setting }));
  });

/** The configured models, by name. `fill` is called for each request, so that a secret stored later counts. */
export const createModels = (
  { models }: Pick<Config, "models">,
  fill: (text: string, key: string) => string,
): Readonly<Record<string, Model>> =>
  Object.fromEntries(
    Object.entries(models).map(([name, { baseUrl, apiKey, ...settings }]) => {
      const fillKey = (text: string | undefined, key: string) => text && fill(text, `models.${name}.${key}`);
      const readEndpoint = () => ({ baseUrl: fillKey(baseUrl, "base_url"), apiKey: fillKey(apiKey, "api_key") });
      return [name, createConfiguredModel(settings, readEndpoint)];
    }),
  );

/** The enabled peers, by name. `fill` is called for each use, so that a secret stored later counts. */
export const toPeerOptions = (
  { peers }: Pick<Config, "peers">,
  fill: (text: string, key: string) => string,
): Readonly<Record<string, PeerOptions>> =>
  Object.fromEntries(
    Object.entries(peers)
      .filter(([, { enabled }]) => enabled)
      .map(([name, { url, token, header, description, timeoutMs }]) => {
        const key = `peers.${name}`;
        const headers = (): Readonly<Record<string, string>> => {
          if (token === undefined) return {};
          const value = fill(token, `${key}.token`);
          return header === undefined ? { authorization: `Bearer ${value}` } : { [header]: value };
        };
        // An address without references can be shown.
        const address = listVariables(url).length === 0 ? url : () => fill(url, `${key}.url`);
        return [name, { url: address, headers, timeoutMs, ...omitUndefined({ description }) }];
      }),
  );

export function resolveIndexPath({ config, folder }: LoadedConfig, env: Environment): string | undefined {
  const { path } = config.search.index;
  return path === undefined ? undefined : resolve(folder, resolveReference(path, env, "search.index.path"));
}

/** `index`: where the vectors are, and whether missing ones are made in the background. */
export function toSearchSettings(
  { config, folder }: LoadedConfig,
  env: Environment,
  index: { readonly path: string | undefined; readonly background: boolean },
): SearchSettings {
  const { embedder, ...search } = config.search;
  const { path: _, ...building } = search.index;
  const [choice, vectors] = [toEmbedderChoice(embedder, folder, env), omitUndefined({ ...building, ...index })];
  return omitUndefined({ ...search, embedder: choice, embedderTimeoutMs: embedder.timeoutMs, index: vectors });
}

function toEmbedderChoice(
  { class: kind, baseUrl, model, apiKey, dimensions, modelPath }: Config["search"]["embedder"],
  folder: string,
  env: Environment,
): SearchSettings["embedder"] {
  const fill = (text: string | undefined, key: string) =>
    text === undefined ? undefined : resolveReference(text, env, `search.embedder.${key}`);
  if (kind === undefined || kind === null) return kind;
  if (kind === "local-mini") {
    const path = fill(modelPath, "model_path");
    return omitUndefined({ class: kind, modelPath: path === undefined ? undefined : resolve(folder, path) });
  }
  const endpoint = { baseUrl: fill(baseUrl, "base_url"), apiKey: fill(apiKey, "api_key") };
  return omitUndefined({ class: kind, ...endpoint, model, dimensions });
}
