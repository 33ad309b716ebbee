import { join } from "node:path";
import type { Transport } from "@modelcontextprotocol/client";
import { settlesWithin } from "../../core/async.ts";
import { messageOf, type QmError } from "../../core/errors.ts";
import type { SpanFacts } from "../../core/tracing.ts";
import type { HttpLaunch, OAuthSettings, ServerSpec, StdioLaunch } from "../server-spec.ts";
import type { Variables } from "./environment.ts";
import { failureOf, needsLogin } from "./failures.ts";
import { type Hide, hidingValues } from "./hide-values.ts";
import { openHttpTransport, serverUrl } from "./http-transport.ts";
import { type OAuthParty, storedLogin } from "./oauth.ts";
import type { OAuthRecords } from "./oauth-records.ts";
import type { Kill } from "./process-group.ts";
import { processRecord } from "./process-record.ts";
import type { ProcessStore } from "./process-store.ts";
import { type Fill, noting } from "./references.ts";
import type { Sdk } from "./sdk-client.ts";
import { openServerLog } from "./server-log.ts";
import type { FilledLaunch } from "./start-process.ts";
import { startTimeOf } from "./start-time.ts";
import { openStdioTransport, type StdioLimits } from "./stdio-transport.ts";
import type { Watchdog } from "./watchdog.ts";

export interface WirePorts {
  /** Throws `invalid_config` naming what is missing. */
  readonly fill: Fill;
  readonly environment: Variables;
  readonly processes: ProcessStore;
  readonly self: { readonly pid: number; readonly host: string; readonly kill: Kill };
  readonly watchdog: Watchdog;
  readonly oauth: OAuthRecords;
  readonly now: () => Date;
  readonly logFolder: string | undefined;
  readonly stdioLimits: Partial<StdioLimits> | undefined;
  readonly messageBytes: number;
}

/** One way to one server, open or not yet. */
export interface Wire {
  readonly transport: Transport;
  /** What those who trace are told of it. */
  readonly facts: SpanFacts;
  readonly pid: number | undefined;
  readonly noise: number;
  /** Whatever was thrown on the way, as an error of ours. */
  failure(thrown: unknown): Promise<QmError>;
  /** What the server has said about itself, and how it ended where it has: empty where it said nothing. */
  lastWords(isOver: boolean): Promise<string>;
  end(): Promise<void>;
}

/** Fills a server's references and answers what opens a way to it: with standard streams, that starts a process. */
export function wiresTo(sdk: Sdk, spec: ServerSpec, ports: WirePorts): () => Wire {
  return spec.launch.kind === "stdio"
    ? stdioWires(sdk, spec.name, spec.launch, ports)
    : httpWires(sdk, spec.name, spec.launch, ports);
}

/** A remote server as far as logging in goes. */
export function oauthParty(sdk: Sdk, server: string, launch: HttpLaunch, ports: Pick<WirePorts, "fill" | "oauth">) {
  const { fill, values } = noting(ports.fill);
  const url = serverUrl(server, fill(launch.url, `servers.${server}.url`));
  const settings = filledSettings(server, launch.oauth, fill);
  const headers = filledRecord(launch.headers, `servers.${server}.headers`, fill);
  const { clientSecret } = settings;
  const party: OAuthParty = {
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
    hiding: (tokens: Readonly<Record<string, string>>): Hide => hidingValues(...hidden, tokens),
  };
}

function stdioWires(sdk: Sdk, server: string, configured: StdioLaunch, ports: WirePorts): () => Wire {
  const { environment, processes, self, watchdog, logFolder, now, stdioLimits } = ports;
  const { fill, values } = noting(ports.fill);
  const launch = filledLaunch(server, configured, fill);
  const hide = hidingValues(launch.env, values);
  const log = logFolder === undefined ? undefined : openServerLog({ path: join(logFolder, `${server}.log`), now });
  return () => {
    const transport = openStdioTransport(launch, {
      server,
      environment,
      watchdog,
      kill: self.kill,
      ...processRecord({ store: processes, server, self, startTimeOf }),
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
      failure: async (thrown) => failureOf(sdk, thrown, { server, hide, session: false }),
      async lastWords(isOver) {
        if (transport.fault !== undefined) return transport.fault;
        if (isOver) await settlesWithin(transport.ended, LAST_WORDS_MS);
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
const LAST_WORDS_MS = 1000;
/** A session that is not ended in this time ends by itself one day. */
const FAREWELL_MS = 1000;

function httpWires(sdk: Sdk, server: string, launch: HttpLaunch, ports: WirePorts): () => Wire {
  const { party, headers, hiding } = oauthParty(sdk, server, launch, ports);
  const login = storedLogin(party);
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
          return needsLogin(
            server,
            `wants a login, and what it says about that does not fit: ${hide(messageOf(thrown))}`,
          );
        return failureOf(sdk, thrown, { server, hide, session: transport.sessionId !== undefined });
      },
      lastWords: async () => "",
      async end() {
        if (transport.sessionId !== undefined) await settlesWithin(transport.terminateSession(), FAREWELL_MS);
        await transport.close();
      },
    };
  };
}

function filledLaunch(server: string, { command, args, env, cwd }: StdioLaunch, fill: Fill): FilledLaunch {
  const key = `servers.${server}`;
  return {
    command: fill(command, `${key}.command`),
    args: args.map((arg, at) => fill(arg, `${key}.args.${at}`)),
    env: filledRecord(env, `${key}.env`, fill),
    cwd: cwd === undefined ? undefined : fill(cwd, `${key}.cwd`),
  };
}

function filledRecord(record: Readonly<Record<string, string>>, key: string, fill: Fill): Record<string, string> {
  return Object.fromEntries(Object.entries(record).map(([name, text]) => [name, fill(text, `${key}.${name}`)]));
}

function filledSettings(server: string, settings: OAuthSettings = {}, fill: Fill): OAuthSettings {
  const { clientId, clientSecret } = settings;
  const key = `servers.${server}.oauth`;
  return {
    ...settings,
    ...(clientId === undefined ? {} : { clientId: fill(clientId, `${key}.client_id`) }),
    ...(clientSecret === undefined ? {} : { clientSecret: fill(clientSecret, `${key}.client_secret`) }),
  };
}
