import type { Command } from "commander";
import { QmError } from "../../../core/errors.ts";
import { quoted } from "../../../core/names.ts";
import { didYouMean } from "../../../core/nearest.ts";
import type { WithheldTool } from "../../../mcp/manifest/known-tools.ts";
import type { Workspace } from "../../../workspace.ts";
import { confirmed } from "../../ask.ts";
import { type Context, withWorkspace } from "../../context.ts";
import { examples } from "../../options.ts";
import { personAt, requireYes } from "../../person.ts";
import { counted, plain } from "../../text.ts";
import { notAgreed } from "./agreement.ts";
import { requireServer } from "./require-server.ts";
import { reasonText, signText } from "./withheld-text.ts";

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
    .option("-y, --yes", "do not ask; to accept, only with an approver's token in QM_APPROVER_TOKEN")
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
  workspace: Workspace,
  name: string | undefined,
  tool: string | undefined,
  options: ReviewOptions,
): Promise<void> {
  const { io, out } = context;
  const { servers } = workspace;
  if (options.accept && options.reject)
    throw new QmError("invalid_arguments", "--accept and --reject contradict each other", {
      hint: "Give one of them.",
    });
  const names = name === undefined ? servers.list().map(({ spec }) => spec.name) : [requireServer(servers, name).name];
  if (name !== undefined && tool !== undefined) requireTool(servers, name, tool);
  const waiting = names.flatMap((server) =>
    // What was rejected is out of the way, unless somebody asks for it by name.
    [...servers.book.withheld(server), ...(tool === undefined ? [] : servers.book.rejected(server))]
      .filter((each) => tool === undefined || each.tool === tool)
      .map((each) => ({ server, ...each })),
  );
  const { diffLines } = await import("../../../mcp/manifest/diff.ts");
  if (!out.isJson || options.accept)
    for (const each of waiting) show(context, each, diffLines(each.accepted, each.definition));
  const result = options.accept ? "accepted" : options.reject ? "rejected" : "withheld";
  const decided = waiting.length > 0 && result !== "withheld";
  if (decided) {
    const person = await personAt(context, workspace);
    const question = `${options.accept ? "Accept" : "Reject"} ${counted(waiting.length, "definition")}?`;
    if (options.accept) await requireYes(context, person, { question, done: result, yes: options.yes });
    else if (!options.yes && !(await confirmed(io, question))) throw notAgreed(result);
    for (const { server, tool, hash } of waiting) {
      if (options.accept) await servers.book.accept(server, tool, person.id, hash);
      else await servers.book.reject(server, tool, person.id, hash);
    }
  }
  if (out.isJson) return out.json({ [result]: waiting });
  if (waiting.length === 0) return out.line("Nothing is withheld.");
  out.line(
    decided
      ? `${counted(waiting.length, "definition")} ${result}.`
      : `${counted(waiting.length, "definition")} withheld. --accept or --reject decides.`,
  );
}

/** A name that was typed and is nowhere is a typing error, not nothing to do. */
function requireTool({ book }: Workspace["servers"], server: string, tool: string): void {
  const names = [
    ...book.tools(server).map(({ definition }) => definition.name),
    ...[...book.withheld(server), ...book.rejected(server)].map((each) => each.tool),
  ];
  if (names.includes(tool)) return;
  const isKnown = book.offer(server) !== undefined;
  throw new QmError(
    "not_found",
    isKnown
      ? `${server} has no tool ${quoted(tool)}${didYouMean(tool, names)}`
      : `the tools of ${server} are not known yet`,
    {
      hint: isKnown
        ? `\`qm servers review ${server}\` shows what is withheld.`
        : `\`qm servers start ${server}\` asks it for them.`,
    },
  );
}

function show(
  { out }: Context,
  { server, tool, reasons, signs }: WithheldTool & { readonly server: string },
  difference: readonly string[],
): void {
  const line = out.isJson ? out.note : out.line;
  line(out.bold(`${server}: ${plain(tool)}`));
  for (const reason of reasons) line(`  ${out.warn(plain(reasonText(reason)))}`);
  for (const { kind, where, excerpt } of signs)
    line(`  ${out.bad(signText[kind])}, at ${plain(where)}: ${plain(excerpt)}`);
  for (const changed of difference) line(`  ${changed}`);
  line("");
}
