import { existsSync } from "node:fs";
import type { Command } from "commander";
import type { Workspace, WorkspacePurpose } from "../../workspace/workspace.ts";
import { type CommandContext, reportNotFound, withWorkspace } from "../context.ts";
import { createWholeNumberParser, formatExamples } from "../option-parsers.ts";
import type { AnswerOptions } from "./approvals/answer.ts";
import type { LinkOptions } from "./approvals/link.ts";
import type { ApprovalsListOptions, ApprovalsShowOptions } from "./approvals/list.ts";

const ID = "its id, or at least the first 6 characters of it";

const loadAnswer = () => import("./approvals/answer.ts");
const loadLink = () => import("./approvals/link.ts");
const loadList = () => import("./approvals/list.ts");

export function addApprovalsCommand(program: Command, context: CommandContext): void {
  const approvals = program
    .command("approvals")
    .helpCommand(false)
    .summary("list and answer calls that wait for approval")
    .description("List the calls that wait for approval, and answer them. The first answer counts.")
    .addHelpText(
      "after",
      formatExamples("qm approvals list", "qm approvals show 0198c0de-1a2b", "qm approvals approve 0198c0de-1a2b"),
    );
  const run = (purpose: WorkspacePurpose, work: (workspace: Workspace) => Promise<void>) =>
    reportNotFound(context, async () =>
      // Opening for calls would create a store.
      withWorkspace(context, purpose === "ledger" || (await hasStore(context)) ? purpose : "ledger", work),
    );

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
    .addHelpText("after", formatExamples("qm approvals list", "qm approvals list --state done,interrupted --json"))
    .action((options: ApprovalsListOptions) =>
      run("ledger", async (workspace) => (await loadList()).runApprovalsList(context, workspace, options)),
    );

  approvals
    .command("show")
    .summary("show one call, its caller and its state")
    .argument("<id>", ID)
    .option("--full", "do not cut long arguments")
    .option("--reveal", "show masked secrets; needs a terminal or an approver's token, and is recorded")
    .option("--as <name>", "reveal as this approver, one of approvals.approvers (default: you)")
    .addHelpText("after", formatExamples("qm approvals show 0198c0de-1a2b", "qm approvals show 0198c0de-1a2b --full"))
    .action((id: string, options: ApprovalsShowOptions) =>
      run("ledger", async (workspace) => (await loadList()).runApprovalsShow(context, workspace, id, options)),
    );

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
    .addHelpText("after", formatExamples("qm approvals approve 0198c0de-1a2b --reason 'as discussed'"))
    .action((id: string, options: AnswerOptions) =>
      run(options.run === false ? "ledger" : "calls", async (workspace) =>
        (await loadAnswer()).runApprovalsAnswer(context, workspace, "approved", id, options),
      ),
    );

  approvals
    .command("deny")
    .summary("deny a call, so that it never runs")
    .description("Show the exact call, ask, and deny it. Its caller gets the reason.")
    .argument("<id>", ID)
    .option("--reason <text>", "the reason; recorded and shown to the caller")
    .option("--as <name>", "deny as this approver, one of approvals.approvers (default: you)")
    .option("-y, --yes", "do not ask")
    .addHelpText("after", formatExamples("qm approvals deny 0198c0de-1a2b --reason 'not on a Friday'"))
    .action((id: string, options: AnswerOptions) =>
      run("ledger", async (workspace) =>
        (await loadAnswer()).runApprovalsAnswer(context, workspace, "denied", id, options),
      ),
    );

  approvals
    .command("watch")
    .summary("show every change until Ctrl-C")
    .description("Show the waiting calls and every change, one per line, until Ctrl-C; with --json one object each.")
    .action(async () => (await loadList()).runApprovalsWatch(context));

  approvals
    .command("run")
    .summary("run approved calls that have not run yet")
    .description("Run approved calls that no other process has run: one, or all. Exits with 1 if one of them fails.")
    .argument("[id]", ID)
    .action((id: string | undefined) =>
      run("calls", async (workspace) => (await loadAnswer()).runApprovalsRun(context, workspace, id)),
    );

  approvals
    .command("link")
    .summary("create a link with which one person can answer one call")
    .description(
      "Create a link to a page that shows the call and takes one person's answer. Anyone with the link answers as that person, so send it to them alone. `qm serve` must be running. Needs a terminal or an approver's token.",
    )
    .argument("<id>", ID)
    .requiredOption("--for <name>", "the person who answers; one of approvals.approvers, if any are configured")
    .option("--expires <time>", "how long the link is valid: 30m, 8h; at most as long as the approval itself", "1h")
    .addHelpText("after", formatExamples("qm approvals link 0198c0de-1a2b --for ann --expires 8h"))
    .action((id: string, options: LinkOptions) =>
      run("ledger", async (workspace) => (await loadLink()).runApprovalsLink(context, workspace, id, options)),
    );
}

async function hasStore({ io: { cwd, env }, globals }: CommandContext): Promise<boolean> {
  const { loadConfig } = await import("../../config/config-file.ts");
  const { CALL_VARIABLES, compileCondition } = await import("../../core/expression.ts");
  const { resolveStorePath } = await import("../../workspace/workspace.ts");
  const compileExpression = (text: string) => compileCondition(text, CALL_VARIABLES);
  return existsSync(resolveStorePath(await loadConfig(globals.config, { cwd, env, compileExpression }), env));
}
