import { join } from "node:path";
import type { Transport } from "@modelcontextprotocol/client";
import { settlesWithin } from "../../core/async.ts";
import { getErrorMessage, type QmError } from "../../core/errors.ts";
import { omitUndefined } from "../../core/json.ts";
import type { SpanFacts } from "../../core/tracing.ts";
import type { HttpLaunch, ServerSpec, StdioLaunch } from "../server-spec.ts";
import { openHttpTransport, parseServerUrl } from "./http-transport.ts";
import type { HubContext } from "./hub.ts";
import { createValueRedactor } from "./redact-values.ts";
import type { Sdk } from "./sdk-client.ts";
import { loginRequiredError, toServerFailure } from "./server-errors.ts";
import { openServerLog } from "./server-log.ts";
import { createProcessRecorder } from "./server-processes.ts";
import { openStdioTransport, type StdioTransport } from "./stdio-transport.ts";
import { createStoredLogin } from "./stored-login.ts";

/** How long to wait for the exit code and last output of a server that is ending. */
const EXIT_DETAILS_MS = 1000;
/** How long to wait for a remote server to end the session. An open session expires by itself. */
const SESSION_END_MS = 1000;

/** The transport to one server, with what the hub needs beside messages. */
export interface ServerTransport {
  readonly transport: Transport;
  readonly facts: SpanFacts;
  /** Absent: a remote server. */
  readonly process?: Pick<StdioTransport, "pid" | "noise">;
  failure(thrown: unknown): Promise<QmError>;
  /** The exit code and last output of the server. Empty if there is none. */
  describeExit(hasEnded: boolean): Promise<string>;
  end(): Promise<void>;
}

/** Fills a server's references and returns a function that opens a transport; on stdio, `start` runs the process. */
export function createTransportFactory(sdk: Sdk, spec: ServerSpec, context: HubContext): () => ServerTransport {
  return spec.launch.kind === "stdio"
    ? createStdioFactory(sdk, spec.name, spec.launch, context)
    : createHttpFactory(sdk, spec.name, spec.launch, context);
}

function createStdioFactory(sdk: Sdk, server: string, spec: StdioLaunch, context: HubContext): () => ServerTransport {
  const { environment, sandbox, processes, processFacts, watchdog, logFolder, runtime, limits } = context;
  const { fill, fillRecord, values } = recordFilledValues(context.fill, `servers.${server}`);
  const launch = {
    command: fill(spec.command, "command"),
    args: spec.args.map((arg, at) => fill(arg, `args.${at}`)),
    env: fillRecord(spec.env, "env"),
    cwd: spec.cwd === undefined ? undefined : fill(spec.cwd, "cwd"),
    sandbox: spec.sandbox && {
      ...spec.sandbox,
      read: spec.sandbox.read.map((path, at) => fill(path, `sandbox.read.${at}`)),
      write: spec.sandbox.write.map((path, at) => fill(path, `sandbox.write.${at}`)),
    },
  };
  const hide = createValueRedactor(launch.env, values);
  const log =
    logFolder === undefined ? undefined : openServerLog({ path: join(logFolder, `${server}.log`), now: runtime.now });
  return () => {
    const transport = openStdioTransport(launch, {
      server,
      environment,
      watchdog,
      sandbox,
      kill: processFacts.kill,
      ...createProcessRecorder(processes, server, processFacts),
      hide,
      log: log?.write,
      limits: limits.stdio,
    });
    return {
      transport,
      facts: { "network.transport": "pipe" },
      process: transport,
      failure: async (thrown) => toServerFailure(sdk, thrown, { server, hide, hasSession: false }),
      async describeExit(hasEnded) {
        if (transport.fault !== undefined) return transport.fault;
        const isKnown = hasEnded && (await settlesWithin(transport.ended, EXIT_DETAILS_MS));
        const { code = null, signal = null } = isKnown ? await transport.ended : {};
        const place = launch.sandbox === undefined ? "" : " in a sandbox that shows only granted files";
        const how = signal !== null ? `signal ${signal}` : code !== null ? `exit code ${code}${place}` : "";
        const stderr = transport.stderrTail();
        const noise = hide(transport.noiseSamples.join("\n"));
        const said = noise === "" ? "" : `its stdout has text that is not a message: ${noise}`;
        const output = stderr === "" ? said : `its stderr ends with:\n${stderr}`;
        return [how, output].filter((part) => part !== "").join("; ");
      },
      end: () => transport.close(),
    };
  };
}

function createHttpFactory(sdk: Sdk, server: string, launch: HttpLaunch, context: HubContext): () => ServerTransport {
  const { oauth, headers, createRedactor } = createOAuthContext(sdk, server, launch, context);
  const { url } = oauth;
  const login = createStoredLogin(oauth);
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
    const transport = openHttpTransport(sdk, url, headers, auth, context.limits.messageBytes);
    return {
      transport,
      facts: {
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "server.address": url.hostname,
        "server.port": Number(url.port) || (url.protocol === "https:" ? 443 : 80),
      },
      async failure(thrown) {
        if (thrown instanceof sdk.InsufficientScopeError) return login.stepUp(thrown);
        const hide = createRedactor(tokens);
        const message = hide(getErrorMessage(thrown));
        if (thrown instanceof sdk.OAuthClientFlowError)
          return loginRequiredError(server, `needs a login, but describes it wrongly: ${message}`);
        return toServerFailure(sdk, thrown, { server, hide, hasSession: transport.sessionId !== undefined });
      },
      describeExit: async () => "",
      async end() {
        if (transport.sessionId !== undefined) await settlesWithin(transport.terminateSession(), SESSION_END_MS);
        await transport.close();
      },
    };
  };
}

export function createOAuthContext(sdk: Sdk, server: string, launch: HttpLaunch, context: HubContext) {
  const { fill, fillRecord, values } = recordFilledValues(context.fill, `servers.${server}`);
  const url = parseServerUrl(server, fill(launch.url, "url"));
  const { clientId, clientSecret } = launch.oauth ?? {};
  const filled = omitUndefined({
    clientId: clientId === undefined ? undefined : fill(clientId, "oauth.client_id"),
    clientSecret: clientSecret === undefined ? undefined : fill(clientSecret, "oauth.client_secret"),
  });
  const headers = fillRecord(launch.headers, "headers");
  const hidden = [headers, omitUndefined({ "client secret": filled.clientSecret }), values];
  return {
    oauth: { sdk, server, url, settings: { ...launch.oauth, ...filled }, records: context.oauth },
    headers,
    createRedactor: (tokens: Readonly<Record<string, string>>) =>
      createValueRedactor(...(hidden as Record<string, string>[]), tokens),
  };
}

/** Not where the `$` is doubled, which stands for a literal `$`. */
const REFERENCE = /(?<!\$)\$\{((?:env|secret):[A-Za-z_][A-Za-z0-9_]*)\}/g;

/** Functions that fill references below a config key. They collect every filled value in `values`, by reference. */
function recordFilledValues(fillText: HubContext["fill"], prefix: string) {
  const values: Record<string, string> = {};
  const fill = (text: string, name: string): string => {
    const key = `${prefix}.${name}`;
    const filled = fillText(text, key);
    for (const [reference, label = ""] of text.matchAll(REFERENCE)) values[label] = fillText(reference, key);
    return filled;
  };
  const fillRecord = (record: Readonly<Record<string, string>>, name: string): Record<string, string> =>
    Object.fromEntries(Object.entries(record).map(([key, text]) => [key, fill(text, `${name}.${key}`)]));
  return { values, fill, fillRecord };
}
