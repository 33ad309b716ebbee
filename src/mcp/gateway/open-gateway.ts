import { authorizeBy } from "../../core/authorize-by.ts";
import { durationMs } from "../../core/duration.ts";
import { messageOf } from "../../core/errors.ts";
import { matchesGlob } from "../../core/glob.ts";
import { packageFacts } from "../../package-facts.ts";
import { tokenPathOf } from "../../store-places.ts";
import { systemRuntime } from "../../system-runtime.ts";
import type { Workspace } from "../../workspace.ts";
import type { ServerView } from "../servers/servers.ts";
import { createGateway } from "./create-gateway.ts";
import { hasSurface } from "./desk.ts";
import { GATEWAY_LIMITS, type Gateway, type GatewayProfile, type Listening, type ListenOptions } from "./gateway.ts";
import { instructionsOf } from "./instructions.ts";
import { profileOf, profilesByToken } from "./profiles.ts";
import { serverUpstream } from "./server-upstream.ts";
import { tokenIn } from "./token-file.ts";

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
  }): Promise<Listening & { readonly tokenPath: string }>;
}

/** How long a client waits for its first tools. */
const LEARNING_MS = 2_000;

export function openGateway(workspace: Workspace, onProblem: (problem: string) => void): WorkspaceGateway {
  const { quartermaster, servers, config, storePath, fill } = workspace;
  const { name, version } = packageFacts();
  const gateway = createGateway({
    quartermaster,
    upstream: serverUpstream(servers, quartermaster),
    runtime: systemRuntime,
    tracer: workspace.tracer,
    info: { name, version },
    instructions: (profile) => instructionsOf(profile, workspace.config),
    onProblem,
    note: (caller, event) => quartermaster.note(event, caller),
    limits: { sessionIdleMs: durationMs(config.gateway.session_idle) ?? GATEWAY_LIMITS.sessionIdleMs },
  });
  const { host, port, allowed_hosts, allowed_origins } = config.gateway;

  /** A client that is shown servers as they are cannot ask for one whose tools nobody knows, so they are learned first. */
  async function learned(profile: GatewayProfile, signal?: AbortSignal): Promise<void> {
    const unknown = passedBy(profile).filter(({ state }) => state === "configured");
    await Promise.all(
      unknown.map(({ spec }) => servers.hub.connect(spec.name, signal).catch((thrown) => onProblem(messageOf(thrown)))),
    );
  }

  function passedBy({ passThrough }: GatewayProfile): readonly ServerView[] {
    return servers.list().filter(({ spec }) => passThrough.some((pattern) => matchesGlob(pattern, spec.name)));
  }

  return {
    async serveStdio(options) {
      const learning = learned(options.profile, options.signal);
      // One that is not known yet is told of when it is; only a client that would see nothing at all waits a moment.
      if (!hasSurface(options.profile) && !passedBy(options.profile).some(({ tools }) => tools > 0)) {
        const late = AbortSignal.timeout(LEARNING_MS);
        await Promise.race([learning, new Promise((resolve) => late.addEventListener("abort", resolve))]);
      }
      await gateway.serveStdio(options);
    },
    close: gateway.close,
    profile: (name) => profileOf(workspace.config, name),
    async listen(where) {
      await servers.hub.prepare();
      const tokenPath = tokenPathOf(storePath);
      const tokens = profilesByToken(workspace.config, { fill, defaultToken: await tokenIn(tokenPath), onProblem });
      const { publicUrl } = where;
      const listening = await gateway.listen({
        host: where.host ?? host,
        port: where.port ?? port,
        allowedHosts: publicUrl === undefined ? allowed_hosts : [...allowed_hosts, publicUrl.host],
        allowedOrigins: allowed_origins,
        authorize: authorizeBy(tokens),
        ...(where.other === undefined ? {} : { other: where.other }),
        publicOrigin: publicUrl?.origin,
      });
      for (const [, profile] of tokens) void learned(profile);
      return { ...listening, tokenPath };
    },
  };
}
