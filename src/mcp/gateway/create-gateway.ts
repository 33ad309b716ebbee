import { readPackageInfo, systemRuntime } from "../../app/system-runtime.ts";
import { settlesWithin } from "../../core/async.ts";
import { getErrorMessage } from "../../core/errors.ts";
import { canonicalJson, omitUndefined } from "../../core/json.ts";
import { LruMap } from "../../core/lru-map.ts";
import { matchesGlob } from "../../core/name-patterns.ts";
import { parseDuration } from "../../core/runtime.ts";
import { createTokenAuthorizer } from "../../core/token-authorizer.ts";
import { silentTracer } from "../../core/tracing.ts";
import { getTokenPath } from "../../workspace/state-paths.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { createResourceSubscriptions } from "./change-notifications.ts";
import {
  GATEWAY_LIMITS,
  type Gateway,
  type GatewayListener,
  type GatewayOptions,
  type GatewayProfile,
  type ListenOptions,
  type StdioOptions,
} from "./gateway.ts";
import { createHeldCalls } from "./held-calls.ts";
import { answerPlainCall, serveHttp } from "./http-endpoint.ts";
import { createLegacySessions } from "./legacy-sessions.ts";
import { createProfileEndpoint, type ProfileEndpoint } from "./profile-endpoint.ts";
import { hasSurface } from "./profile-service.ts";
import { getGatewayProfile, listProfileTokens, loadOrCreateToken } from "./profiles.ts";
import { serveStdio } from "./stdio-endpoint.ts";
import { createServerUpstream } from "./upstream.ts";

/** More than anyone configures. A changed profile gets a new endpoint, and old ones are closed. */
const ENDPOINTS_LIMIT = 64;

export function createGateway(options: GatewayOptions): Gateway {
  const { quartermaster, upstream, runtime, onProblem, tracer = silentTracer } = options;
  const limits = { ...GATEWAY_LIMITS, ...options.limits };
  const held = createHeldCalls(runtime, limits);
  const subscriptions = createResourceSubscriptions();
  const shared = { options, limits, telemetry: { tracer, elapsed: runtime.elapsed }, held, subscriptions };
  const endpoints = new LruMap<string, ProfileEndpoint>(ENDPOINTS_LIMIT, (one) => void one.close().catch(() => {}));
  const keys = new WeakMap<GatewayProfile, string>();
  const sessions = createLegacySessions(runtime, limits);
  const listeners: GatewayListener[] = [];
  const closing = new AbortController();

  function getEndpoint(profile: GatewayProfile): ProfileEndpoint {
    const key = keys.get(profile) ?? canonicalJson(profile);
    keys.set(profile, key);
    const endpoint = endpoints.get(key) ?? createProfileEndpoint(shared, profile);
    endpoints.set(key, endpoint);
    return endpoint;
  }

  function notifyChanged(what: "tools" | "resources" | "prompts"): void {
    for (const endpoint of endpoints.values()) endpoint.notifyChanged(what);
  }

  const stopWatching = [
    quartermaster.onChange(() => notifyChanged("tools")),
    upstream?.onChange(notifyChanged),
    upstream?.onResourceUpdated(subscriptions.notifyUpdated),
  ];
  const fetch: Gateway["fetch"] = (request, profile, context) =>
    serveHttp(getEndpoint(profile), sessions, limits, request, context);

  return {
    fetch,
    async serveStdio(stdio) {
      const signal = AbortSignal.any([stdio.signal, closing.signal]);
      const endpoint = getEndpoint(stdio.profile);
      await serveStdio(endpoint, runtime.newId(), limits, onProblem, { ...stdio, signal });
    },
    async listen(where) {
      // Loaded when it is needed, so that clients on stdio do not wait for it.
      const { startHttpListener } = await import("./http-listener.ts");
      const listener = await startHttpListener(
        { limits, onProblem, fetch, answer: (call, profile) => answerPlainCall(getEndpoint(profile), sessions, call) },
        where,
      );
      listeners.push(listener);
      return listener;
    },
    async close() {
      for (const stop of stopWatching) stop?.();
      closing.abort();
      held.close();
      // Listeners wait for their open streams, which end with the sessions.
      const closed = listeners.map((listener) => listener.close());
      await Promise.all([sessions.close(), ...[...endpoints.values()].map((endpoint) => endpoint.close())]);
      endpoints.clear();
      await Promise.all(closed);
    },
  };
}

export type WorkspaceGateway = ReturnType<typeof openGateway>;

/** How long a client on stdio waits for its first tools. */
const CONNECT_WAIT_MS = 2_000;

/** The gateway of a workspace, as its configuration describes it. */
export function openGateway(workspace: Workspace, onProblem: (problem: string) => void) {
  const { quartermaster, servers, config, storePath, fill, tracer } = workspace;
  const { name, version } = readPackageInfo();
  const gateway = createGateway({
    quartermaster,
    upstream: createServerUpstream(servers, quartermaster),
    runtime: systemRuntime,
    tracer,
    info: { name, version },
    onProblem,
    note(caller, event) {
      try {
        quartermaster.note(event, caller);
      } catch (thrown) {
        // The actor cannot be used. The client gets the same error from its first request.
        onProblem(getErrorMessage(thrown));
      }
    },
    limits: { sessionIdleMs: parseDuration(config.gateway.sessionIdle) ?? GATEWAY_LIMITS.sessionIdleMs },
  });

  const listPassedServers = ({ passThrough }: GatewayProfile) =>
    servers.list().filter(({ spec }) => passThrough.some((pattern) => matchesGlob(pattern, spec.name)));

  /** A client cannot ask for the tools of a server that is passed through, so we connect to those not yet known. */
  async function connectUnknownServers(profile: GatewayProfile, signal?: AbortSignal): Promise<void> {
    const unknown = listPassedServers(profile).filter(({ state }) => state === "configured");
    const connecting = unknown.map(({ spec }) => servers.hub.connect(spec.name, signal));
    await Promise.all(connecting.map((each) => each.catch((thrown) => onProblem(getErrorMessage(thrown)))));
  }

  return {
    async serveStdio(stdio: StdioOptions): Promise<void> {
      const { profile, signal } = stdio;
      const connecting = connectUnknownServers(profile, signal);
      // The client is told of tools that come later. It waits only if it would see none at all.
      if (!hasSurface(profile) && !listPassedServers(profile).some(({ tools }) => tools > 0))
        await settlesWithin(connecting, CONNECT_WAIT_MS);
      await gateway.serveStdio(stdio);
    },
    close: gateway.close,
    /** Throws `invalid_config` for a name that is not configured, and for an `actor` other than that of the profile. */
    profile: (profileName: string, actor?: string) => getGatewayProfile(workspace.config, profileName, actor),
    /** Serves HTTP. Host and port default to the configured ones. `publicUrl`: the address that people use for `other`. */
    async listen({
      host = config.gateway.host,
      port = config.gateway.port,
      other,
      publicUrl,
    }: Partial<Pick<ListenOptions, "host" | "port" | "other">> & { readonly publicUrl?: URL | undefined }) {
      await servers.hub.prepare();
      const tokenPath = getTokenPath(storePath);
      const tokens = listProfileTokens(workspace.config, fill, await loadOrCreateToken(tokenPath), onProblem);
      const { allowedHosts, allowedOrigins } = config.gateway;
      const listener = await gateway.listen({
        host,
        port,
        allowedHosts: publicUrl === undefined ? allowedHosts : [...allowedHosts, publicUrl.host],
        allowedOrigins,
        authorize: createTokenAuthorizer(tokens),
        publicOrigin: publicUrl?.origin,
        ...omitUndefined({ other }),
      });
      for (const [, profile] of tokens) void connectUnknownServers(profile);
      return { ...listener, tokenPath };
    },
  };
}
