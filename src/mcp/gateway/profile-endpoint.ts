import {
  CLIENT_INFO_META_KEY,
  createMcpHandler,
  type McpHttpHandler,
  PROTOCOL_VERSION_META_KEY,
  type Server,
  type ServerContext,
} from "@modelcontextprotocol/server";
import type { Caller } from "../../core/caller.ts";
import { toOneLine } from "../../core/display-text.ts";
import { getErrorMessage } from "../../core/errors.ts";
import { isRecord } from "../../core/json.ts";
import type { McpTelemetry } from "../../telemetry/mcp-span.ts";
import type { ResourceSubscriber, ResourceSubscriptions } from "./change-notifications.ts";
import { createListWatcher, type ListName, type ListWatcher } from "./change-notifications.ts";
import {
  createClientCaller,
  createClientSessions,
  parseSessionName,
  SESSION_HEADER,
  SESSION_META_KEY,
} from "./client-sessions.ts";
import type { GatewayEra, GatewayLimits, GatewayOptions, GatewayProfile } from "./gateway.ts";
import type { HeldCalls } from "./held-calls.ts";
import { createMcpServer, TRANSPORT_FACTS } from "./mcp-server.ts";
import { createProfileSession, hasSurface, type ProfileSession } from "./profile-session.ts";
import { createSurfaceCache } from "./surface-cache.ts";

export interface ProfileEndpointOptions {
  readonly options: GatewayOptions;
  readonly limits: GatewayLimits;
  readonly telemetry: McpTelemetry;
  readonly held: HeldCalls;
  readonly subscriptions: ResourceSubscriptions;
}

export type ListChange = "tools" | "resources" | "prompts";

/** A client with a connection of its own: a session of the legacy era, or a pipe. */
export interface ClientConnection {
  readonly server: Server;
  readonly profileSession: ProfileSession;
  readonly follower: ResourceSubscriber;
  /** The client has gone. */
  close(): void;
}

export interface ClientConnectionOptions {
  readonly era: GatewayEra;
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
export interface ProfileEndpoint {
  readonly profile: GatewayProfile;
  /** Requests of the modern era, each standing alone. */
  serveModern(request: Request, body: unknown, principal: string): Promise<Response>;
  connect(facts: ClientConnectionOptions): ClientConnection;
  notifyChanged(what: ListChange): void;
  close(): Promise<void>;
}

const NOTED_CLIENTS_LIMIT = 1000;

/** How a client of either era is told that a list has changed. */
const MODERN_NOTIFICATIONS = {
  tools: "toolsChanged",
  resources: "resourcesChanged",
  templates: "resourcesChanged",
  prompts: "promptsChanged",
} as const;
const LEGACY_NOTIFICATIONS = {
  tools: "sendToolListChanged",
  resources: "sendResourceListChanged",
  templates: "sendResourceListChanged",
  prompts: "sendPromptListChanged",
} as const;

export function createProfileEndpoint(parts: ProfileEndpointOptions, profile: GatewayProfile): ProfileEndpoint {
  const { options, limits, telemetry, held, subscriptions } = parts;
  const { quartermaster, upstream, runtime, onProblem } = options;
  const keeper = createSurfaceCache(quartermaster, runtime, profile);
  const connections = new Map<ClientConnection, ListWatcher>();
  const clients = createClientSessions({
    profile,
    runtime,
    idleMs: limits.sessionIdleMs,
    lastEvent: async (prefix) => (await quartermaster.ledger.read({ lastSessionOf: prefix, limit: 1 }))[0],
  });
  const known = new WeakMap<Request, { readonly principal: string; readonly caller: Caller }>();
  const noted = new Set<string>();
  const problem = (thrown: unknown) => onProblem(`${profile.name}: ${getErrorMessage(thrown)}`);

  const createSession = (caller: Caller, era: GatewayEra): ProfileSession =>
    createProfileSession({ quartermaster, upstream, keeper, subscriptions, profile, era, caller });
  const common = { options, runtime, limits, telemetry, held, profile };

  const modernWatch = createListWatcher({
    current: (what) => createSession(createSessionlessCaller(profile), "modern")[what](),
    changed: (what) => modern.notify[MODERN_NOTIFICATIONS[what]](),
    onProblem: problem,
  });
  const modern: McpHttpHandler = createMcpHandler(
    ({ requestInfo }) => {
      const { principal, caller } = (requestInfo && known.get(requestInfo)) ?? {
        principal: "",
        caller: createSessionlessCaller(profile),
      };
      return createMcpServer({
        ...common,
        era: "modern",
        transport: "http",
        principal,
        resolveSession(ctx) {
          noteClient(caller, "http", ctx);
          return createSession(caller, "modern");
        },
        watch: modernWatch,
      });
    },
    { legacy: "reject", maxRequestBodySize: limits.bodyBytes, onerror: problem },
  );

  /** A client without a connection comes with every request; it is written down once a session. */
  function noteClient(caller: Caller, transport: string, { mcpReq: { envelope } }: ServerContext): void {
    const said = envelope as Readonly<Record<string, unknown>> | undefined;
    const client = formatClientInfo(said?.[CLIENT_INFO_META_KEY]);
    const key = JSON.stringify([caller.session, client]);
    const isNoted = noted.delete(key);
    noted.add(key);
    const [oldest] = noted;
    if (noted.size > NOTED_CLIENTS_LIMIT && oldest !== undefined) noted.delete(oldest);
    if (isNoted) return;
    note(caller, client, String(said?.[PROTOCOL_VERSION_META_KEY] ?? ""), transport);
  }

  function note(caller: Caller, client: string, protocol: string, transport: string): void {
    options.note?.(caller, {
      type: "client.connected",
      data: { profile: profile.name, client, protocol: toOneLine(protocol.slice(0, 40)), transport },
    });
  }

  function connect({ era, session, principal, account, name, transport }: ClientConnectionOptions): ClientConnection {
    const began = telemetry.elapsed();
    const resolveCaller = (ctx?: ServerContext): Caller => {
      const named = parseSessionName(ctx?.mcpReq._meta?.[SESSION_META_KEY]) ?? name;
      const said = ctx?.mcpReq.envelope as Readonly<Record<string, unknown>> | undefined;
      const info = said?.[CLIENT_INFO_META_KEY] ?? server.getClientVersion();
      return createClientCaller(profile, { account, info, name: named }, session);
    };
    const watch = createListWatcher({
      current: (what) => createSession(resolveCaller(), era)[what](),
      changed: (what) => void server[LEGACY_NOTIFICATIONS[what]]().catch(() => {}),
      onProblem: problem,
    });
    let surfaceTools: unknown;
    const checkSurfaceTools = async () => {
      const { tools } = await keeper.get(resolveCaller());
      if (tools !== surfaceTools) watch.scheduleCheck("tools");
      surfaceTools = tools;
    };
    const follower: ResourceSubscriber = {
      audience: {},
      notify: (uri) => void server.sendResourceUpdated({ uri }).catch(() => {}),
    };
    const server: Server = createMcpServer({
      ...common,
      era,
      transport,
      principal,
      session,
      resolveSession(ctx) {
        const caller = resolveCaller(ctx);
        if (era === "modern") noteClient(caller, transport, ctx);
        return createSession(caller, era);
      },
      watch,
      called() {
        // In the modern era a list does not change because of calls, and what servers offer never does.
        if (era === "legacy" && hasSurface(profile)) checkSurfaceTools().catch(problem);
      },
      follower: () => follower,
    });
    server.oninitialized = () =>
      note(
        resolveCaller(),
        formatClientInfo(server.getClientVersion()),
        server.getNegotiatedProtocolVersion() ?? "",
        transport,
      );
    const connection: ClientConnection = {
      server,
      get profileSession() {
        return createSession(resolveCaller(), era);
      },
      follower,
      close() {
        if (!connections.delete(connection)) return;
        watch.close();
        if (era === "legacy") {
          const facts = {
            "mcp.protocol.version": server.getNegotiatedProtocolVersion(),
            ...TRANSPORT_FACTS[transport],
          };
          telemetry.tracer.took("mcp.server.session.duration", (telemetry.elapsed() - began) / 1000, facts);
        }
        connection.profileSession.unsubscribeAll(follower).catch(problem);
      },
    };
    connections.set(connection, watch);
    return connection;
  }

  /** Follows what a listening client named, for as long as it listens. */
  function follow(request: Request, body: unknown, caller: Caller): void {
    const uris = readListenedUris(body);
    if (uris.length === 0 || request.signal.aborted) return;
    const desk = createSession(caller, "modern");
    const follower: ResourceSubscriber = { audience: modern, notify: (uri) => modern.notify.resourceUpdated(uri) };
    request.signal.addEventListener("abort", () => void desk.unsubscribeAll(follower).catch(problem), { once: true });
    // What it may not follow it does not hear of; the rest of what it listens to is none the worse.
    for (const uri of uris) desk.subscribe(uri, follower, { signal: request.signal }).catch(() => {});
  }

  return {
    profile,
    async serveModern(request, body, principal) {
      const meta = readRequestMeta(body);
      const info = meta[CLIENT_INFO_META_KEY];
      const name = parseSessionName(meta[SESSION_META_KEY] ?? request.headers.get(SESSION_HEADER));
      const caller = await clients.resolveCaller({ account: principal, info, name }, meta.traceparent);
      known.set(request, { principal, caller });
      const response = await modern.fetch(request, { parsedBody: body });
      if (response.ok) follow(request, body, caller);
      return response;
    },
    connect,
    notifyChanged(what) {
      if (what === "tools") keeper.invalidate();
      const lists: readonly ListName[] = what === "resources" ? ["resources", "templates"] : [what];
      for (const watch of [modernWatch, ...connections.values()]) for (const list of lists) watch.scheduleCheck(list);
    },
    async close() {
      modernWatch.close();
      await modern.close();
      await Promise.all([...connections.keys()].map(({ server }) => server.close().catch(() => {})));
    },
  };
}

/** What a listening client wants to hear of; checked further by whoever answers it. */
export function readListenedUris(body: unknown): readonly string[] {
  if (!isRecord(body) || body.method !== "subscriptions/listen" || !isRecord(body.params)) return [];
  const { notifications } = body.params;
  const uris = isRecord(notifications) ? notifications.resourceSubscriptions : undefined;
  return Array.isArray(uris) ? uris.filter((uri) => typeof uri === "string").slice(0, URIS_LIMIT) : [];
}

const URIS_LIMIT = 100;

/** For what is looked at on behalf of all clients of a profile. */
function createSessionlessCaller({ name, actor }: GatewayProfile): Caller {
  return { actor, session: `mcp:${name}` };
}

/** The `_meta` of a request, checked further by whoever answers it. */
function readRequestMeta(body: unknown): Readonly<Record<string, unknown>> {
  const params = isRecord(body) ? body.params : undefined;
  const meta = isRecord(params) ? params._meta : undefined;
  return isRecord(meta) ? meta : {};
}

/** It says itself who it is, so nothing may depend on it. */
function formatClientInfo(info: unknown): string {
  const { name, version } = isRecord(info) ? info : {};
  const text = [name, version].filter((part) => typeof part === "string").join(" ");
  return toOneLine(text.slice(0, 120)) || "unknown";
}
