import { existsSync } from "node:fs";
import type { Command } from "commander";
import type { WorkspacePurpose } from "../../workspace/workspace.ts";
import { type Arguments, type Context, findStorePath, inWorkspace, reportNotFound, type Work } from "../context.ts";
import { createWholeNumberParser, examples } from "../option-parsers.ts";
import type { AnswerOptions } from "./approvals/answer.ts";

const ID = "its id, or at least the first 6 characters of it";
const loadAnswer = async () => (await import("./approvals/answer.ts")).runApprovalsAnswer;
const loadRun = async () => (await import("./approvals/answer.ts")).runApprovalsRun;
const loadLink = async () => (await import("./approvals/link.ts")).runApprovalsLink;
const loadList = async () => (await import("./approvals/list.ts")).runApprovalsList;
const loadShow = async () => (await import("./approvals/list.ts")).runApprovalsShow;
const loadWatch = async () => (await import("./approvals/list.ts")).runApprovalsWatch;

export function addApprovalsCommand(program: Command, context: Context): void {
  const approvals = program
    .command("approvals")
    .helpCommand(false)
    .summary("list and answer calls that wait for approval")
    .description("List the calls that wait for approval, and answer them. The first answer counts.")
    .addHelpText(
      ...examples("qm approvals list", "qm approvals show 0198c0de-1a2b", "qm approvals approve 0198c0de-1a2b"),
    );
  const run =
    <Args extends Arguments>(purpose: WorkspacePurpose, load: () => Promise<Work<Args>>) =>
    (...args: Args) =>
      reportNotFound(context, async () => {
        // Opening for calls would create a store.
        const actual = purpose === "ledger" || existsSync(await findStorePath(context)) ? purpose : "ledger";
        return inWorkspace(context, actual, await load())(...args);
      });

  approvals
    .command("list")
    .summary("list the calls that wait")
    .description("List the calls that wait for an answer, oldest first.")
    .option(
      "--state <state>",
      "filter by state, or several with commas: pending (default), approved, denied, expired, executing, done, interrupted",
    )
    .option("--all", "show all states")
    .option("--action <name>", "only calls of this action")
    .option("--limit <n>", "show at most N", createWholeNumberParser(1, 10_000), 100)
    .addHelpText(...examples("qm approvals list", "qm approvals list --state done,interrupted --json"))
    .action(run("ledger", loadList));

  approvals
    .command("show")
    .summary("show one call, its caller and its state")
    .argument("<id>", ID)
    .option("--full", "do not cut long arguments, and show all files that the call would use")
    .option("--reveal", "show masked secrets; needs a terminal or an approver's token, and is recorded")
    .option("--as <name>", "reveal as this approver, one of approvals.approvers (default: you)")
    .addHelpText(...examples("qm approvals show 0198c0de-1a2b", "qm approvals show 0198c0de-1a2b --full"))
    .action(run("ledger", loadShow));

  approvals
    .command("approve")
    .summary("approve a call, so that it runs once")
    .description(
      "Show the exact call, ask at the terminal, and approve it. Without a terminal, QM_APPROVER_TOKEN must hold an approver's token. A running gateway runs the call; otherwise this command runs it and prints the outcome.",
    )
    .argument("<id>", ID)
    .option("--reason <text>", "the reason; recorded and shown to the caller")
    .option("--as <name>", "approve as this approver, one of approvals.approvers (default: you)")
    .option("--no-run", "leave running it to another process")
    .option("-y, --yes", "do not ask; only with an approver's token in QM_APPROVER_TOKEN")
    .addHelpText(...examples("qm approvals approve 0198c0de-1a2b --reason 'as discussed'"))
    .action((id: string, options: AnswerOptions) =>
      run(options.run === false ? "ledger" : "calls", loadAnswer)(id, options, "approved"),
    );

  approvals
    .command("deny")
    .summary("deny a call, so that it never runs")
    .description("Show the exact call, ask, and deny it. Its caller gets the reason.")
    .argument("<id>", ID)
    .option("--reason <text>", "the reason; recorded and shown to the caller")
    .option("--as <name>", "deny as this approver, one of approvals.approvers (default: you)")
    .option("-y, --yes", "do not ask")
    .addHelpText(...examples("qm approvals deny 0198c0de-1a2b --reason 'not on a Friday'"))
    .action((id: string, options: AnswerOptions) => run("ledger", loadAnswer)(id, options, "denied"));

  approvals
    .command("watch")
    .summary("show every change until Ctrl-C")
    .description("Show the waiting calls and every change, one per line, until Ctrl-C; with --json one object each.")
    .action(async () => (await loadWatch())(context));

  approvals
    .command("run")
    .summary("run approved calls that have not run yet")
    .description("Run approved calls that no other process has run: one, or all. Exits with 1 if one of them fails.")
    .argument("[id]", ID)
    .action(run("calls", loadRun));

  approvals
    .command("link")
    .summary("create a link with which one person can answer one call")
    .description(
      "Create a link to a page that shows the call and takes one person's answer. Anyone with the link answers as that person, so send it to them alone. `qm serve` must be running. Needs a terminal or an approver's token.",
    )
    .argument("<id>", ID)
    .requiredOption("--for <name>", "the person who answers; one of approvals.approvers, if any are configured")
    .option("--expires <time>", "how long the link is valid: 30m, 8h; at most as long as the approval itself", "1h")
    .addHelpText(...examples("qm approvals link 0198c0de-1a2b --for ann --expires 8h"))
    .action(run("ledger", loadLink));
}
