import { once } from "node:events";
import { isIP } from "node:net";
import type { Command } from "commander";
import { messageOf, QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import { type Context, withWorkspace } from "../context.ts";
import { examples, wholeNumber } from "../options.ts";
import { oneLine } from "../text.ts";

interface ServeOptions {
  readonly host?: string;
  readonly port?: number;
}

export function addServe(program: Command, context: Context): void {
  program
    .command("serve")
    .summary("be an MCP server over HTTP")
    .description(
      "Serve every action over MCP at /mcp, until Ctrl-C. Clients show a token: that of their profile, or the one that is made at the first start. Approvers answer at /v1/approvals, with a token of their own, or by a signed link.",
    )
    .option("--host <address>", "listen there, not on gateway.host")
    .option("--port <n>", "listen there, not on gateway.port; 0 for any free one", wholeNumber(0, 65_535))
    .addHelpText("after", examples("qm serve", "qm serve --port 0 --json"))
    .action((options: ServeOptions) =>
      withWorkspace(
        context,
        "calls",
        async (workspace) => {
          const { openGateway } = await import("../../mcp/gateway/open-gateway.ts");
          const { io, out } = context;
          const host = options.host ?? workspace.config.gateway.host;
          const { openApi } = await import("../../http/open-api.ts");
          const { publicUrlOf } = await import("../../http/public-url.ts");
          const onProblem = (problem: string) => out.note(`qm: ${oneLine(problem)}`);
          const gateway = openGateway(workspace, onProblem);
          const other = await openApi(workspace, { onProblem, signal: io.signal });
          const opening = gateway.listen({ ...options, other, publicUrl: publicUrlOf(workspace.config) });
          const { url, tokenPath, close } = await opening.catch((thrown: unknown) => {
            throw wrongHost(thrown, host) ?? thrown;
          });
          if (!isLoopback(host))
            out.note(
              `qm: warning: other machines can reach ${host}, and nothing is encrypted: put TLS in front of it before a token passes`,
            );
          const { announce } = await import("../../http/serving.ts");
          const { addressPathOf } = await import("../../store-places.ts");
          const { systemProcess, systemRuntime } = await import("../../system-runtime.ts");
          const unique = systemRuntime.newId();
          const address = addressPathOf(workspace.storePath);
          const hide = await announce(address, url, { pid: systemProcess.pid, unique }).catch((thrown: unknown) => {
            onProblem(`links to approvals may lead elsewhere: ${messageOf(thrown)}`);
            return async () => {};
          });
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
function wrongHost(thrown: unknown, host: string): QmError | undefined {
  const cause = thrown instanceof QmError ? (thrown.cause as NodeJS.ErrnoException | undefined) : undefined;
  if (!WRONG_HOST.has(cause?.code)) return undefined;
  return new QmError("invalid_config", `cannot listen on ${quoted(host)}: it is no address of this machine`, {
    hint: "Correct --host or gateway.host. 127.0.0.1 is reached from this machine only, 0.0.0.0 from everywhere.",
    cause,
  });
}
