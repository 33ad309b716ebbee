import {
  type CallToolResult,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
} from "@modelcontextprotocol/server";
import type { Caller } from "../../core/caller.ts";
import type { Dialogue } from "../../core/dialogue.ts";
import { isRecord, type JsonObject } from "../../core/json.ts";
import type { Outcome } from "../../core/outcome.ts";
import type { TraceCarrier } from "../../core/tracing.ts";
import type { Quartermaster } from "../../quartermaster.ts";
import type { Era, GatewayProfile, PassedTool, Upstream } from "./gateway.ts";
import { answerResult, invalidParams, passedResult, rawResult } from "./results.ts";
import { definitions, shownPrompts, shownTools } from "./shown.ts";
import type { Follower, Subscriptions } from "./subscriptions.ts";
import type { SurfaceKeeper } from "./surface-keeper.ts";
import { toolDefinition } from "./tool-definition.ts";
import { whoseResource, whoseTemplate } from "./whose-resource.ts";

/** How a call can be stopped, who can be told and asked while it runs, and which trace it is part of. */
export interface Talk {
  readonly signal: AbortSignal;
  readonly dialogue?: Dialogue;
  readonly trace?: TraceCarrier;
}

/** What one client may ask for, in MCP's words and without its wire. Rejects with protocol errors. */
export interface Desk {
  readonly caller: Caller;
  tools(): Promise<readonly JsonObject[]>;
  callTool(name: string, args: unknown, talk: Talk): Promise<CallToolResult>;
  /** The tool's own output schema, where it is shown as its server gave it. */
  outputSchemaOf(name: string): Promise<JsonObject | undefined>;
  resources(): readonly JsonObject[];
  templates(): readonly JsonObject[];
  readResource(uri: string, talk: Talk): Promise<JsonObject>;
  subscribe(uri: string, follower: Follower, talk: Talk): Promise<void>;
  unsubscribe(uri: string, follower: Follower, talk: Talk): Promise<void>;
  /** For a client that has gone. Never rejects. */
  unfollow(follower: Follower): Promise<void>;
  prompts(): readonly JsonObject[];
  getPrompt(name: string, args: unknown, talk: Talk): Promise<JsonObject>;
  complete(params: JsonObject, talk: Talk): Promise<JsonObject>;
}

export interface DeskParts {
  readonly quartermaster: Pick<Quartermaster, "invoke">;
  readonly upstream?: Upstream | undefined;
  readonly keeper: SurfaceKeeper;
  readonly subscriptions: Subscriptions;
  readonly profile: GatewayProfile;
  readonly era: Era;
  readonly caller: Caller;
}

/** Whether clients are shown tools of ours, and not those of servers alone. */
export function hasSurface({ surface, passThrough }: GatewayProfile): boolean {
  return surface !== undefined || passThrough.length === 0;
}

export function createDesk(parts: DeskParts): Desk {
  const { quartermaster, upstream, keeper, subscriptions, profile, era, caller } = parts;

  const invoke = (name: string, args: unknown, talk: Talk): Promise<Outcome> =>
    quartermaster.invoke(name, args, { caller, via: "mcp", keep: false, ...talk });
  const ofServer = (server: string, method: string, args: JsonObject, talk: Talk) =>
    invoke(`mcp__${server}__${method}`, args, talk);

  const surfaceTools = async () => {
    if (!hasSurface(profile)) return [];
    return era === "modern" ? keeper.constant() : (await keeper.of(caller)).tools;
  };
  const passedTools = (ours: readonly { readonly name: string }[]): ReadonlyMap<string, PassedTool> => {
    if (upstream === undefined || profile.passThrough.length === 0) return new Map();
    return shownTools(upstream.tools(caller, profile.passThrough), new Set(ours.map(({ name }) => name)));
  };
  const passedTool = async (name: string) =>
    profile.passThrough.length === 0 ? undefined : passedTools(await surfaceTools()).get(name);

  const resources = () => (profile.resources ? byServer(upstream?.resources(caller) ?? []) : []);
  const templates = () => (profile.resources ? byServer(upstream?.templates(caller) ?? []) : []);
  const prompts = () => shownPrompts(profile.prompts ? (upstream?.prompts(caller) ?? []) : []);
  const serverOf = (uri: string): string => {
    const server = whoseResource(uri, resources(), templates());
    if (server === undefined) throw new ResourceNotFoundError(uri);
    return server;
  };

  return {
    caller,
    async tools() {
      const ours = await surfaceTools();
      return [...ours.map(toolDefinition), ...definitions(passedTools(ours), ({ definition }) => definition)];
    },
    async callTool(name, args, talk) {
      const passed = await passedTool(name);
      if (passed !== undefined) return passedResult(await invoke(passed.action, args, talk));
      if (!hasSurface(profile)) throw unknown("tool", name);
      const surface = await keeper.of(caller);
      const answer = await surface.call(name, args, talk.signal, talk.dialogue, talk.trace);
      const problem = answer.data;
      if (!answer.ok && isRecord(problem) && problem.code === "unknown_action") {
        // Not known as a tool of ours either: it is the client that is wrong. A wrong name in the arguments is the model's.
        if (!surface.tools.some((tool) => tool.name === name)) throw invalidParams(problem as never);
      }
      return answerResult(answer, era);
    },
    async outputSchemaOf(name) {
      const schema = (await passedTool(name))?.definition.outputSchema;
      return isRecord(schema) ? (schema as JsonObject) : undefined;
    },
    resources: () =>
      listed(
        resources().map(({ resource }) => resource),
        "uri",
      ),
    templates: () =>
      listed(
        templates().map(({ template }) => template),
        "uriTemplate",
      ),
    async readResource(uri, talk) {
      return rawResult(await ofServer(serverOf(uri), "resources/read", { uri }, talk));
    },
    async subscribe(uri, follower, talk) {
      const server = serverOf(uri);
      // First, so that no update is lost between the server's yes and ours.
      if (!subscriptions.add(follower, server, uri)) {
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, "Too many subscriptions: end some of yours first");
      }
      try {
        rawResult(await ofServer(server, "resources/subscribe", { uri }, talk));
      } catch (thrown) {
        subscriptions.remove(follower, server, uri);
        throw thrown;
      }
    },
    async unsubscribe(uri, follower, talk) {
      const server = serverOf(uri);
      if (!subscriptions.remove(follower, server, uri)) return;
      rawResult(await ofServer(server, "resources/unsubscribe", { uri }, talk));
    },
    async unfollow(follower) {
      const talk = { signal: AbortSignal.timeout(LEAVING_MS) };
      for (const { server, uri } of subscriptions.drop(follower)) {
        await ofServer(server, "resources/unsubscribe", { uri }, talk);
      }
    },
    prompts: () => definitions(prompts(), ({ prompt }) => prompt),
    async getPrompt(name, args, talk) {
      const shown = prompts().get(name);
      if (shown === undefined) throw unknown("prompt", name);
      const own = { name: String(shown.prompt.name), arguments: (args ?? {}) as JsonObject };
      return rawResult(await ofServer(shown.server, "prompts/get", own, talk));
    },
    async complete(params, talk) {
      const { server, ref } = referred(params.ref, prompts(), templates());
      return rawResult(await ofServer(server, "completion/complete", { ...params, ref }, talk));
    },
  };
}

const LEAVING_MS = 5_000;

/** What a completion is for, by the name that its server knows it by. */
function referred(
  ref: unknown,
  prompts: ReturnType<typeof shownPrompts>,
  templates: ReturnType<Upstream["templates"]>,
): { readonly server: string; readonly ref: JsonObject } {
  const { type, name, uri } = isRecord(ref) ? ref : {};
  if (type === "ref/prompt") {
    const shown = prompts.get(String(name));
    if (shown === undefined) throw unknown("prompt", String(name));
    return { server: shown.server, ref: { ...(ref as JsonObject), name: String(shown.prompt.name) } };
  }
  const server = whoseTemplate(String(uri), templates);
  if (server === undefined) throw unknown("resource template", String(uri));
  return { server, ref: ref as JsonObject };
}

function byServer<T extends { readonly server: string }>(offered: readonly T[]): readonly T[] {
  return [...offered].sort((a, b) => (a.server === b.server ? 0 : a.server < b.server ? -1 : 1));
}

/** Sorted, and each once: the first server's, which is the one that is asked. */
function listed(offered: readonly JsonObject[], key: string): readonly JsonObject[] {
  const byKey = new Map<string, JsonObject>();
  for (const one of offered) if (!byKey.has(String(one[key]))) byKey.set(String(one[key]), one);
  return [...byKey].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one);
}

function unknown(what: string, name: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown ${what}: ${name.slice(0, 200)}`);
}
