import { once } from "node:events";
import { isIP } from "node:net";
import { Readable } from "node:stream";
import type { Command } from "commander";
import { toOneLine } from "../../core/display-text.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, withWorkspace } from "../context.ts";
import { createWholeNumberParser, examples } from "../option-parsers.ts";
import type { CommandOutput } from "../output.ts";
import { isTerminal, toWritable } from "../terminal.ts";

export function addMcpCommand(program: Command, context: Context): void {
  program
    .command("mcp")
    .summary("run as an MCP server over stdio")
    .description(
      "Serve all actions over MCP on stdin and stdout, for a client that starts its servers itself. Ends when the client closes stdin.",
    )
    .option("--profile <name>", "the gateway profile for this client", "default")
    .addHelpText(...examples("qm mcp", "qm mcp --profile reviewer", "qm connect claude-code"))
    .action(({ profile }: { readonly profile: string }) =>
      withWorkspace(context, "calls", (workspace) => runMcp(context, workspace, profile), true),
    );
}

const parsePort = createWholeNumberParser(0, 65_535);
type ServeOptions = { readonly host?: string; readonly port?: number };

export function addServeCommand(program: Command, context: Context): void {
  program
    .command("serve")
    .summary("run as an MCP server over HTTP")
    .description(
      "Serve all actions over MCP at /mcp until Ctrl-C. Clients send a token: that of their profile, or the one created at the first start. Approvers answer at /v1/approvals with their own token, or by a signed link.",
    )
    .option("--host <address>", "listen on this address instead of gateway.host")
    .option("--port <n>", "listen on this port instead of gateway.port; 0 for a free one", parsePort)
    .addHelpText(...examples("qm serve", "qm serve --port 0 --json"))
    .action((options: ServeOptions) =>
      withWorkspace(context, "calls", (workspace) => runServe(context, workspace, options), true),
    );
}

interface ListeningGateway {
  readonly url: string;
  readonly approvals: string;
  readonly tokenPath: string;
}

async function runMcp({ io, out }: Context, workspace: Workspace, profile: string): Promise<void> {
  const { openGateway } = await import("../../mcp/gateway/create-gateway.ts");
  const gateway = openGateway(workspace, (problem) => out.note(`qm: ${problem}`));
  if (isTerminal(io.stdin))
    out.note("qm: waiting for an MCP client on stdin; `qm connect` sets one up. Ctrl-C ends it.");
  await gateway.serveStdio({
    stdin: io.stdin instanceof Readable ? io.stdin : Readable.from(io.stdin),
    stdout: toWritable(io.stdout),
    profile: gateway.profile(profile),
    signal: io.signal,
  });
}

/** Serves until the signal aborts. `show` prints where it listens. */
export async function runServe(
  { io, out }: Context,
  workspace: Workspace,
  options: ServeOptions,
  show: (gateway: ListeningGateway) => Promise<void> | void = (gateway) => showGateway(out, gateway),
): Promise<void> {
  const { openGateway } = await import("../../mcp/gateway/create-gateway.ts");
  const { openApprovalsApi } = await import("../../http/approvals-api.ts");
  const { announceServer, getPublicUrl } = await import("../../http/approval-links.ts");
  const { getAddressPath } = await import("../../workspace/state-paths.ts");
  const { systemProcess, systemRuntime } = await import("../../app/system-runtime.ts");
  const { config, storePath } = workspace;
  const host = options.host ?? config.gateway.host;
  const onProblem = (problem: string) => out.note(`qm: ${toOneLine(problem)}`);
  const gateway = openGateway(workspace, onProblem);
  const other = await openApprovalsApi(workspace, { onProblem, signal: io.signal });
  const listening = gateway.listen({ ...options, other, publicUrl: getPublicUrl(config) });
  const { url, tokenPath, close } = await listening.catch((thrown: unknown) => {
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
  await show({ url, approvals, tokenPath });
  if (!io.signal.aborted) await once(io.signal, "abort");
  await unannounce();
  await close();
}

function showGateway(out: CommandOutput, gateway: ListeningGateway): void {
  const { url, approvals, tokenPath } = gateway;
  const token = `The token of the profile "default" is in ${tokenPath}; send it as Authorization: Bearer <token>.`;
  out.answer(gateway, `Listening on ${url}\nApprovers answer at ${approvals}\n${out.dim(token)}`);
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
