import { once } from "node:events";
import { isIP } from "node:net";
import { Readable } from "node:stream";
import type { Command } from "commander";
import { formatCount, toOneLine } from "../../core/display-text.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import type { LearnedServer } from "../../mcp/provider/learn-servers.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, withWorkspace } from "../context.ts";
import { createWholeNumberParser, examples } from "../option-parsers.ts";
import type { CommandOutput } from "../output.ts";
import { isTerminal, toWritable } from "../terminal.ts";

const NO_START = "start no server before it is used";
const ASKED = "servers whose tools are unknown are asked once";

export function addMcpCommand(program: Command, context: Context): void {
  program
    .command("mcp")
    .summary("run as an MCP server over stdio")
    .description(
      "Serve all actions over MCP on stdin and stdout, for a client that starts its servers itself. Ends when the client closes stdin.",
    )
    .option("--profile <name>", "the gateway profile for this client", "default")
    .option("--no-start", `${NO_START}: with --config, ${ASKED}`)
    .addHelpText(...examples("qm mcp", "qm mcp --profile reviewer", "qm mcp --actor reviewer"))
    .action(({ profile, start }: { readonly profile: string; readonly start: boolean }) =>
      withWorkspace(context, "calls", (workspace) => runMcp(context, workspace, profile, start), true),
    );
}

const parsePort = createWholeNumberParser(0, 65_535);
type ServeOptions = { readonly host?: string; readonly port?: number; readonly start: boolean };

export function addServeCommand(program: Command, context: Context): void {
  program
    .command("serve")
    .summary("run as an MCP server over HTTP")
    .description(
      "Serve all actions over MCP at /mcp until Ctrl-C. Clients send a token: that of their profile, or the one created at the first start. Approvers answer at /v1/approvals with their own token, or by a signed link. With a2a.enabled, other agents call /a2a.",
    )
    .option("--host <address>", "listen on this address instead of gateway.host")
    .option("--port <n>", "listen on this port instead of gateway.port; 0 for a free one", parsePort)
    .option("--no-start", `${NO_START}: by default, ${ASKED}`)
    .addHelpText(...examples("qm serve", "qm serve --port 0 --json"))
    .action((options: ServeOptions) =>
      withWorkspace(context, "calls", (workspace) => runServe(context, workspace, options), true),
    );
}

interface ListeningGateway {
  readonly url: string;
  readonly approvals: string;
  /** The address for other agents. Absent: they cannot call. */
  readonly a2a?: string;
  readonly tokenPath: string;
}

async function runMcp(context: Context, workspace: Workspace, profileName: string, start: boolean): Promise<void> {
  const { io, out, globals } = context;
  const { openGateway } = await import("../../mcp/gateway/create-gateway.ts");
  const gateway = openGateway(workspace, (problem) => out.note(`qm: ${problem}`));
  const profile = gateway.profile(profileName, globals.actor);
  // Throws if the actor cannot be used, so that the client shows why.
  workspace.quartermaster.names({ actor: profile.actor });
  if (isTerminal(io.stdin))
    out.note("qm: waiting for an MCP client on stdin; `qm connect` sets one up. Ctrl-C ends it.");
  const serving = gateway.serveStdio({
    stdin: io.stdin instanceof Readable ? io.stdin : Readable.from(io.stdin),
    stdout: toWritable(io.stdout),
    profile,
    signal: io.signal,
  });
  // A client starts this in the folder that it opens. A configuration that is only found there may be hostile.
  const isNamed = globals.config !== undefined;
  const stopAsking = start && isNamed ? askUnknownServers(context, workspace) : undefined;
  await serving.finally(stopAsking);
}

const ASK_LIMIT_MS = 300_000;

/** Reads the tools of servers that are not known yet, while clients are already served. The returned function ends it. */
function askUnknownServers({ io, out }: Context, { servers }: Workspace): () => Promise<void> {
  const closing = new AbortController();
  const signal = AbortSignal.any([io.signal, closing.signal]);
  const onLearned = ({ name, tools, problem }: LearnedServer): void => {
    if (signal.aborted) return;
    if (problem !== undefined) out.note(`qm: warning: the tools of ${name} are not known: ${toOneLine(problem.error)}`);
    else if (io.stderr.isTTY) out.note(`qm: ${name} offers ${formatCount(tools ?? 0, "tool")}`);
  };
  const ask = async (): Promise<void> => {
    const names = await servers.listUnknown();
    if (names.length === 0) return;
    const { learnServers } = await import("../../mcp/provider/learn-servers.ts");
    await learnServers(servers, names, { signal, timeoutMs: ASK_LIMIT_MS, onLearned });
  };
  const asking = ask().catch((thrown: unknown) =>
    out.note(`qm: warning: the servers were not asked for their tools: ${toOneLine(getErrorMessage(thrown))}`),
  );
  return async () => {
    closing.abort();
    await asking;
  };
}

/** Serves until the signal aborts. `show` prints where it listens. */
export async function runServe(
  context: Context,
  workspace: Workspace,
  options: ServeOptions,
  show: (gateway: ListeningGateway) => Promise<void> | void = (gateway) => showGateway(context.out, gateway),
): Promise<void> {
  const { io, out } = context;
  const { openGateway } = await import("../../mcp/gateway/create-gateway.ts");
  const { openApprovalsApi } = await import("../../http/approvals-api.ts");
  const { announceServer, getPublicUrl } = await import("../../http/approval-links.ts");
  const { getAddressPath } = await import("../../workspace/state-paths.ts");
  const { systemProcess, systemRuntime } = await import("../../app/system-runtime.ts");
  const { config, storePath } = workspace;
  const host = options.host ?? config.gateway.host;
  const onProblem = (problem: string) => out.note(`qm: ${toOneLine(problem)}`);
  const gateway = openGateway(workspace, onProblem);
  const publicUrl = getPublicUrl(config);
  const other = await openApprovalsApi(workspace, { onProblem, signal: io.signal });
  // Loaded only if it is used: most installations serve no other agents.
  const a2aModule = config.a2a.enabled ? await import("../../http/a2a-api.ts") : undefined;
  const a2a = await a2aModule?.openA2aEndpoint(workspace, { onProblem, publicUrl });
  if (a2a !== undefined) other.route("/", a2a.routes);
  const { start, ...address } = options;
  const listening = gateway.listen({ ...address, other, publicUrl });
  const { url, tokenPath, close } = await listening.catch(async (thrown: unknown) => {
    await a2a?.close();
    throw toHostError(thrown, host) ?? thrown;
  });
  if (!isLoopback(host))
    out.note(
      `qm: warning: other machines can reach ${host}, and the traffic is not encrypted: use a TLS proxy before a token is sent`,
    );
  const owner = { pid: systemProcess.pid, unique: systemRuntime.newId() };
  const unannounce = await announceServer(getAddressPath(storePath), url, owner).catch((thrown: unknown) => {
    onProblem(`links to approvals may have a wrong address: ${getErrorMessage(thrown)}`);
    return async () => {};
  });
  const approvals = new URL("/v1/approvals", url).href;
  const more = a2a === undefined ? {} : { a2a: new URL("/a2a", url).href };
  await show({ url, approvals, ...more, tokenPath });
  const stopAsking = start ? askUnknownServers(context, workspace) : undefined;
  if (!io.signal.aborted) await once(io.signal, "abort");
  await stopAsking?.();
  await unannounce();
  await a2a?.close();
  await close();
}

function showGateway(out: CommandOutput, gateway: ListeningGateway): void {
  const { url, approvals, a2a, tokenPath } = gateway;
  const token = `The token of the profile "default" is in ${tokenPath}; send it as Authorization: Bearer <token>.`;
  const peers = a2a === undefined ? "" : `Other agents call ${a2a}\n`;
  out.answer(gateway, `Listening on ${url}\nApprovers answer at ${approvals}\n${peers}${out.dim(token)}`);
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

/** For a wrong host, the original hint to choose another port would not help. */
function toHostError(thrown: unknown, host: string): QmError | undefined {
  const cause = thrown instanceof QmError ? (thrown.cause as NodeJS.ErrnoException | undefined) : undefined;
  if (!["ENOTFOUND", "EAI_AGAIN", "EADDRNOTAVAIL"].includes(cause?.code ?? "")) return undefined;
  return new QmError("invalid_config", `cannot listen on ${quoteName(host)}: it is no address of this machine`, {
    hint: "Correct --host or gateway.host. 127.0.0.1 accepts connections from this machine only, 0.0.0.0 from all.",
    cause,
  });
}
