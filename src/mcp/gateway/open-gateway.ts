import { packageFacts } from "../../package-facts.ts";
import { systemRuntime } from "../../system-runtime.ts";
import type { Workspace } from "../../workspace.ts";
import { createGateway } from "./create-gateway.ts";
import type { Gateway, GatewayProfile, Listening } from "./gateway.ts";
import { authorizeBy } from "./guards.ts";
import { profileOf, profilesByToken } from "./profiles.ts";
import { serverUpstream } from "./server-upstream.ts";
import { tokenIn, tokenPathOf } from "./token-file.ts";

/** The gateway in front of a workspace, as its configuration describes it. */
export interface WorkspaceGateway extends Pick<Gateway, "serveStdio" | "close"> {
  /** Throws `invalid_config` for a name that is not configured. */
  profile(name: string): GatewayProfile;
  /** Serves HTTP. What is not given is as configured. */
  listen(where: {
    readonly host?: string | undefined;
    readonly port?: number | undefined;
  }): Promise<Listening & { readonly tokenPath: string }>;
}

const INSTRUCTIONS =
  "Every action is reached through these few tools: search_actions finds what you need, describe_action tells its arguments, invoke_action runs it. Search before you say that something cannot be done.";

export function openGateway(workspace: Workspace, onProblem: (problem: string) => void): WorkspaceGateway {
  const { quartermaster, servers, config, storePath, fill } = workspace;
  const { name, version } = packageFacts();
  const gateway = createGateway({
    quartermaster,
    upstream: serverUpstream(servers, quartermaster),
    runtime: systemRuntime,
    info: { name, version },
    instructions: INSTRUCTIONS,
    onProblem,
    note: (caller, event) => quartermaster.note(event, caller),
  });
  const { host, port, allowed_hosts, allowed_origins } = config.gateway;

  return {
    serveStdio: gateway.serveStdio,
    close: gateway.close,
    profile: (name) => profileOf(workspace.config, name),
    async listen(where) {
      const tokenPath = tokenPathOf(storePath);
      const tokens = profilesByToken(workspace.config, { fill, defaultToken: await tokenIn(tokenPath), onProblem });
      const listening = await gateway.listen({
        host: where.host ?? host,
        port: where.port ?? port,
        allowedHosts: allowed_hosts,
        allowedOrigins: allowed_origins,
        authorize: authorizeBy(tokens),
      });
      return { ...listening, tokenPath };
    },
  };
}
