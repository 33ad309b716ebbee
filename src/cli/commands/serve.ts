import { toOneLine } from "../../core/display-text.ts";
import { once } from "node:events";
import { isIP } from "node:net";
import { Readable, Writable } from "node:stream";
import type { Command } from "commander";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import type { Io } from "../context.ts";
import { type CommandContext, withWorkspace } from "../context.ts";
import { createWholeNumberParser, formatExamples } from "../option-parsers.ts";
import { isTerminal } from "../terminal.ts";

export function addMcpCommand(program: Command, context: CommandContext): void {
  program
    .command("mcp")
    .summary("be an MCP server on stdin and stdout")
    .description(
      "Serve every action over MCP on stdin and stdout, for a client that starts its servers itself. Ends when the client closes stdin.",
    )
    .option("--profile <name>", "the profile of the configuration that the client gets", "default")
    .addHelpText("after", formatExamples("qm mcp", "qm mcp --profile reviewer", "qm connect claude-code"))
    .action(({ profile }: { readonly profile: string }) =>
      withWorkspace(
        context,
        "calls",
        async (workspace) => {
          const { openGateway } = await import("../../mcp/gateway/create-gateway.ts");
          const { io } = context;
          const gateway = openGateway(workspace, (problem) => context.out.note(`qm: ${problem}`));
          if (isTerminal(io.stdin))
            context.out.note("qm: waiting for an MCP client on stdin; `qm connect` sets one up. Ctrl-C ends it.");
          await gateway.serveStdio({
            stdin: io.stdin instanceof Readable ? io.stdin : Readable.from(io.stdin),
            stdout: createProtocolStream(io),
            profile: gateway.profile(profile),
            signal: io.signal,
          });
        },
        { watch: true },
      ),
    );
}

/** Nothing else may be written there. */
function createProtocolStream({ stdout }: Io): Writable {
  return new Writable({
    decodeStrings: false,
    write(chunk: string | Buffer, _encoding, done) {
      stdout.write(chunk.toString());
      done();
    },
  });
}

interface ServeOptions {
  readonly host?: string;
  readonly port?: number;
}

export function addServeCommand(program: Command, context: CommandContext): void {
  program
    .command("serve")
    .summary("be an MCP server over HTTP")
    .description(
      "Serve every action over MCP at /mcp, until Ctrl-C. Clients show a token: that of their profile, or the one that is made at the first start. Approvers answer at /v1/approvals, with a token of their own, or by a signed link.",
    )
    .option("--host <address>", "listen there, not on gateway.host")
    .option("--port <n>", "listen there, not on gateway.port; 0 for any free one", createWholeNumberParser(0, 65_535))
    .addHelpText("after", formatExamples("qm serve", "qm serve --port 0 --json"))
    .action((options: ServeOptions) =>
      withWorkspace(
        context,
        "calls",
        async (workspace) => {
          const { openGateway } = await import("../../mcp/gateway/create-gateway.ts");
          const { io, out } = context;
          const host = options.host ?? workspace.config.gateway.host;
          const { openApprovalsApi } = await import("../../http/approvals-api.ts");
          const { getPublicUrl } = await import("../../http/approval-links.ts");
          const onProblem = (problem: string) => out.note(`qm: ${toOneLine(problem)}`);
          const gateway = openGateway(workspace, onProblem);
          const other = await openApprovalsApi(workspace, { onProblem, signal: io.signal });
          const opening = gateway.listen({ ...options, other, publicUrl: getPublicUrl(workspace.config) });
          const { url, tokenPath, close } = await opening.catch((thrown: unknown) => {
            throw toHostError(thrown, host) ?? thrown;
          });
          if (!isLoopback(host))
            out.note(
              `qm: warning: other machines can reach ${host}, and nothing is encrypted: put TLS in front of it before a token passes`,
            );
          const { announceServer } = await import("../../http/approval-links.ts");
          const { getAddressPath } = await import("../../workspace/state-paths.ts");
          const { systemProcess, systemRuntime } = await import("../../app/system-runtime.ts");
          const unique = systemRuntime.newId();
          const address = getAddressPath(workspace.storePath);
          const hide = await announceServer(address, url, { pid: systemProcess.pid, unique }).catch(
            (thrown: unknown) => {
              onProblem(`links to approvals may lead elsewhere: ${getErrorMessage(thrown)}`);
              return async () => {};
            },
          );
          const approvals = new URL("/v1/approvals", url).href;
          if (out.isJson) out.json({ url, approvals, tokenPath });
          else {
            out.line(`Listening on ${url}`);
            out.line(`Approvers answer at ${approvals}`);
            out.line(
              out.dim(
                `The token of the profile "default" is in ${tokenPath}; send it as Authorization: Bearer <token>.`,
              ),
            );
          }
          if (!io.signal.aborted) await once(io.signal, "abort");
          await hide();
          await close();
        },
        { watch: true },
      ),
    );
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || (isIP(host) === 4 && host.startsWith("127."));
}

const WRONG_HOST: ReadonlySet<unknown> = new Set(["ENOTFOUND", "EAI_AGAIN", "EADDRNOTAVAIL"]);

/** Another port would not help then. */
function toHostError(thrown: unknown, host: string): QmError | undefined {
  const cause = thrown instanceof QmError ? (thrown.cause as NodeJS.ErrnoException | undefined) : undefined;
  if (!WRONG_HOST.has(cause?.code)) return undefined;
  return new QmError("invalid_config", `cannot listen on ${quoteName(host)}: it is no address of this machine`, {
    hint: "Correct --host or gateway.host. 127.0.0.1 is reached from this machine only, 0.0.0.0 from everywhere.",
    cause,
  });
}
