import { escapeUnsafe, formatCount } from "../../../core/display-text.ts";
import type { Command } from "commander";
import { QmError } from "../../../core/errors.ts";
import { getOwn } from "../../../core/json.ts";
import { quoteName } from "../../../core/names.ts";
import { didYouMean } from "../../../core/nearest.ts";
import type { WithheldTool } from "../../../mcp/manifests/known-tools.ts";
import type { FindingKind } from "../../../mcp/manifests/scan/finding.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { createNotAgreedError, identifyApprover, requireYes } from "../../approver.ts";
import { type CommandContext, withWorkspace } from "../../context.ts";
import { formatExamples } from "../../option-parsers.ts";
import { confirmAtTerminal } from "../../terminal.ts";
import { requireServer } from "./connection.ts";

/** What was found in a definition, for a person. */
const signTexts: Readonly<Record<FindingKind, string>> = {
  hidden_characters: "it holds characters that nobody sees",
  disguised_letters: "it holds letters that look like others",
  instructions: "it gives orders to the model",
  concealment: "it says that you are not to know something",
  prompt_imitation: "it imitates the marks that prompts are built with",
  exfiltration: "it wants data to be sent somewhere",
  secrets: "it asks for keys, passwords or the files they are in",
  encoded_text: "it holds text that must be decoded to be read",
  hidden_tail: "it holds text so far away that nobody scrolls there",
  other_tools: "it says what to do with tools of others",
  shadowing: "its name can be taken for another's",
};

const reasonTexts = {
  changed: "its definition has changed since it was accepted",
  new: "it was not there when the server was accepted",
  duplicate: "the server offers several tools of this name, and nobody can tell which a call would reach",
};

/** Why a definition is withheld, for a person. */
function formatWithheldReason(reason: string): string {
  return getOwn<string>({ ...reasonTexts, ...signTexts }, reason) ?? reason;
}

interface ReviewOptions {
  readonly accept?: boolean;
  readonly reject?: boolean;
  readonly yes?: boolean;
}

export function addServersReviewCommand(servers: Command, context: CommandContext): void {
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
      formatExamples(
        "qm servers review",
        "qm servers review github --accept",
        "qm servers review github create_issue --accept --yes",
      ),
    )
    .action((name: string | undefined, tool: string | undefined, options: ReviewOptions) =>
      withWorkspace(context, "calls", (workspace) => runServersReview(context, workspace, name, tool, options)),
    );
}

async function runServersReview(
  context: CommandContext,
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
    [...servers.manifests.withheld(server), ...(tool === undefined ? [] : servers.manifests.rejected(server))]
      .filter((each) => tool === undefined || each.tool === tool)
      .map((each) => ({ server, ...each })),
  );
  const { formatDefinitionDiff } = await import("../../../mcp/manifests/definition-diff.ts");
  if (!out.isJson || options.accept)
    for (const each of waiting) showWithheld(context, each, formatDefinitionDiff(each.accepted, each.definition));
  const result = options.accept ? "accepted" : options.reject ? "rejected" : "withheld";
  const decided = waiting.length > 0 && result !== "withheld";
  if (decided) {
    const person = await identifyApprover(context, workspace);
    const question = `${options.accept ? "Accept" : "Reject"} ${formatCount(waiting.length, "definition")}?`;
    if (options.accept) await requireYes(context, person, { question, done: result, yes: options.yes });
    else if (!options.yes && !(await confirmAtTerminal(io, question))) throw createNotAgreedError(result);
    for (const { server, tool, hash } of waiting) {
      if (options.accept) await servers.manifests.accept(server, tool, person.id, hash);
      else await servers.manifests.reject(server, tool, person.id, hash);
    }
  }
  if (out.isJson) return out.json({ [result]: waiting });
  if (waiting.length === 0) return out.line("Nothing is withheld.");
  out.line(
    decided
      ? `${formatCount(waiting.length, "definition")} ${result}.`
      : `${formatCount(waiting.length, "definition")} withheld. --accept or --reject decides.`,
  );
}

/** A name that was typed and is nowhere is a typing error, not nothing to do. */
function requireTool({ manifests: book }: Workspace["servers"], server: string, tool: string): void {
  const names = [
    ...book.tools(server).map(({ definition }) => definition.name),
    ...[...book.withheld(server), ...book.rejected(server)].map((each) => each.tool),
  ];
  if (names.includes(tool)) return;
  const isKnown = book.offer(server) !== undefined;
  throw new QmError(
    "not_found",
    isKnown
      ? `${server} has no tool ${quoteName(tool)}${didYouMean(tool, names)}`
      : `the tools of ${server} are not known yet`,
    {
      hint: isKnown
        ? `\`qm servers review ${server}\` shows what is withheld.`
        : `\`qm servers start ${server}\` asks it for them.`,
    },
  );
}

function showWithheld(
  { out }: CommandContext,
  { server, tool, reasons, signs }: WithheldTool & { readonly server: string },
  difference: readonly string[],
): void {
  const line = out.isJson ? out.note : out.line;
  line(out.bold(`${server}: ${escapeUnsafe(tool)}`));
  for (const reason of reasons) line(`  ${out.warn(escapeUnsafe(formatWithheldReason(reason)))}`);
  for (const { kind, where, excerpt } of signs)
    line(`  ${out.bad(signTexts[kind])}, at ${escapeUnsafe(where)}: ${escapeUnsafe(excerpt)}`);
  for (const changed of difference) line(`  ${changed}`);
  line("");
}
