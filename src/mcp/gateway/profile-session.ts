import {
  type CallToolResult,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
} from "@modelcontextprotocol/server";
import type { Quartermaster } from "../../app/quartermaster.ts";
import type { Effect } from "../../core/action.ts";
import type { Caller, Dialogue } from "../../core/caller.ts";
import { isRecord, type JsonObject } from "../../core/json.ts";
import type { Outcome } from "../../core/outcome.ts";
import type { TraceCarrier } from "../../core/tracing.ts";
import type { SurfaceTool } from "../../surface/surface.ts";
import type { ResourceSubscriber, ResourceSubscriptions } from "./change-notifications.ts";
import type { GatewayEra, GatewayProfile, PassThroughTool, Upstream } from "./gateway.ts";
import type { SurfaceCache } from "./surface-cache.ts";
import { createInvalidParamsError, toPassThroughResult, toRawResult, toToolResult } from "./tool-results.ts";
import { findResourceServer, findTemplateServer, listDefinitions, selectPrompts, selectTools } from "./upstream.ts";

/** A tool of a surface as MCP lists it. Where it is not known what calling it can do, the worst is said. */
function toToolDefinition({ name, description, inputSchema, effect }: SurfaceTool): JsonObject {
  const title = formatTitle(name);
  return {
    name,
    title,
    description,
    inputSchema,
    annotations: { title, ...toEffectHints(effect) },
    ...(effect === undefined ? {} : { _meta: { "quartermaster/effect": effect } }),
  };
}

/** What an effect promises, in MCP's words. Writing may overwrite, so all but looking counts as destructive. */
function toEffectHints(effect: Effect | undefined): JsonObject {
  if (effect === "pure")
    return { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false };
  if (effect === "read")
    return { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: true };
  return { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: effect !== "write" };
}

function formatTitle(name: string): string {
  const words = name.replace(/[_-]+/g, " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** How a call can be stopped, who can be told and asked while it runs, and which trace it is part of. */
export interface SessionCallOptions {
  readonly signal: AbortSignal;
  readonly dialogue?: Dialogue;
  readonly trace?: TraceCarrier;
}

/** What one client may ask for, in MCP's words and without its wire. Rejects with protocol errors. */
export interface ProfileSession {
  readonly caller: Caller;
  tools(): Promise<readonly JsonObject[]>;
  callTool(name: string, args: unknown, talk: SessionCallOptions): Promise<CallToolResult>;
  /** The tool's own output schema, where it is shown as its server gave it. */
  getOutputSchema(name: string): Promise<JsonObject | undefined>;
  resources(): readonly JsonObject[];
  templates(): readonly JsonObject[];
  readResource(uri: string, talk: SessionCallOptions): Promise<JsonObject>;
  subscribe(uri: string, follower: ResourceSubscriber, talk: SessionCallOptions): Promise<void>;
  unsubscribe(uri: string, follower: ResourceSubscriber, talk: SessionCallOptions): Promise<void>;
  /** For a client that has gone. Never rejects. */
  unsubscribeAll(follower: ResourceSubscriber): Promise<void>;
  prompts(): readonly JsonObject[];
  getPrompt(name: string, args: unknown, talk: SessionCallOptions): Promise<JsonObject>;
  complete(params: JsonObject, talk: SessionCallOptions): Promise<JsonObject>;
}

interface ProfileSessionOptions {
  readonly quartermaster: Pick<Quartermaster, "invoke">;
  readonly upstream?: Upstream | undefined;
  readonly keeper: SurfaceCache;
  readonly subscriptions: ResourceSubscriptions;
  readonly profile: GatewayProfile;
  readonly era: GatewayEra;
  readonly caller: Caller;
}

/** Whether clients are shown tools of ours, and not those of servers alone. */
export function hasSurface({ surface, passThrough }: GatewayProfile): boolean {
  return surface !== undefined || passThrough.length === 0;
}

export function createProfileSession(parts: ProfileSessionOptions): ProfileSession {
  const { quartermaster, upstream, keeper, subscriptions, profile, era, caller } = parts;

  const invoke = (name: string, args: unknown, talk: SessionCallOptions): Promise<Outcome> =>
    quartermaster.invoke(name, args, { caller, via: "mcp", keep: false, ...talk });
  const callServerMethod = (server: string, method: string, args: JsonObject, talk: SessionCallOptions) =>
    invoke(`mcp__${server}__${method}`, args, talk);

  const surfaceTools = async () => {
    if (!hasSurface(profile)) return [];
    return era === "modern" ? keeper.listInitialTools() : (await keeper.get(caller)).tools;
  };
  const passedTools = (ours: readonly { readonly name: string }[]): ReadonlyMap<string, PassThroughTool> => {
    if (upstream === undefined || profile.passThrough.length === 0) return new Map();
    return selectTools(upstream.tools(caller, profile.passThrough), new Set(ours.map(({ name }) => name)));
  };
  const passedTool = async (name: string) =>
    profile.passThrough.length === 0 ? undefined : passedTools(await surfaceTools()).get(name);

  const resources = () => (profile.resources ? sortByServer(upstream?.resources(caller) ?? []) : []);
  const templates = () => (profile.resources ? sortByServer(upstream?.templates(caller) ?? []) : []);
  const prompts = () => selectPrompts(profile.prompts ? (upstream?.prompts(caller) ?? []) : []);
  const requireServer = (uri: string): string => {
    const server = findResourceServer(uri, resources(), templates());
    if (server === undefined) throw new ResourceNotFoundError(uri);
    return server;
  };

  return {
    caller,
    async tools() {
      const ours = await surfaceTools();
      return [...ours.map(toToolDefinition), ...listDefinitions(passedTools(ours), ({ definition }) => definition)];
    },
    async callTool(name, args, talk) {
      const passed = await passedTool(name);
      if (passed !== undefined) return toPassThroughResult(await invoke(passed.action, args, talk));
      if (!hasSurface(profile)) throw createUnknownNameError("tool", name);
      const surface = await keeper.get(caller);
      const answer = await surface.call(name, args, talk.signal, talk.dialogue, talk.trace);
      const problem = answer.data;
      if (!answer.ok && isRecord(problem) && problem.code === "unknown_action") {
        // Not known as a tool of ours either: it is the client that is wrong. A wrong name in the arguments is the model's.
        if (!surface.tools.some((tool) => tool.name === name)) throw createInvalidParamsError(problem as never);
      }
      return toToolResult(answer, era);
    },
    async getOutputSchema(name) {
      const schema = (await passedTool(name))?.definition.outputSchema;
      return isRecord(schema) ? (schema as JsonObject) : undefined;
    },
    resources: () =>
      sortUnique(
        resources().map(({ resource }) => resource),
        "uri",
      ),
    templates: () =>
      sortUnique(
        templates().map(({ template }) => template),
        "uriTemplate",
      ),
    async readResource(uri, talk) {
      return toRawResult(await callServerMethod(requireServer(uri), "resources/read", { uri }, talk));
    },
    async subscribe(uri, follower, talk) {
      const server = requireServer(uri);
      // First, so that no update is lost between the server's yes and ours.
      if (!subscriptions.add(follower, server, uri)) {
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, "Too many subscriptions: end some of yours first");
      }
      try {
        toRawResult(await callServerMethod(server, "resources/subscribe", { uri }, talk));
      } catch (thrown) {
        subscriptions.remove(follower, server, uri);
        throw thrown;
      }
    },
    async unsubscribe(uri, follower, talk) {
      const server = requireServer(uri);
      if (!subscriptions.remove(follower, server, uri)) return;
      toRawResult(await callServerMethod(server, "resources/unsubscribe", { uri }, talk));
    },
    async unsubscribeAll(follower) {
      const talk = { signal: AbortSignal.timeout(UNSUBSCRIBE_TIMEOUT_MS) };
      for (const { server, uri } of subscriptions.drop(follower)) {
        await callServerMethod(server, "resources/unsubscribe", { uri }, talk);
      }
    },
    prompts: () => listDefinitions(prompts(), ({ prompt }) => prompt),
    async getPrompt(name, args, talk) {
      const shown = prompts().get(name);
      if (shown === undefined) throw createUnknownNameError("prompt", name);
      const own = { name: String(shown.prompt.name), arguments: (args ?? {}) as JsonObject };
      return toRawResult(await callServerMethod(shown.server, "prompts/get", own, talk));
    },
    async complete(params, talk) {
      const { server, ref } = resolveCompletionRef(params.ref, prompts(), templates());
      return toRawResult(await callServerMethod(server, "completion/complete", { ...params, ref }, talk));
    },
  };
}

const UNSUBSCRIBE_TIMEOUT_MS = 5_000;

/** What a completion is for, by the name that its server knows it by. */
function resolveCompletionRef(
  ref: unknown,
  prompts: ReturnType<typeof selectPrompts>,
  templates: ReturnType<Upstream["templates"]>,
): { readonly server: string; readonly ref: JsonObject } {
  const { type, name, uri } = isRecord(ref) ? ref : {};
  if (type === "ref/prompt") {
    const shown = prompts.get(String(name));
    if (shown === undefined) throw createUnknownNameError("prompt", String(name));
    return { server: shown.server, ref: { ...(ref as JsonObject), name: String(shown.prompt.name) } };
  }
  const server = findTemplateServer(String(uri), templates);
  if (server === undefined) throw createUnknownNameError("resource template", String(uri));
  return { server, ref: ref as JsonObject };
}

function sortByServer<T extends { readonly server: string }>(offered: readonly T[]): readonly T[] {
  return [...offered].sort((a, b) => (a.server === b.server ? 0 : a.server < b.server ? -1 : 1));
}

/** Sorted, and each once: the first server's, which is the one that is asked. */
function sortUnique(offered: readonly JsonObject[], key: string): readonly JsonObject[] {
  const byKey = new Map<string, JsonObject>();
  for (const one of offered) if (!byKey.has(String(one[key]))) byKey.set(String(one[key]), one);
  return [...byKey].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one);
}

function createUnknownNameError(what: string, name: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown ${what}: ${name.slice(0, 200)}`);
}
