import type { Command } from "commander";
import { type Context, withWorkspace } from "../../context.ts";
import { wholeNumber } from "../../options.ts";
import { plain } from "../../text.ts";
import { requireServer } from "./require-server.ts";

export function addLogs(servers: Command, context: Context): void {
  servers
    .command("logs")
    .summary("what a server wrote to its error output")
    .argument("<name>")
    .option("--lines <n>", "the newest so many", wholeNumber(1), 50)
    .action((name: string, { lines }: { readonly lines: number }) =>
      withWorkspace(context, "looking", async ({ servers }) => {
        const { out } = context;
        requireServer(servers, name);
        const newest = await servers.logs(name, lines);
        if (out.isJson) return out.json({ server: name, lines: newest });
        if (newest.length === 0) return out.line(`${name} has written nothing.`);
        for (const line of newest) out.line(plain(line));
      }),
    );
}
