import { once } from "node:events";
import type { Command } from "commander";
import { type Context, withWorkspace } from "../context.ts";
import { examples, wholeNumber } from "../options.ts";

interface ServeOptions {
  readonly host?: string;
  readonly port?: number;
}

export function addServe(program: Command, context: Context): void {
  program
    .command("serve")
    .summary("be an MCP server over HTTP")
    .description(
      "Serve every action over MCP at /mcp, until Ctrl-C. Clients show a token: that of their profile, or the one that is made at the first start.",
    )
    .option("--host <address>", "listen there, not on gateway.host")
    .option("--port <n>", "listen there, not on gateway.port; 0 for any free one", wholeNumber(0))
    .addHelpText("after", examples("qm serve", "qm serve --port 0 --json"))
    .action((options: ServeOptions) =>
      withWorkspace(
        context,
        "calls",
        async (workspace) => {
          const { openGateway } = await import("../../mcp/gateway/open-gateway.ts");
          const { io, out } = context;
          const gateway = openGateway(workspace, (problem) => out.note(`qm: ${problem}`));
          const { url, tokenPath, close } = await gateway.listen(options);
          if (out.isJson) out.json({ url, tokenPath });
          else {
            out.line(`Listening on ${url}`);
            out.line(
              out.dim(
                `The token of the profile "default" is in ${tokenPath}; send it as Authorization: Bearer <token>.`,
              ),
            );
          }
          if (!io.signal.aborted) await once(io.signal, "abort");
          await close();
        },
        { watch: true },
      ),
    );
}
