import {
  CLIENT_INFO_META_KEY,
  createMcpHandler,
  type McpHttpHandler,
  PROTOCOL_VERSION_META_KEY,
  type Server,
  type ServerContext,
} from "@modelcontextprotocol/server";
import type { Caller } from "../../core/caller.ts";
import { messageOf } from "../../core/errors.ts";
import { isRecord } from "../../core/json.ts";
import { oneLine } from "../../core/plain-text.ts";
import type { McpTelemetry } from "../../telemetry/mcp-span.ts";
import {
  callerFrom,
  createClientSessions,
  parseSessionName,
  SESSION_HEADER,
  SESSION_META_KEY,
} from "./client-sessions.ts";
import { createDesk, type Desk, hasSurface } from "./desk.ts";
import type { Era, GatewayLimits, GatewayOptions, GatewayProfile } from "./gateway.ts";
import type { HeldCalls } from "./held-calls.ts";
import { createListWatch, type ListName, type ListWatch } from "./list-watch.ts";
import { createMcpServer } from "./mcp-server.ts";
import type { Follower, Subscriptions } from "./subscriptions.ts";
import { createSurfaceKeeper } from "./surface-keeper.ts";
import { TRANSPORTS } from "./traced-server.ts";

export interface FaceParts {
  readonly options: GatewayOptions;
  readonly limits: GatewayLimits;
  readonly telemetry: McpTelemetry;
  readonly held: HeldCalls;
  readonly subscriptions: Subscriptions;
}

export type Change = "tools" | "resources" | "prompts";

/** A client with a connection of its own: a session of the legacy era, or a pipe. */
export interface Connection {
  readonly server: Server;
  readonly desk: Desk;
  readonly follower: Follower;
  /** The client has gone. */
  close(): void;
}

export interface ConnectionFacts {
  readonly era: Era;
  /** Of calls that name no session of their own. */
  readonly session: string;
  readonly principal: string;
  /** As `ClientFacts` have it: the same after a restart. */
  readonly account: string;
  /** The session's name for the whole connection, where the client gave one. */
  readonly name?: string | undefined;
  readonly transport: "stdio" | "http";
}

/** What the clients of one profile meet. */
export interface Face {
  readonly profile: GatewayProfile;
  /** Requests of the modern era, each standing alone. */
  serveModern(request: Request, body: unknown, principal: string): Promise<Response>;
  connect(facts: ConnectionFacts): Connection;
  changed(what: Change): void;
  close(): Promise<void>;
}

const CLIENTS_NOTED = 1000;

/** How a client of either era is told that a list has changed. */
const NOTIFIED = {
  tools: "toolsChanged",
  resources: "resourcesChanged",
  templates: "resourcesChanged",
  prompts: "promptsChanged",
} as const;
const SENT = {
  tools: "sendToolListChanged",
  resources: "sendResourceListChanged",
  templates: "sendResourceListChanged",
  prompts: "sendPromptListChanged",
} as const;

export function createFace(parts: FaceParts, profile: GatewayProfile): Face {
  const { options, limits, telemetry, held, subscriptions } = parts;
  const { quartermaster, upstream, runtime, onProblem } = options;
  const keeper = createSurfaceKeeper(quartermaster, runtime, profile);
  const connections = new Map<Connection, ListWatch>();
  const clients = createClientSessions({
    profile,
    runtime,
    idleMs: limits.sessionIdleMs,
    lastEvent: async (prefix) => (await quartermaster.ledger.read({ lastSessionOf: prefix, limit: 1 }))[0],
  });
  const known = new WeakMap<Request, { readonly principal: string; readonly caller: Caller }>();
  const noted = new Set<string>();
  const problem = (thrown: unknown) => onProblem(`${profile.name}: ${messageOf(thrown)}`);

  const deskFor = (caller: Caller, era: Era): Desk =>
    createDesk({ quartermaster, upstream, keeper, subscriptions, profile, era, caller });
  const common = { options, runtime, limits, telemetry, held, profile };

  const modernWatch = createListWatch({
    current: (what) => deskFor(sessionless(profile), "modern")[what](),
    changed: (what) => modern.notify[NOTIFIED[what]](),
    onProblem: problem,
  });
  const modern: McpHttpHandler = createMcpHandler(
    ({ requestInfo }) => {
      const { principal, caller } = (requestInfo && known.get(requestInfo)) ?? {
        principal: "",
        caller: sessionless(profile),
      };
      return createMcpServer({
        ...common,
        era: "modern",
        transport: "http",
        principal,
        deskOf(ctx) {
          noteClient(caller, "http", ctx);
          return deskFor(caller, "modern");
        },
        watch: modernWatch,
      });
    },
    { legacy: "reject", maxRequestBodySize: limits.bodyBytes, onerror: problem },
  );

  /** A client without a connection comes with every request; it is written down once a session. */
  function noteClient(caller: Caller, transport: string, { mcpReq: { envelope } }: ServerContext): void {
    const said = envelope as Readonly<Record<string, unknown>> | undefined;
    const client = clientText(said?.[CLIENT_INFO_META_KEY]);
    const key = JSON.stringify([caller.session, client]);
    const isNoted = noted.delete(key);
    noted.add(key);
    const [oldest] = noted;
    if (noted.size > CLIENTS_NOTED && oldest !== undefined) noted.delete(oldest);
    if (isNoted) return;
    note(caller, client, String(said?.[PROTOCOL_VERSION_META_KEY] ?? ""), transport);
  }

  function note(caller: Caller, client: string, protocol: string, transport: string): void {
    options.note?.(caller, {
      type: "client.connected",
      data: { profile: profile.name, client, protocol: oneLine(protocol.slice(0, 40)), transport },
    });
  }

  function connect({ era, session, principal, account, name, transport }: ConnectionFacts): Connection {
    const began = telemetry.elapsed();
    const callerOf = (ctx?: ServerContext): Caller => {
      const named = parseSessionName(ctx?.mcpReq._meta?.[SESSION_META_KEY]) ?? name;
      const said = ctx?.mcpReq.envelope as Readonly<Record<string, unknown>> | undefined;
      const info = said?.[CLIENT_INFO_META_KEY] ?? server.getClientVersion();
      return callerFrom(profile, { account, info, name: named }, session);
    };
    const watch = createListWatch({
      current: (what) => deskFor(callerOf(), era)[what](),
      changed: (what) => void server[SENT[what]]().catch(() => {}),
      onProblem: problem,
    });
    let surfaceTools: unknown;
    const lookIfOther = async () => {
      const { tools } = await keeper.of(callerOf());
      if (tools !== surfaceTools) watch.look("tools");
      surfaceTools = tools;
    };
    const follower: Follower = {
      audience: {},
      tell: (uri) => void server.sendResourceUpdated({ uri }).catch(() => {}),
    };
    const server: Server = createMcpServer({
      ...common,
      era,
      transport,
      principal,
      session,
      deskOf(ctx) {
        const caller = callerOf(ctx);
        if (era === "modern") noteClient(caller, transport, ctx);
        return deskFor(caller, era);
      },
      watch,
      called() {
        // In the modern era a list does not change because of calls, and what servers offer never does.
        if (era === "legacy" && hasSurface(profile)) lookIfOther().catch(problem);
      },
      follower: () => follower,
    });
    server.oninitialized = () =>
      note(callerOf(), clientText(server.getClientVersion()), server.getNegotiatedProtocolVersion() ?? "", transport);
    const connection: Connection = {
      server,
      get desk() {
        return deskFor(callerOf(), era);
      },
      follower,
      close() {
        if (!connections.delete(connection)) return;
        watch.close();
        if (era === "legacy") {
          const facts = { "mcp.protocol.version": server.getNegotiatedProtocolVersion(), ...TRANSPORTS[transport] };
          telemetry.tracer.took("mcp.server.session.duration", (telemetry.elapsed() - began) / 1000, facts);
        }
        connection.desk.unfollow(follower).catch(problem);
      },
    };
    connections.set(connection, watch);
    return connection;
  }

  /** Follows what a listening client named, for as long as it listens. */
  function follow(request: Request, body: unknown, caller: Caller): void {
    const uris = listenedUris(body);
    if (uris.length === 0 || request.signal.aborted) return;
    const desk = deskFor(caller, "modern");
    const follower: Follower = { audience: modern, tell: (uri) => modern.notify.resourceUpdated(uri) };
    request.signal.addEventListener("abort", () => void desk.unfollow(follower).catch(problem), { once: true });
    // What it may not follow it does not hear of; the rest of what it listens to is none the worse.
    for (const uri of uris) desk.subscribe(uri, follower, { signal: request.signal }).catch(() => {});
  }

  return {
    profile,
    async serveModern(request, body, principal) {
      const meta = metaOf(body);
      const info = meta[CLIENT_INFO_META_KEY];
      const name = parseSessionName(meta[SESSION_META_KEY] ?? request.headers.get(SESSION_HEADER));
      const caller = await clients.callerOf({ account: principal, info, name }, meta.traceparent);
      known.set(request, { principal, caller });
      const response = await modern.fetch(request, { parsedBody: body });
      if (response.ok) follow(request, body, caller);
      return response;
    },
    connect,
    changed(what) {
      if (what === "tools") keeper.changed();
      const lists: readonly ListName[] = what === "resources" ? ["resources", "templates"] : [what];
      for (const watch of [modernWatch, ...connections.values()]) for (const list of lists) watch.look(list);
    },
    async close() {
      modernWatch.close();
      await modern.close();
      await Promise.all([...connections.keys()].map(({ server }) => server.close().catch(() => {})));
    },
  };
}

/** What a listening client wants to hear of; checked further by whoever answers it. */
export function listenedUris(body: unknown): readonly string[] {
  if (!isRecord(body) || body.method !== "subscriptions/listen" || !isRecord(body.params)) return [];
  const { notifications } = body.params;
  const uris = isRecord(notifications) ? notifications.resourceSubscriptions : undefined;
  return Array.isArray(uris) ? uris.filter((uri) => typeof uri === "string").slice(0, URIS_LIMIT) : [];
}

const URIS_LIMIT = 100;

/** For what is looked at on behalf of all clients of a profile. */
function sessionless({ name, actor }: GatewayProfile): Caller {
  return { actor, session: `mcp:${name}` };
}

/** The `_meta` of a request, checked further by whoever answers it. */
function metaOf(body: unknown): Readonly<Record<string, unknown>> {
  const params = isRecord(body) ? body.params : undefined;
  const meta = isRecord(params) ? params._meta : undefined;
  return isRecord(meta) ? meta : {};
}

/** It says itself who it is, so nothing may depend on it. */
function clientText(info: unknown): string {
  const { name, version } = isRecord(info) ? info : {};
  const text = [name, version].filter((part) => typeof part === "string").join(" ");
  return oneLine(text.slice(0, 120)) || "unknown";
}
