import type { Command } from "commander";
import type { WithheldTool } from "../../../mcp/manifest/known-tools.ts";
import type { Workspace } from "../../../workspace.ts";
import { confirmed } from "../../ask.ts";
import { type Context, personOf, withWorkspace } from "../../context.ts";
import { examples } from "../../options.ts";
import { counted, plain } from "../../text.ts";
import { requireServer } from "./require-server.ts";

interface ReviewOptions {
  readonly accept?: boolean;
  readonly reject?: boolean;
  readonly yes?: boolean;
}

export function addReview(servers: Command, context: Context): void {
  servers
    .command("review")
    .summary("look at tool definitions that are withheld, and accept or reject them")
    .description(
      "Show the definitions that a server has changed or added since a person last accepted them, and those that look as if they were written for the model rather than for you.",
    )
    .argument("[name]", "only this server")
    .argument("[tool]", "only this tool")
    .option("--accept", "accept what is shown")
    .option("--reject", "say no to what is shown; it can still be accepted by name")
    .option("-y, --yes", "do not ask")
    .addHelpText(
      "after",
      examples(
        "qm servers review",
        "qm servers review github --accept",
        "qm servers review github create_issue --accept --yes",
      ),
    )
    .action((name: string | undefined, tool: string | undefined, options: ReviewOptions) =>
      withWorkspace(context, "calls", (workspace) => review(context, workspace, name, tool, options)),
    );
}

async function review(
  context: Context,
  { servers }: Workspace,
  name: string | undefined,
  tool: string | undefined,
  options: ReviewOptions,
): Promise<void> {
  const { io, out } = context;
  const names = name === undefined ? servers.list().map(({ spec }) => spec.name) : [requireServer(servers, name).name];
  const waiting = names.flatMap((server) =>
    // What was rejected is out of the way, unless somebody asks for it by name.
    [...servers.book.withheld(server), ...(tool === undefined ? [] : servers.book.rejected(server))]
      .filter((each) => tool === undefined || each.tool === tool)
      .map((each) => ({ server, ...each })),
  );
  const { diffLines } = await import("../../../mcp/manifest/diff.ts");
  if (!out.isJson) for (const each of waiting) show(context, each, diffLines(each.accepted, each.definition));
  const decided =
    waiting.length > 0 && (options.accept || options.reject) && (options.yes || (await agreed(io, waiting, options)));
  if (decided) {
    for (const { server, tool, hash } of waiting) {
      if (options.accept) await servers.book.accept(server, tool, personOf(io), hash);
      else await servers.book.reject(server, tool, personOf(io), hash);
    }
  }
  const result = decided ? (options.accept ? "accepted" : "rejected") : "withheld";
  if (out.isJson) return out.json({ [result]: waiting });
  if (waiting.length === 0) return out.line("Nothing is withheld.");
  out.line(
    decided
      ? `${counted(waiting.length, "definition")} ${result}.`
      : `${counted(waiting.length, "definition")} withheld. --accept or --reject decides.`,
  );
}

function agreed(io: Context["io"], waiting: readonly unknown[], { accept }: ReviewOptions): Promise<boolean> {
  return confirmed(io, `${accept ? "Accept" : "Reject"} ${counted(waiting.length, "definition")}?`);
}

function show(
  { out }: Context,
  { server, tool, reasons, signs }: WithheldTool & { readonly server: string },
  difference: readonly string[],
): void {
  out.line(out.bold(`${server}: ${plain(tool)}`));
  for (const reason of reasons) out.line(`  ${out.warn(plain(reason))}`);
  for (const { kind, where, excerpt } of signs) out.line(`  ${out.bad(kind)} at ${plain(where)}: ${plain(excerpt)}`);
  for (const line of difference) out.line(`  ${line}`);
  out.line();
}
