import {
  CLIENT_INFO_META_KEY,
  createMcpHandler,
  type McpHttpHandler,
  PROTOCOL_VERSION_META_KEY,
} from "@modelcontextprotocol/server";
import type { LazyAbortController } from "../../core/abortable.ts";
import { onAbort } from "../../core/async.ts";
import { Bag } from "../../core/bag.ts";
import type { Caller } from "../../core/caller.ts";
import { toOneLine } from "../../core/display-text.ts";
import { getErrorMessage } from "../../core/errors.ts";
import { getOrCreate, isRecord } from "../../core/json.ts";
import { LruMap } from "../../core/lru-map.ts";
import {
  createListWatcher,
  type ListName,
  type ListWatcher,
  type ResourceSubscriber,
  type ResourceSubscriptions,
} from "./change-notifications.ts";
import type { RequestContext } from "./client-dialogue.ts";
import {
  createClientCaller,
  createClientSessions,
  parseSessionName,
  SESSION_HEADER,
  SESSION_META_KEY,
} from "./client-sessions.ts";
import type { GatewayEra, GatewayProfile } from "./gateway.ts";
import { type GatewayServer, TRANSPORT_FACTS } from "./gateway-server.ts";
import { createMcpServer, type SharedParts } from "./mcp-server.ts";
import type { HttpAnswer, PlainCall } from "./plain-call.ts";
import { createProfileService, hasSurface, type ServiceClient } from "./profile-service.ts";
import { createServedSkills } from "./served-skills.ts";
import { createSurfaceCache } from "./surface-cache.ts";

/** A client with its own connection: a session of the legacy era, or stdio. */
export interface ClientConnection {
  readonly server: GatewayServer;
  /** Subscribes to resources until the returned function is called. */
  listen(uris: readonly string[]): () => void;
  close(): void;
}

export type ProfileEndpoint = ReturnType<typeof createProfileEndpoint>;
const NOTED_CLIENTS_LIMIT = 1000;

const NOTIFICATIONS = {
  tools: { modern: "toolsChanged", legacy: "sendToolListChanged" },
  resources: { modern: "resourcesChanged", legacy: "sendResourceListChanged" },
  templates: { modern: "resourcesChanged", legacy: "sendResourceListChanged" },
  prompts: { modern: "promptsChanged", legacy: "sendPromptListChanged" },
  // The extension has no notification of its own: a skill's files are resources.
  skills: { modern: "resourcesChanged", legacy: "sendResourceListChanged" },
} as const;

const CHANGED_LISTS: Readonly<Record<"tools" | "resources" | "prompts", readonly ListName[]>> = {
  tools: ["tools", "skills"],
  resources: ["resources", "templates"],
  prompts: ["prompts"],
};

/** Serves the clients of one profile. */
export function createProfileEndpoint(
  shared: SharedParts & { readonly subscriptions: ResourceSubscriptions },
  profile: GatewayProfile,
) {
  const { options, limits, telemetry } = shared;
  const { quartermaster, upstream, runtime } = options;
  const surfaces = createSurfaceCache(quartermaster, runtime, profile);
  const skills = createServedSkills(quartermaster, options.onProblem);
  const service = createProfileService(profile, quartermaster, upstream, surfaces, shared.subscriptions, skills);
  const connections = new Map<ClientConnection, ListWatcher>();
  const clients = createClientSessions(profile, runtime, limits.sessionIdleMs, quartermaster.ledger);
  const identified = new WeakMap<Request, { readonly principal: string; readonly caller: Caller }>();
  const noted = new LruMap<string, true>(NOTED_CLIENTS_LIMIT);
  const onProblem = (thrown: unknown) => options.onProblem(`${profile.name}: ${getErrorMessage(thrown)}`);
  const common = { ...shared, profile, service };
  /** For requests on behalf of all clients of the profile. */
  const sessionless: Caller = { actor: profile.actor, session: `mcp:${profile.name}` };

  const modernWatch = createListWatcher(
    (list) => service[list]({ caller: sessionless, era: "modern" }),
    (list) => modern.notify[NOTIFICATIONS[list].modern](),
    onProblem,
  );
  const createModernServer = (caller: Caller, principal: string): GatewayServer =>
    createMcpServer({
      ...common,
      era: "modern",
      transport: "http",
      principal,
      resolveClient(ctx) {
        noteModernClient(caller, "http", ctx.mcpReq.envelope);
        return { caller, era: "modern" };
      },
      resolveCaller: () => caller,
      watch: modernWatch,
    });
  /** Answers plain calls, one for each principal. */
  const modernServers = new LruMap<string, GatewayServer>(NOTED_CLIENTS_LIMIT);
  const runningCalls = new Bag<LazyAbortController>();
  const modern: McpHttpHandler = createMcpHandler(
    ({ requestInfo }) => {
      const known = requestInfo && identified.get(requestInfo);
      return createModernServer(known?.caller ?? sessionless, known?.principal ?? "");
    },
    { legacy: "reject", maxRequestBodySize: limits.bodyBytes, onerror: onProblem },
  );

  /** Without a connection a client identifies itself in every request. It is recorded once a session. */
  function noteModernClient(caller: Caller, transport: string, given: unknown): void {
    const envelope = toRecord(given);
    const client = formatClientInfo(envelope[CLIENT_INFO_META_KEY]);
    const key = JSON.stringify([caller.session, client]);
    if (noted.get(key)) return;
    noted.set(key, true);
    noteClient(caller, client, String(envelope[PROTOCOL_VERSION_META_KEY] ?? ""), transport);
  }

  function noteClient(caller: Caller, client: string, protocol: string, transport: string): void {
    const data = { profile: profile.name, client, protocol: toOneLine(protocol.slice(0, 40)), transport };
    options.note?.(caller, { type: "client.connected", data });
  }

  /** `session`: of calls that do not name one. `account`: see `ClientIdentity`. `name`: the session's, if it has one. */
  function connect(
    era: GatewayEra,
    transport: "stdio" | "http",
    session: string,
    { principal, account, name }: { principal: string; account: string; name?: string | undefined },
  ): ClientConnection {
    const began = telemetry.elapsed();
    let known: { readonly info: unknown; readonly name: string | undefined; readonly caller: Caller } | undefined;
    const resolveCaller = (ctx?: RequestContext): Caller => {
      const named = parseSessionName(ctx?.mcpReq._meta?.[SESSION_META_KEY]) ?? name;
      const info = toRecord(ctx?.mcpReq.envelope)[CLIENT_INFO_META_KEY] ?? server.getClientVersion();
      if (known === undefined || known.info !== info || known.name !== named) {
        const caller = createClientCaller(profile, { account, info, name: named }, session);
        known = { info, name: named, caller };
      }
      return known.caller;
    };
    const client = () => ({ caller: resolveCaller(), era });
    const watch = createListWatcher(
      (list) => service[list](client()),
      (list) => void server[NOTIFICATIONS[list].legacy]().catch(() => {}),
      onProblem,
    );
    let lastTools: unknown;
    const checkTools = async () => {
      const surface = await surfaces.get(resolveCaller());
      if (!surface.learnsFromCalls) return;
      const { tools } = surface;
      if (tools !== lastTools) watch.scheduleCheck("tools");
      lastTools = tools;
    };
    const subscriber: ResourceSubscriber = {
      audience: {},
      notify: (uri) => void server.sendResourceUpdated({ uri }).catch(() => {}),
    };
    const server: GatewayServer = createMcpServer({
      ...common,
      era,
      transport,
      principal,
      session,
      resolveClient(ctx) {
        const caller = resolveCaller(ctx);
        if (era === "modern") noteModernClient(caller, transport, ctx.mcpReq.envelope);
        return { caller, era };
      },
      resolveCaller,
      watch,
      afterCall() {
        // Calls change neither the lists of the modern era nor what servers offer.
        if (era === "legacy" && hasSurface(profile)) checkTools().catch(onProblem);
      },
      subscriber,
    });
    const getVersion = () => server.getNegotiatedProtocolVersion();
    server.oninitialized = () =>
      noteClient(resolveCaller(), formatClientInfo(server.getClientVersion()), getVersion() ?? "", transport);
    const connection: ClientConnection = {
      server,
      listen: (uris) => listen(client(), uris, { ...subscriber }, new AbortController().signal),
      close() {
        if (!connections.delete(connection)) return;
        watch.close();
        if (era === "legacy") {
          const facts = { "mcp.protocol.version": getVersion(), ...TRANSPORT_FACTS[transport] };
          telemetry.tracer.took("mcp.server.session.duration", (telemetry.elapsed() - began) / 1000, facts);
        }
        service.unsubscribeAll(client(), subscriber).catch(onProblem);
      },
    };
    connections.set(connection, watch);
    return connection;
  }

  /** Subscribes to resources until the returned function is called. A URI that the client may not see is left out. */
  function listen(client: ServiceClient, uris: readonly string[], subscriber: ResourceSubscriber, signal: AbortSignal) {
    for (const uri of uris) service.subscribe(client, uri, subscriber, { signal }).catch(() => {});
    return () => void service.unsubscribeAll(client, subscriber).catch(onProblem);
  }

  return {
    profile,
    /** Answers a request of the modern era. */
    async serveModern(request: Request, body: unknown, principal: string): Promise<Response> {
      const meta = toRecord(toRecord(toRecord(body).params)._meta);
      const info = meta[CLIENT_INFO_META_KEY];
      const name = parseSessionName(meta[SESSION_META_KEY] ?? request.headers.get(SESSION_HEADER));
      const caller = await clients.resolveCaller({ account: principal, info, name }, meta.traceparent);
      identified.set(request, { principal, caller });
      const response = await modern.fetch(request, { parsedBody: body });
      const uris = readListenedUris(body);
      const { signal } = request;
      if (response.ok && uris.length > 0 && !signal.aborted) {
        const subscriber = { audience: modern, notify: (uri: string) => modern.notify.resourceUpdated(uri) };
        onAbort(signal, listen({ caller, era: "modern" }, uris, subscriber, signal));
      }
      return response;
    },
    /** Answers a plain call of the modern era. `stop` is aborted when its client has gone, or the endpoint closes. */
    async answerModern(
      call: PlainCall,
      { principal, name }: { readonly principal: string; readonly name: string | undefined },
      answer: HttpAnswer,
      stop: LazyAbortController,
    ): Promise<void> {
      runningCalls.add(stop);
      const info = call.envelope?.[CLIENT_INFO_META_KEY];
      try {
        const caller = await clients.resolveCaller({ account: principal, info, name }, call.meta?.traceparent);
        noteModernClient(caller, "http", call.envelope);
        const from = { client: { caller, era: "modern" }, push: answer.push } as const;
        const server = getOrCreate(modernServers, principal, () => createModernServer(sessionless, principal));
        const response = await server.answer(call, stop, from);
        if (stop.aborted) answer.drop();
        else answer.end(response);
      } catch (thrown) {
        onProblem(thrown);
        answer.drop();
      } finally {
        runningCalls.delete(stop);
      }
    },
    connect,
    notifyChanged(what: "tools" | "resources" | "prompts"): void {
      if (what === "tools") surfaces.invalidate();
      const lists = CHANGED_LISTS[what];
      for (const watch of [modernWatch, ...connections.values()]) for (const list of lists) watch.scheduleCheck(list);
    },
    async close(): Promise<void> {
      modernWatch.close();
      for (const call of runningCalls) call.abort();
      await modern.close();
      await Promise.all([...connections.keys()].map(({ server }) => server.close().catch(() => {})));
    },
  };
}

const URIS_LIMIT = 100;

/** The resources of a `subscriptions/listen` request. The SDK validates the rest of it. */
export function readListenedUris(body: unknown): readonly string[] {
  if (toRecord(body).method !== "subscriptions/listen") return [];
  const uris = toRecord(toRecord(toRecord(body).params).notifications).resourceSubscriptions;
  return Array.isArray(uris) ? uris.filter((uri) => typeof uri === "string").slice(0, URIS_LIMIT) : [];
}

const toRecord = (value: unknown): Readonly<Record<string, unknown>> => (isRecord(value) ? value : {});

/** For the record only: a client can claim any name. */
function formatClientInfo(info: unknown): string {
  const { name, version } = toRecord(info);
  const text = [name, version].filter((part) => typeof part === "string").join(" ");
  return toOneLine(text.slice(0, 120)) || "unknown";
}
