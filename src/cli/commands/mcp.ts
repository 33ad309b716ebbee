import { Readable, Writable } from "node:stream";
import type { Command } from "commander";
import { isTerminal } from "../ask.ts";
import { type Context, withWorkspace } from "../context.ts";
import type { Io } from "../io.ts";
import { examples } from "../options.ts";

export function addMcp(program: Command, context: Context): void {
  program
    .command("mcp")
    .summary("be an MCP server on stdin and stdout")
    .description(
      "Serve every action over MCP on stdin and stdout, for a client that starts its servers itself. Ends when the client closes stdin.",
    )
    .option("--profile <name>", "the profile of the configuration that the client gets", "default")
    .addHelpText("after", examples("qm mcp", "qm mcp --profile reviewer", "qm connect claude-code"))
    .action(({ profile }: { readonly profile: string }) =>
      withWorkspace(
        context,
        "calls",
        async (workspace) => {
          const { openGateway } = await import("../../mcp/gateway/open-gateway.ts");
          const { io } = context;
          const gateway = openGateway(workspace, (problem) => context.out.note(`qm: ${problem}`));
          if (isTerminal(io.stdin))
            context.out.note("qm: waiting for an MCP client on stdin; `qm connect` sets one up. Ctrl-C ends it.");
          await gateway.serveStdio({
            stdin: io.stdin instanceof Readable ? io.stdin : Readable.from(io.stdin),
            stdout: protocolOut(io),
            profile: gateway.profile(profile),
            signal: io.signal,
          });
        },
        { watch: true },
      ),
    );
}

/** Nothing else may be written there. */
function protocolOut({ stdout }: Io): Writable {
  return new Writable({
    decodeStrings: false,
    write(chunk: string | Buffer, _encoding, done) {
      stdout.write(chunk.toString());
      done();
    },
  });
}
