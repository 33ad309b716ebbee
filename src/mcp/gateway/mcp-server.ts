import {
  CLIENT_CAPABILITIES_META_KEY,
  type jsonSchemaValidator,
  ProtocolError,
  ProtocolErrorCode,
  type Result,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { SKILLS_EXTENSION_ID, SKILLS_GET_METHOD, SKILLS_LIST_METHOD } from "@modelcontextprotocol/server/ext/skills";
import { z } from "zod";
import type { Caller } from "../../core/caller.ts";
import { getErrorMessage } from "../../core/errors.ts";
import { type JsonObject, omitUndefined } from "../../core/json.ts";
import type { McpTelemetry } from "../../telemetry/mcp-span.ts";
import type { ListWatcher, ResourceSubscriber } from "./change-notifications.ts";
import { createPushDialogue, type RequestContext } from "./client-dialogue.ts";
import type { GatewayEra, GatewayLimits, GatewayOptions, GatewayProfile } from "./gateway.ts";
import { type CallParams, GatewayServer } from "./gateway-server.ts";
import type { HeldCalls } from "./held-calls.ts";
import { hasSurface, type ProfileService, type ServiceCallOptions, type ServiceClient } from "./profile-service.ts";

/** Shared by all endpoints of a gateway. */
export interface SharedParts {
  readonly options: GatewayOptions;
  readonly limits: GatewayLimits;
  readonly telemetry: McpTelemetry;
  readonly held: HeldCalls;
}

interface McpServerOptions extends SharedParts {
  readonly profile: GatewayProfile;
  readonly service: ProfileService;
  readonly era: GatewayEra;
  readonly transport: "stdio" | "http";
  /** Only the same principal may continue a held call. */
  readonly principal: string;
  /** Absent: the client has no connection, and every request stands alone. */
  readonly session?: string;
  resolveClient(ctx: RequestContext): ServiceClient;
  /** Its caller alone, which records nothing. */
  resolveCaller(ctx: RequestContext): Caller;
  /** Told which lists the client was sent. */
  readonly watch: Pick<ListWatcher, "listed">;
  /** Called after each tool call, which may have changed the client's tools. */
  afterCall?(): void;
  /** Absent: the client cannot subscribe with `resources/subscribe`. */
  readonly subscriber?: ResourceSubscriber;
}

/** A method that may ask the client questions while it runs. */
type Interaction = (client: ServiceClient, call: ServiceCallOptions) => Promise<Result | JsonObject>;

/** Clients are told when a list changes. This limits how long a client that does not listen uses an old one. */
const LIST_HINT = { ttlMs: 60_000, cacheScope: "private" } as const;

const LIST_PARAMS = z.looseObject({ cursor: z.string().optional() });
const GET_PARAMS = z.looseObject({ uri: z.string() });

/** The code that asked a question checks the answer. Foreign schemas are not compiled here. */
const acceptAnySchema: jsonSchemaValidator = {
  getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
};

/** An MCP server over a profile's service. It makes no decisions. */
export function createMcpServer(parts: McpServerOptions): GatewayServer {
  const { options, profile, service, era, transport, resolveClient } = parts;
  const hasResources = options.upstream !== undefined && profile.resources;
  const hasSkills = hasSurface(profile);
  const hasPrompts = options.upstream !== undefined && profile.prompts;
  const settings = omitUndefined({
    capabilities: omitUndefined({
      tools: { listChanged: true },
      logging: {},
      resources: hasResources ? { listChanged: true, subscribe: true } : hasSkills ? { listChanged: true } : undefined,
      prompts: hasPrompts ? { listChanged: true } : undefined,
      completions: hasResources || hasPrompts ? {} : undefined,
      extensions: hasSkills ? { [SKILLS_EXTENSION_ID]: {} } : undefined,
    }),
    jsonSchemaValidator: acceptAnySchema,
    cacheHints: {
      "tools/list": LIST_HINT,
      "resources/list": LIST_HINT,
      "resources/templates/list": LIST_HINT,
      "prompts/list": LIST_HINT,
      "server/discover": LIST_HINT,
      "resources/read": { ttlMs: 0, cacheScope: "private" },
    },
  } as const);
  // Over stdio the session's id is internal, and in the modern era there is no session.
  const session = era === "legacy" && transport === "http" ? parts.session : undefined;
  const tracing = { telemetry: parts.telemetry, transport, session };
  const server = new GatewayServer(settings, { era, info: options.info, tracing, getInstructions, callTool });
  server.onerror = (error) => options.onProblem(`${profile.name}: ${error.message}`);

  handleList("tools/list", "tools", "tools");
  server.setRequestHandler("tools/call", ({ params }, ctx) => callTool(params, ctx) as never);

  if (hasSkills) {
    // The SDK serves skills only with a server class of its own, so its methods are handled here.
    const hint = era === "modern" ? LIST_HINT : {};
    server.setRequestHandler(SKILLS_LIST_METHOD, { params: LIST_PARAMS }, async ({ cursor }, ctx) => {
      const client = resolveClient(ctx);
      const summary = service.skills(client);
      const page = await service.listSkills(client, cursor);
      parts.watch.listed("skills", summary);
      return { ...page, ...hint };
    });
    server.setRequestHandler(SKILLS_GET_METHOD, { params: GET_PARAMS }, async ({ uri }, ctx) => ({
      skill: await service.getSkill(resolveClient(ctx), uri),
      ...hint,
    }));
  }
  if (hasResources || hasSkills) {
    handleList("resources/list", "resources", "resources");
    handleList("resources/templates/list", "templates", "resourceTemplates");
    server.setRequestHandler("resources/read", async ({ params: { uri } }, ctx) => {
      const read: Interaction = (client, call) => service.readResource(client, uri, call);
      return (await runInteractive("resources/read", { uri }, ctx, read)) as never;
    });
    const { subscriber } = parts;
    if (hasResources && subscriber !== undefined && era === "legacy") {
      for (const method of ["subscribe", "unsubscribe"] as const)
        server.setRequestHandler(`resources/${method}`, async ({ params: { uri } }, ctx) => {
          await service[method](resolveClient(ctx), uri, subscriber, createCallOptions(ctx));
          return {};
        });
    }
  }
  if (hasPrompts) {
    handleList("prompts/list", "prompts", "prompts");
    server.setRequestHandler("prompts/get", async ({ params: { name, arguments: args } }, ctx) => {
      const get: Interaction = (client, call) => service.getPrompt(client, name, args, call);
      return (await runInteractive("prompts/get", { name, arguments: args ?? {} }, ctx, get)) as never;
    });
  }
  if (hasResources || hasPrompts) {
    server.setRequestHandler("completion/complete", async ({ params }, ctx) => {
      const { ref, argument, context } = params as unknown as JsonObject;
      const given = omitUndefined({ ref, argument, context }) as JsonObject;
      return (await service.complete(resolveClient(ctx), given, createCallOptions(ctx))) as never;
    });
  }
  return server;

  async function callTool(params: CallParams, ctx: RequestContext, client?: ServiceClient): Promise<Result> {
    const { name, arguments: args = {} } = params;
    const call: Interaction = (client, options) => service.callTool(client, name, args, options);
    const result = await runInteractive("tools/call", { name, arguments: args }, ctx, call, client);
    parts.afterCall?.();
    return result;
  }

  function handleList(method: string, list: "tools" | "resources" | "templates" | "prompts", key: string): void {
    server.setRequestHandler(method as "tools/list", async ({ params }, ctx) => {
      if (params?.cursor !== undefined)
        throw new ProtocolError(ProtocolErrorCode.InvalidParams, "Invalid cursor: every list is one page");
      const items = await service[list](resolveClient(ctx));
      parts.watch.listed(list, items);
      return { [key]: items } as never;
    });
  }

  async function getInstructions(ctx: ServerContext): Promise<string | undefined> {
    try {
      return await service.getInstructions(parts.resolveCaller(ctx));
    } catch (thrown) {
      // The actor cannot be used. The client gets the same error from its first request.
      options.onProblem(`${profile.name}: ${getErrorMessage(thrown)}`);
      return undefined;
    }
  }

  /** Questions are asked in the way of the client's era. */
  function runInteractive(
    method: string,
    params: Record<string, unknown>,
    ctx: RequestContext,
    run: Interaction,
    client = resolveClient(ctx),
  ): Promise<Result> {
    const call = createCallOptions(ctx);
    if (era === "legacy") {
      const dialogue = createPushDialogue(ctx, {
        owner: parts.session ?? options.runtime.newId(),
        capabilities: server.getClientCapabilities(),
        protocolVersion: server.getNegotiatedProtocolVersion() ?? "",
        questionMs: parts.limits.questionMs,
        newId: options.runtime.newId,
      });
      return run(client, { dialogue, ...call }) as Promise<Result>;
    }
    return parts.held.serve({
      ctx,
      principal: parts.principal,
      client: client.caller.client,
      profile: profile.name,
      method,
      params,
      owner: parts.session,
      capabilities: (ctx.mcpReq.envelope as JsonObject | undefined)?.[CLIENT_CAPABILITIES_META_KEY],
      start: (dialogue, signal) => run(client, { dialogue, ...call, signal }) as Promise<Result>,
    });
  }

  function createCallOptions(ctx: RequestContext): ServiceCallOptions {
    const trace = server.getTrace(ctx);
    return { signal: ctx.mcpReq.signal, ...(trace === undefined ? {} : { trace }) };
  }
}
