import { ProtocolError, ProtocolErrorCode, ResourceNotFoundError } from "@modelcontextprotocol/server";
import type { Quartermaster } from "../../app/quartermaster.ts";
import type { Abortable } from "../../core/abortable.ts";
import type { Effect } from "../../core/action.ts";
import type { Caller, Dialogue } from "../../core/caller.ts";
import { isRecord, type JsonObject, omitUndefined } from "../../core/json.ts";
import { LruMap } from "../../core/lru-map.ts";
import type { TraceCarrier } from "../../core/tracing.ts";
import type { SurfaceTool } from "../../surface/surface.ts";
import type { ResourceSubscriber, ResourceSubscriptions } from "./change-notifications.ts";
import type { GatewayEra, GatewayProfile, PassThroughTool, Upstream } from "./gateway.ts";
import type { ServedSkills } from "./served-skills.ts";
import type { SurfaceCache } from "./surface-cache.ts";
import { createInvalidParamsError, toPassThroughResult, toRawResult, toToolResult } from "./tool-results.ts";
import {
  compareServers,
  findResourceServer,
  findTemplateServer,
  listDefinitions,
  selectPrompts,
  selectTools,
} from "./upstream.ts";

export type ServiceClient = { readonly caller: Caller; readonly era: GatewayEra };

export interface ServiceCallOptions {
  readonly signal: Abortable;
  readonly dialogue?: Dialogue;
  readonly trace?: TraceCarrier;
}

/** The MCP methods of one profile's clients, without their transport. */
export type ProfileService = ReturnType<typeof createProfileService>;
/** Characters of instructions. Clients cut longer ones, some in the middle of a sentence. */
const INSTRUCTIONS_LIMIT = 2_000;
const UNSUBSCRIBE_TIMEOUT_MS = 5_000;
const CALLED_LIMIT = 1_000;

/** Its methods reject with protocol errors. */
export function createProfileService(
  profile: GatewayProfile,
  quartermaster: Pick<Quartermaster, "invoke" | "prompt">,
  upstream: Upstream | undefined,
  surfaces: SurfaceCache,
  subscriptions: ResourceSubscriptions,
  skills: ServedSkills,
) {
  const invoke = (caller: Caller, name: string, args: unknown, options: ServiceCallOptions) =>
    quartermaster.invoke(name, args, { caller, via: "mcp", keep: false, ...options });
  const callServer = ({ caller }: ServiceClient, action: string, args: JsonObject, options: ServiceCallOptions) =>
    invoke(caller, `mcp__${action}`, args, options);

  const listOwnTools = async ({ caller, era }: ServiceClient) => {
    if (!hasSurface(profile)) return [];
    return era === "modern" ? surfaces.listInitialTools() : (await surfaces.get(caller)).tools;
  };
  const selectPassedTools = ({ caller }: ServiceClient, own: readonly SurfaceTool[]) => {
    if (upstream === undefined || profile.passThrough.length === 0) return new Map<string, PassThroughTool>();
    return selectTools(upstream.tools(caller, profile.passThrough), new Set(own.map(({ name }) => name)));
  };
  const calledTools = new LruMap<string, { readonly tool: PassThroughTool; readonly generation: number }>(CALLED_LIMIT);
  /** Which tool a name stands for depends on all tools that the client sees, so the tools that it calls are remembered. */
  const findPassedTool = async (client: ServiceClient, name: string): Promise<PassThroughTool | undefined> => {
    if (profile.passThrough.length === 0) return undefined;
    const key = JSON.stringify([client.caller.session, client.era, name]);
    const { generation } = surfaces;
    const known = calledTools.get(key);
    if (known?.generation === generation) return known.tool;
    const tool = selectPassedTools(client, await listOwnTools(client)).get(name);
    if (tool !== undefined) calledTools.set(key, { tool, generation });
    return tool;
  };

  const listResources = ({ caller }: ServiceClient) =>
    profile.resources ? [...(upstream?.resources(caller) ?? [])].sort(compareServers) : [];
  const listTemplates = ({ caller }: ServiceClient) =>
    profile.resources ? [...(upstream?.templates(caller) ?? [])].sort(compareServers) : [];
  const listPrompts = ({ caller }: ServiceClient) =>
    selectPrompts(profile.prompts ? (upstream?.prompts(caller) ?? []) : []);
  const requireServer = (client: ServiceClient, uri: string): string => {
    const server = findResourceServer(uri, listResources(client), listTemplates(client));
    if (server === undefined) throw new ResourceNotFoundError(uri);
    return server;
  };
  const requirePrompt = (client: ServiceClient, name: string) => {
    const found = listPrompts(client).get(name);
    if (found === undefined) throw createUnknownNameError("prompt", name);
    return { server: found.server, name: String(found.prompt.name) };
  };

  return {
    /** The sections of the caller's prompt that fit, whole. Undefined if clients see only the tools of servers. */
    async getInstructions(caller: Caller): Promise<string | undefined> {
      if (!hasSurface(profile)) return undefined;
      const { sections } = await quartermaster.prompt(caller, omitUndefined({ kind: profile.surface, dynamic: false }));
      return sections.reduce((text, section) => {
        const longer = text === "" ? section.text : `${text}\n\n${section.text}`;
        return longer.length <= INSTRUCTIONS_LIMIT ? longer : text;
      }, "");
    },
    async tools(client: ServiceClient): Promise<readonly JsonObject[]> {
      const own = await listOwnTools(client);
      const passed = selectPassedTools(client, own);
      return [...own.map(toToolDefinition), ...listDefinitions(passed, ({ definition }) => definition)];
    },
    async callTool(client: ServiceClient, name: string, args: unknown, options: ServiceCallOptions) {
      const { caller, era } = client;
      const passed = await findPassedTool(client, name);
      if (passed !== undefined) {
        const outcome = await invoke(caller, passed.action, args, options);
        return toPassThroughResult(outcome, passed.definition.outputSchema, era);
      }
      if (!hasSurface(profile)) throw createUnknownNameError("tool", name);
      const surface = await surfaces.get(caller);
      const { signal, dialogue, trace } = options;
      const answer = await surface.call(name, args, signal, { dialogue, trace });
      const problem = answer.data;
      const isUnknown = !answer.ok && isRecord(problem) && problem.code === "unknown_action";
      // An unknown tool is the client's mistake. A wrong action name in the arguments is the model's.
      if (isUnknown && !surface.tools.some((tool) => tool.name === name))
        throw createInvalidParamsError(problem as never);
      return toToolResult(answer, era);
    },
    resources: (client: ServiceClient) => sortUnique(listResources(client), ({ resource }) => resource, "uri"),
    templates: (client: ServiceClient) => sortUnique(listTemplates(client), ({ template }) => template, "uriTemplate"),
    skills: ({ caller }: ServiceClient) => skills.summarize(caller),
    listSkills: ({ caller }: ServiceClient, cursor: string | undefined) => skills.list(caller, cursor),
    async getSkill({ caller }: ServiceClient, uri: string) {
      const skill = await skills.get(caller, uri);
      if (skill === undefined) throw createUnknownNameError("skill", uri);
      return skill;
    },
    async readResource(client: ServiceClient, uri: string, options: ServiceCallOptions): Promise<JsonObject> {
      const { caller } = client;
      const call = (name: string, args: JsonObject) => invoke(caller, name, args, options);
      const file = hasSurface(profile) ? await skills.read(caller, uri, call) : undefined;
      if (file !== undefined) return file;
      return toRawResult(await callServer(client, `${requireServer(client, uri)}__resources/read`, { uri }, options));
    },
    async subscribe(client: ServiceClient, uri: string, subscriber: ResourceSubscriber, options: ServiceCallOptions) {
      const server = requireServer(client, uri);
      // Added first: an update may come before the server's answer.
      if (!subscriptions.add(subscriber, server, uri))
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, "Too many subscriptions: end some of yours first");
      try {
        toRawResult(await callServer(client, `${server}__resources/subscribe`, { uri }, options));
      } catch (thrown) {
        subscriptions.remove(subscriber, server, uri);
        throw thrown;
      }
    },
    async unsubscribe(client: ServiceClient, uri: string, subscriber: ResourceSubscriber, options: ServiceCallOptions) {
      const server = requireServer(client, uri);
      if (!subscriptions.remove(subscriber, server, uri)) return;
      toRawResult(await callServer(client, `${server}__resources/unsubscribe`, { uri }, options));
    },
    /** For a client that has gone. Never rejects. */
    async unsubscribeAll(client: ServiceClient, subscriber: ResourceSubscriber): Promise<void> {
      const options = { signal: AbortSignal.timeout(UNSUBSCRIBE_TIMEOUT_MS) };
      for (const { server, uri } of subscriptions.drop(subscriber))
        await callServer(client, `${server}__resources/unsubscribe`, { uri }, options);
    },
    prompts: (client: ServiceClient) => listDefinitions(listPrompts(client), ({ prompt }) => prompt),
    async getPrompt(client: ServiceClient, shownName: string, args: unknown, options: ServiceCallOptions) {
      const { server, name } = requirePrompt(client, shownName);
      const params = { name, arguments: (args ?? {}) as JsonObject };
      return toRawResult(await callServer(client, `${server}__prompts/get`, params, options));
    },
    async complete(client: ServiceClient, params: JsonObject, options: ServiceCallOptions): Promise<JsonObject> {
      const { server, ref } = resolveCompletion(client, params.ref);
      return toRawResult(await callServer(client, `${server}__completion/complete`, { ...params, ref }, options));
    },
  };

  /** Finds the server of a completion, and the reference by the name that the server knows. */
  function resolveCompletion(client: ServiceClient, given: unknown) {
    const ref = (isRecord(given) ? given : {}) as JsonObject;
    if (ref.type === "ref/prompt") {
      const { server, name } = requirePrompt(client, String(ref.name));
      return { server, ref: { ...ref, name } };
    }
    const server = findTemplateServer(String(ref.uri), listTemplates(client));
    if (server === undefined) throw createUnknownNameError("resource template", String(ref.uri));
    return { server, ref };
  }
}

/** Whether clients see tools of a surface, and not only those of servers that are passed through. */
export const hasSurface = ({ surface, passThrough }: GatewayProfile): boolean =>
  surface !== undefined || passThrough.length === 0;

/** A tool of a surface as MCP lists it. A tool whose effect is unknown gets the hints of the worst one. */
function toToolDefinition({ name, description, inputSchema, effect }: SurfaceTool): JsonObject {
  const words = name.replace(/[_-]+/g, " ").trim();
  const title = words.charAt(0).toUpperCase() + words.slice(1);
  return {
    name,
    title,
    description,
    inputSchema,
    annotations: { title, ...toEffectHints(effect) },
    ...(effect === undefined ? {} : { _meta: { "quartermaster/effect": effect } }),
  };
}

/** Writing may overwrite, so every effect but `pure` and `read` counts as destructive. */
function toEffectHints(effect: Effect | undefined): JsonObject {
  if (effect === "pure" || effect === "read")
    return { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: effect === "read" };
  return { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: effect !== "write" };
}

/** Sorted by `key`. Of two with the same key the first stays, because its server is the one that is asked. */
function sortUnique<T>(offered: readonly T[], getItem: (each: T) => JsonObject, key: string): readonly JsonObject[] {
  const byKey = new Map<string, JsonObject>();
  for (const item of offered.map(getItem)) if (!byKey.has(String(item[key]))) byKey.set(String(item[key]), item);
  return [...byKey].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, item]) => item);
}

const createUnknownNameError = (what: string, name: string): ProtocolError =>
  new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown ${what}: ${name.slice(0, 200)}`);
