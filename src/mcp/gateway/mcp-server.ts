import {
  CLIENT_CAPABILITIES_META_KEY,
  type jsonSchemaValidator,
  ProtocolError,
  ProtocolErrorCode,
  type Result,
  type Server,
  type ServerCapabilities,
  type ServerContext,
} from "@modelcontextprotocol/server";
import type { JsonObject } from "../../core/json.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { McpTelemetry } from "../../telemetry/mcp-span.ts";
import type { Desk, Talk } from "./desk.ts";
import type { Era, GatewayLimits, GatewayOptions, GatewayProfile } from "./gateway.ts";
import type { HeldCalls } from "./held-calls.ts";
import type { ListWatch } from "./list-watch.ts";
import { pushedDialogue } from "./pushed-dialogue.ts";
import type { Follower } from "./subscriptions.ts";
import { TracedServer } from "./traced-server.ts";

export interface McpServerParts {
  readonly options: Pick<GatewayOptions, "info" | "instructions" | "onProblem" | "upstream">;
  readonly runtime: Runtime;
  readonly limits: GatewayLimits;
  readonly telemetry: McpTelemetry;
  readonly held: HeldCalls;
  readonly profile: GatewayProfile;
  readonly era: Era;
  readonly transport: "stdio" | "http";
  /** Who asks; nobody else goes on with what they began. */
  readonly principal: string;
  /** The session of a client with a connection of its own. Absent: every request stands alone. */
  readonly session?: string;
  deskOf(ctx: ServerContext): Desk;
  /** Told what lists the client was given. */
  readonly watch: Pick<ListWatch, "listed">;
  /** Told that a call was answered, which may have changed what the client is shown. */
  called?(): void;
  /** Who is told when a resource that the client subscribed to has changed. Absent: it cannot subscribe this way. */
  readonly follower?: (server: Server) => Follower;
}

type Asking = "tools/call" | "prompts/get" | "resources/read";

/** Lists change when servers come and go, and clients are told; this bounds how long one that does not listen is wrong. */
const LIST_HINT = { ttlMs: 60_000, cacheScope: "private" } as const;
const FRESH_HINT = { ttlMs: 0, cacheScope: "private" } as const;

/** What a client's answers are is for whoever asked to check: schemas of strangers are not compiled here. */
const unchecked: jsonSchemaValidator = {
  getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
};

/** One MCP server over a desk: every method that clients use, and nothing decided here. */
export function createMcpServer(parts: McpServerParts): Server {
  const { options, profile, era, deskOf } = parts;
  const { resources, prompts } = offered(parts);
  const instructions = options.instructions?.(profile);
  const settings = {
    capabilities: capabilitiesOf(parts),
    ...(instructions === undefined ? {} : { instructions }),
    jsonSchemaValidator: unchecked,
    cacheHints: {
      "tools/list": LIST_HINT,
      "resources/list": LIST_HINT,
      "resources/templates/list": LIST_HINT,
      "prompts/list": LIST_HINT,
      "server/discover": LIST_HINT,
      "resources/read": FRESH_HINT,
    },
  };
  const { telemetry, transport } = parts;
  // On a pipe a session is ours alone, and without sessions there is none to tell.
  const session = era === "legacy" && transport === "http" ? parts.session : undefined;
  const server = new TracedServer(options.info, settings, { telemetry, transport, session });
  server.onerror = (error) => options.onProblem(`${profile.name}: ${error.message}`);

  server.setRequestHandler("tools/list", async ({ params }, ctx) => {
    onePage(params);
    const tools = await deskOf(ctx).tools();
    parts.watch.listed("tools", tools);
    return { tools } as never;
  });
  server.setRequestHandler("tools/call", async ({ params }, ctx) => {
    const { name, arguments: args } = params;
    const desk = deskOf(ctx);
    const result = await asking("tools/call", { name, arguments: args ?? {} }, ctx, async (talk) => {
      const answered = await desk.callTool(name, args ?? {}, talk);
      return server.projectCallToolResult(answered, await desk.outputSchemaOf(name)) as Result;
    });
    parts.called?.();
    return result as never;
  });

  if (resources) {
    server.setRequestHandler("resources/list", ({ params }, ctx) => {
      onePage(params);
      const items = deskOf(ctx).resources();
      parts.watch.listed("resources", items);
      return { resources: items } as never;
    });
    server.setRequestHandler("resources/templates/list", ({ params }, ctx) => {
      onePage(params);
      const items = deskOf(ctx).templates();
      parts.watch.listed("templates", items);
      return { resourceTemplates: items } as never;
    });
    server.setRequestHandler("resources/read", async ({ params: { uri } }, ctx) => {
      return (await asking("resources/read", { uri }, ctx, (talk) => deskOf(ctx).readResource(uri, talk))) as never;
    });
    const follower = parts.follower?.(server);
    if (follower !== undefined && era === "legacy") {
      server.setRequestHandler("resources/subscribe", async ({ params: { uri } }, ctx) => {
        await deskOf(ctx).subscribe(uri, follower, silent(ctx));
        return {};
      });
      server.setRequestHandler("resources/unsubscribe", async ({ params: { uri } }, ctx) => {
        await deskOf(ctx).unsubscribe(uri, follower, silent(ctx));
        return {};
      });
    }
  }
  if (prompts) {
    server.setRequestHandler("prompts/list", ({ params }, ctx) => {
      onePage(params);
      const items = deskOf(ctx).prompts();
      parts.watch.listed("prompts", items);
      return { prompts: items } as never;
    });
    server.setRequestHandler("prompts/get", async ({ params: { name, arguments: args } }, ctx) => {
      const asked = { name, arguments: args ?? {} };
      return (await asking("prompts/get", asked, ctx, (talk) => deskOf(ctx).getPrompt(name, args, talk))) as never;
    });
  }
  if (resources || prompts) {
    server.setRequestHandler("completion/complete", async ({ params }, ctx) => {
      const { ref, argument, context } = params as unknown as JsonObject;
      const asked = { ...(ref && { ref }), ...(argument && { argument }), ...(context && { context }) };
      return (await deskOf(ctx).complete(asked, silent(ctx))) as never;
    });
  }
  return server;

  /** Runs what may ask the client something meanwhile, in the way of its era. */
  function asking(
    method: Asking,
    params: JsonObject | { readonly [key: string]: unknown },
    ctx: ServerContext,
    run: (talk: Talk) => Promise<Result | JsonObject>,
  ): Promise<Result> {
    const talk = silent(ctx);
    if (era === "legacy") {
      const dialogue = pushedDialogue(ctx, {
        owner: parts.session ?? parts.runtime.newId(),
        capabilities: server.getClientCapabilities(),
        protocolVersion: server.getNegotiatedProtocolVersion() ?? "",
        questionMs: parts.limits.questionMs,
        newId: parts.runtime.newId,
      });
      return run({ ...talk, dialogue }) as Promise<Result>;
    }
    return parts.held.serve({
      ctx,
      principal: parts.principal,
      client: deskOf(ctx).caller.client,
      profile: profile.name,
      method,
      params,
      owner: parts.session,
      capabilities: (ctx.mcpReq.envelope as JsonObject | undefined)?.[CLIENT_CAPABILITIES_META_KEY],
      start: (dialogue, signal) => run({ ...talk, signal, dialogue }) as Promise<Result>,
    });
  }

  function silent(ctx: ServerContext): Talk {
    const trace = server.traceOf(ctx);
    return { signal: ctx.mcpReq.signal, ...(trace === undefined ? {} : { trace }) };
  }
}

function offered({ options: { upstream }, profile }: McpServerParts) {
  return { resources: upstream !== undefined && profile.resources, prompts: upstream !== undefined && profile.prompts };
}

function capabilitiesOf(parts: McpServerParts): ServerCapabilities {
  const { resources, prompts } = offered(parts);
  return {
    tools: { listChanged: true },
    logging: {},
    ...(resources ? { resources: { listChanged: true, subscribe: true } } : {}),
    ...(prompts ? { prompts: { listChanged: true } } : {}),
    ...(resources || prompts ? { completions: {} } : {}),
  };
}

/** Every list is one page, so no cursor was ever given out. */
function onePage(params: { readonly cursor?: string | undefined } | undefined): void {
  if (params?.cursor === undefined) return;
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, "Invalid cursor: every list is one page");
}
