import { readPackageInfo, systemRuntime } from "../../app/system-runtime.ts";
import type { Config } from "../../config/schema.ts";
import { getErrorMessage } from "../../core/errors.ts";
import { canonicalJson } from "../../core/json.ts";
import { matchesGlob } from "../../core/name-patterns.ts";
import { parseDuration } from "../../core/runtime.ts";
import type { SurfaceKind } from "../../core/surface-choice.ts";
import { createTokenAuthorizer } from "../../core/token-authorizer.ts";
import { silentTracer, type Tracer } from "../../core/tracing.ts";
import { getTokenPath } from "../../workspace/state-paths.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { ServerView } from "../provider/mcp-servers.ts";
import { createResourceSubscriptions } from "./change-notifications.ts";
import {
  GATEWAY_LIMITS,
  type Gateway,
  type GatewayListener,
  type GatewayOptions,
  type GatewayProfile,
  type ListenOptions,
} from "./gateway.ts";
import { createHeldCalls } from "./held-calls.ts";
import { serveHttp } from "./http-endpoint.ts";
import { startHttpListener } from "./http-listener.ts";
import { createLegacySessions } from "./legacy-sessions.ts";
import {
  createProfileEndpoint,
  type ListChange,
  type ProfileEndpoint,
  type ProfileEndpointOptions,
} from "./profile-endpoint.ts";
import { hasSurface } from "./profile-session.ts";
import { getGatewayProfile, listProfileTokens, loadOrCreateToken } from "./profiles.ts";
import { serveStdio } from "./stdio-endpoint.ts";
import { createServerUpstream } from "./upstream.ts";

/** One face a profile. A profile that was changed is another one. */
interface ProfileEndpoints {
  get(profile: GatewayProfile): ProfileEndpoint;
  notifyChanged(what: ListChange): void;
  close(): Promise<void>;
}

/** More than anybody configures; what is left of earlier configurations makes room. */
const ENDPOINTS_LIMIT = 64;

function createProfileEndpoints(parts: ProfileEndpointOptions): ProfileEndpoints {
  const endpoints = new Map<string, ProfileEndpoint>();
  const keys = new WeakMap<GatewayProfile, string>();
  const toProfileKey = (profile: GatewayProfile): string => {
    const key = keys.get(profile) ?? canonicalJson(profile);
    keys.set(profile, key);
    return key;
  };

  return {
    get(profile) {
      const key = toProfileKey(profile);
      const known = endpoints.get(key);
      if (known !== undefined) return known;
      const endpoint = createProfileEndpoint(parts, profile);
      endpoints.set(key, endpoint);
      const [oldest] = endpoints;
      if (endpoints.size > ENDPOINTS_LIMIT && oldest !== undefined) {
        endpoints.delete(oldest[0]);
        oldest[1].close().catch(() => {});
      }
      return endpoint;
    },
    notifyChanged(what) {
      for (const endpoint of endpoints.values()) endpoint.notifyChanged(what);
    },
    async close() {
      await Promise.all([...endpoints.values()].map((endpoint) => endpoint.close()));
      endpoints.clear();
    },
  };
}

/** `tracer`: told of every request, and of how long sessions last. Absent: nobody is. */
export function createGateway(options: GatewayOptions & { readonly tracer?: Tracer }): Gateway {
  const { quartermaster, upstream, runtime, onProblem } = options;
  const limits = { ...GATEWAY_LIMITS, ...options.limits };
  const held = createHeldCalls(runtime, limits);
  const subscriptions = createResourceSubscriptions();
  const telemetry = { tracer: options.tracer ?? silentTracer, elapsed: runtime.elapsed };
  const endpoints = createProfileEndpoints({ options, limits, telemetry, held, subscriptions });
  const sessions = createLegacySessions(runtime, limits);
  const listening = new Set<GatewayListener>();
  const closing = new AbortController();

  const watching = [
    quartermaster.onChange(() => endpoints.notifyChanged("tools")),
    upstream?.onChange(endpoints.notifyChanged),
    upstream?.onResourceUpdated(subscriptions.notifyUpdated),
  ];
  const fetch: Gateway["fetch"] = (request, profile, remote) =>
    serveHttp(endpoints.get(profile), sessions, limits, request, remote);

  return {
    fetch,
    async serveStdio(stdio) {
      const signal = AbortSignal.any([stdio.signal, closing.signal]);
      await serveStdio({ endpoint: endpoints.get(stdio.profile), runtime, limits, onProblem }, { ...stdio, signal });
    },
    async listen(where) {
      const opened = await startHttpListener({ limits, onProblem, fetch }, where);
      const one: GatewayListener = {
        url: opened.url,
        async close() {
          listening.delete(one);
          await opened.close();
        },
      };
      listening.add(one);
      return one;
    },
    async close() {
      for (const stop of watching) stop?.();
      closing.abort();
      held.close();
      // Sockets are let go last: what is open on them ends with the sessions.
      const sockets = [...listening].map((one) => one.close());
      await Promise.all([sessions.close(), endpoints.close()]);
      await Promise.all(sockets);
    },
  };
}

const SURFACE_INSTRUCTIONS: { readonly [Kind in SurfaceKind]?: string } = {
  universal:
    "Every action is reached through these few tools: search_actions finds what you need, describe_action tells its arguments, invoke_action runs it. Search before you say that something cannot be done.",
  deferred:
    "More tools than these can be called: tool_search finds them, tool_get tells their arguments, and then you call them by their names. Search before you say that something cannot be done.",
};

/** What the clients of a profile are told about their tools. Undefined: the tools speak for themselves. */
function getInstructions(profile: GatewayProfile, config: Pick<Config, "actors" | "surface">): string | undefined {
  const { surface, actor } = profile;
  if (!hasSurface(profile)) return undefined;
  return SURFACE_INSTRUCTIONS[surface ?? config.actors[actor]?.surface?.kind ?? config.surface.kind];
}

/** The gateway in front of a workspace, as its configuration describes it. */
export interface WorkspaceGateway extends Pick<Gateway, "serveStdio" | "close"> {
  /** Throws `invalid_config` for a name that is not configured. */
  profile(name: string): GatewayProfile;
  /** Serves HTTP. What is not given is as configured; without `other` there is nothing beside /mcp and /health. */
  listen(where: {
    readonly host?: string | undefined;
    readonly port?: number | undefined;
    readonly other?: ListenOptions["other"];
    /** Where people reach what `other` answers, when that is not where we listen. */
    readonly publicUrl?: URL | undefined;
  }): Promise<GatewayListener & { readonly tokenPath: string }>;
}

/** How long a client waits for its first tools. */
const CONNECT_WAIT_MS = 2_000;

export function openGateway(workspace: Workspace, onProblem: (problem: string) => void): WorkspaceGateway {
  const { quartermaster, servers, config, storePath, fill } = workspace;
  const { name, version } = readPackageInfo();
  const gateway = createGateway({
    quartermaster,
    upstream: createServerUpstream(servers, quartermaster),
    runtime: systemRuntime,
    tracer: workspace.tracer,
    info: { name, version },
    instructions: (profile) => getInstructions(profile, workspace.config),
    onProblem,
    note: (caller, event) => quartermaster.note(event, caller),
    limits: { sessionIdleMs: parseDuration(config.gateway.sessionIdle) ?? GATEWAY_LIMITS.sessionIdleMs },
  });
  const { host, port, allowedHosts, allowedOrigins } = config.gateway;

  /** A client that is shown servers as they are cannot ask for one whose tools nobody knows, so they are learned first. */
  async function connectUnknownServers(profile: GatewayProfile, signal?: AbortSignal): Promise<void> {
    const unknown = listPassedServers(profile).filter(({ state }) => state === "configured");
    await Promise.all(
      unknown.map(({ spec }) =>
        servers.hub.connect(spec.name, signal).catch((thrown) => onProblem(getErrorMessage(thrown))),
      ),
    );
  }

  function listPassedServers({ passThrough }: GatewayProfile): readonly ServerView[] {
    return servers.list().filter(({ spec }) => passThrough.some((pattern) => matchesGlob(pattern, spec.name)));
  }

  return {
    async serveStdio(options) {
      const learning = connectUnknownServers(options.profile, options.signal);
      // One that is not known yet is told of when it is; only a client that would see nothing at all waits a moment.
      if (!hasSurface(options.profile) && !listPassedServers(options.profile).some(({ tools }) => tools > 0)) {
        const late = AbortSignal.timeout(CONNECT_WAIT_MS);
        await Promise.race([learning, new Promise((resolve) => late.addEventListener("abort", resolve))]);
      }
      await gateway.serveStdio(options);
    },
    close: gateway.close,
    profile: (name) => getGatewayProfile(workspace.config, name),
    async listen(where) {
      await servers.hub.prepare();
      const tokenPath = getTokenPath(storePath);
      const tokens = listProfileTokens(workspace.config, {
        fill,
        defaultToken: await loadOrCreateToken(tokenPath),
        onProblem,
      });
      const { publicUrl } = where;
      const listening = await gateway.listen({
        host: where.host ?? host,
        port: where.port ?? port,
        allowedHosts: publicUrl === undefined ? allowedHosts : [...allowedHosts, publicUrl.host],
        allowedOrigins,
        authorize: createTokenAuthorizer(tokens),
        ...(where.other === undefined ? {} : { other: where.other }),
        publicOrigin: publicUrl?.origin,
      });
      for (const [, profile] of tokens) void connectUnknownServers(profile);
      return { ...listening, tokenPath };
    },
  };
}
