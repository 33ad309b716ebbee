import { join } from "node:path";
import type { Transport } from "@modelcontextprotocol/client";
import { settlesWithin } from "../../core/async.ts";
import { getErrorMessage, type QmError } from "../../core/errors.ts";
import type { SpanFacts } from "../../core/tracing.ts";
import type { HttpLaunch, OAuthSettings, ServerSpec, StdioLaunch } from "../server-spec.ts";
import { openHttpTransport, parseServerUrl } from "./http-transport.ts";
import type { OAuthStore } from "./oauth-store.ts";
import { createValueRedactor, type ValueRedactor } from "./redact-values.ts";
import type { Sdk } from "./sdk-client.ts";
import { loginRequiredError, toServerFailure } from "./server-errors.ts";
import { openServerLog } from "./server-log.ts";
import type { KillProcess, ProcessStore } from "./server-processes.ts";
import { createProcessRecorder, readStartTime } from "./server-processes.ts";
import type { EnvironmentVariables, ResolvedLaunch } from "./start-process.ts";
import { openStdioTransport, type StdioLimits } from "./stdio-transport.ts";
import { createStoredLogin, type OAuthContext } from "./stored-login.ts";
import type { Watchdog } from "./watchdog.ts";

/** Puts values where `${env:NAME}` and `${secret:NAME}` stand in the value of a key. */
type FillReferences = (text: string, key: string) => string;

/** Not where the `$` is doubled: that stands for itself. */
const REFERENCE = /(?<!\$)\$\{((?:env|secret):[A-Za-z_][A-Za-z0-9_]*)\}/g;

/** A function that fills, and beside it every value that came out of a reference until now, by the reference. */
function recordFilledValues(fill: FillReferences): {
  readonly fill: FillReferences;
  readonly values: Readonly<Record<string, string>>;
} {
  const values: Record<string, string> = {};
  return {
    values,
    fill(text, key) {
      const filled = fill(text, key);
      for (const [reference, name = ""] of text.matchAll(REFERENCE)) values[name] = fill(reference, key);
      return filled;
    },
  };
}

export interface TransportPorts {
  /** Throws `invalid_config` naming what is missing. */
  readonly fill: FillReferences;
  readonly environment: EnvironmentVariables;
  readonly processes: ProcessStore;
  readonly self: { readonly pid: number; readonly host: string; readonly kill: KillProcess };
  readonly watchdog: Watchdog;
  readonly oauth: OAuthStore;
  readonly now: () => Date;
  readonly logFolder: string | undefined;
  readonly stdioLimits: Partial<StdioLimits> | undefined;
  readonly messageBytes: number;
}

/** One way to one server, open or not yet. */
export interface ServerTransport {
  readonly transport: Transport;
  /** What those who trace are told of it. */
  readonly facts: SpanFacts;
  readonly pid: number | undefined;
  readonly noise: number;
  /** Whatever was thrown on the way, as an error of ours. */
  failure(thrown: unknown): Promise<QmError>;
  /** What the server has said about itself, and how it ended where it has: empty where it said nothing. */
  describeExit(isOver: boolean): Promise<string>;
  end(): Promise<void>;
}

/** Fills a server's references and answers what opens a way to it: with standard streams, that starts a process. */
export function createTransportFactory(sdk: Sdk, spec: ServerSpec, ports: TransportPorts): () => ServerTransport {
  return spec.launch.kind === "stdio"
    ? createStdioFactory(sdk, spec.name, spec.launch, ports)
    : createHttpFactory(sdk, spec.name, spec.launch, ports);
}

/** A remote server as far as logging in goes. */
export function createOAuthContext(
  sdk: Sdk,
  server: string,
  launch: HttpLaunch,
  ports: Pick<TransportPorts, "fill" | "oauth">,
) {
  const { fill, values } = recordFilledValues(ports.fill);
  const url = parseServerUrl(server, fill(launch.url, `servers.${server}.url`));
  const settings = fillSettings(server, launch.oauth, fill);
  const headers = fillRecord(launch.headers, `servers.${server}.headers`, fill);
  const { clientSecret } = settings;
  const party: OAuthContext = {
    sdk,
    server,
    url,
    settings,
    records: ports.oauth,
  };
  const hidden = [headers, clientSecret === undefined ? {} : { "client secret": clientSecret }, values];
  return {
    party,
    headers,
    hiding: (tokens: Readonly<Record<string, string>>): ValueRedactor => createValueRedactor(...hidden, tokens),
  };
}

function createStdioFactory(
  sdk: Sdk,
  server: string,
  configured: StdioLaunch,
  ports: TransportPorts,
): () => ServerTransport {
  const { environment, processes, self, watchdog, logFolder, now, stdioLimits } = ports;
  const { fill, values } = recordFilledValues(ports.fill);
  const launch = fillLaunch(server, configured, fill);
  const hide = createValueRedactor(launch.env, values);
  const log = logFolder === undefined ? undefined : openServerLog({ path: join(logFolder, `${server}.log`), now });
  return () => {
    const transport = openStdioTransport(launch, {
      server,
      environment,
      watchdog,
      kill: self.kill,
      ...createProcessRecorder({ store: processes, server, self, startTimeOf: readStartTime }),
      hide,
      log: log?.write,
      limits: stdioLimits,
    });
    return {
      transport,
      facts: { "network.transport": "pipe" },
      get pid() {
        return transport.pid;
      },
      get noise() {
        return transport.noise;
      },
      failure: async (thrown) => toServerFailure(sdk, thrown, { server, hide, session: false }),
      async describeExit(isOver) {
        if (transport.fault !== undefined) return transport.fault;
        if (isOver) await settlesWithin(transport.ended, EXIT_DETAILS_MS);
        const end = isOver ? await Promise.race([transport.ended, Promise.resolve(undefined)]) : undefined;
        const how = end?.signal != null ? `signal ${end.signal}` : end?.code != null ? `exit code ${end.code}` : "";
        const said = transport.stderrTail();
        const noise =
          said === "" && transport.noiseSamples.length > 0
            ? `its stdout has what is no message: ${hide(transport.noiseSamples.join("\n"))}`
            : "";
        return [how, said === "" ? noise : `its stderr ends with:\n${said}`].filter((part) => part !== "").join("; ");
      },
      end: () => transport.close(),
    };
  };
}

/** How long is waited for what a server that is going says about it. */
const EXIT_DETAILS_MS = 1000;
/** A session that is not ended in this time ends by itself one day. */
const SESSION_END_MS = 1000;

function createHttpFactory(sdk: Sdk, server: string, launch: HttpLaunch, ports: TransportPorts): () => ServerTransport {
  const { party, headers, hiding } = createOAuthContext(sdk, server, launch, ports);
  const login = createStoredLogin(party);
  const tokens: Record<string, string> = {};
  const auth = {
    ...login,
    async token() {
      const token = await login.token();
      if (token !== undefined) tokens.token = token;
      return token;
    },
  };
  return () => {
    const transport = openHttpTransport(sdk, { url: party.url, headers, auth, messageBytes: ports.messageBytes });
    return {
      transport,
      facts: {
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "server.address": party.url.hostname,
        "server.port": Number(party.url.port) || (party.url.protocol === "https:" ? 443 : 80),
      },
      pid: undefined,
      noise: 0,
      async failure(thrown) {
        if (thrown instanceof sdk.InsufficientScopeError) return login.stepUp(thrown);
        const hide = hiding(tokens);
        if (thrown instanceof sdk.OAuthClientFlowError)
          return loginRequiredError(
            server,
            `wants a login, and what it says about that does not fit: ${hide(getErrorMessage(thrown))}`,
          );
        return toServerFailure(sdk, thrown, { server, hide, session: transport.sessionId !== undefined });
      },
      describeExit: async () => "",
      async end() {
        if (transport.sessionId !== undefined) await settlesWithin(transport.terminateSession(), SESSION_END_MS);
        await transport.close();
      },
    };
  };
}

function fillLaunch(server: string, { command, args, env, cwd }: StdioLaunch, fill: FillReferences): ResolvedLaunch {
  const key = `servers.${server}`;
  return {
    command: fill(command, `${key}.command`),
    args: args.map((arg, at) => fill(arg, `${key}.args.${at}`)),
    env: fillRecord(env, `${key}.env`, fill),
    cwd: cwd === undefined ? undefined : fill(cwd, `${key}.cwd`),
  };
}

function fillRecord(
  record: Readonly<Record<string, string>>,
  key: string,
  fill: FillReferences,
): Record<string, string> {
  return Object.fromEntries(Object.entries(record).map(([name, text]) => [name, fill(text, `${key}.${name}`)]));
}

function fillSettings(server: string, settings: OAuthSettings = {}, fill: FillReferences): OAuthSettings {
  const { clientId, clientSecret } = settings;
  const key = `servers.${server}.oauth`;
  return {
    ...settings,
    ...(clientId === undefined ? {} : { clientId: fill(clientId, `${key}.client_id`) }),
    ...(clientSecret === undefined ? {} : { clientSecret: fill(clientSecret, `${key}.client_secret`) }),
  };
}
