import { existsSync } from "node:fs";
import type { Command } from "commander";
import type { Workspace, WorkspacePurpose } from "../../workspace/workspace.ts";
import { type CommandContext, withWorkspace } from "../context.ts";
import { createWholeNumberParser, formatExamples } from "../option-parsers.ts";
import type { AnswerOptions } from "./approvals/answer.ts";
import type { LinkOptions } from "./approvals/link.ts";
import type { ApprovalsListOptions, ApprovalsShowOptions } from "./approvals/list.ts";
import { reportNotFound } from "./replay.ts";

const ID = "its id, or the beginning of it: at least 6 characters";

/** What each command does is loaded when it is run: the program starts with the words alone. */
export function addApprovalsCommand(program: Command, context: CommandContext): void {
  const approvals = program
    .command("approvals")
    .helpCommand(false)
    .summary("calls that wait for a person: look, approve, deny")
    .description("See the calls that wait for a person's agreement, and answer them. The first answer counts.")
    .addHelpText(
      "after",
      formatExamples("qm approvals list", "qm approvals show 0198c0de-1a2b", "qm approvals approve 0198c0de-1a2b"),
    );

  async function runWithWorkspace(
    purpose: WorkspacePurpose,
    work: (workspace: Workspace) => Promise<void>,
  ): Promise<void> {
    await reportNotFound(context, async () =>
      withWorkspace(context, purpose === "ledger" || (await hasStore(context)) ? purpose : "ledger", work),
    );
  }

  approvals
    .command("list")
    .summary("what waits")
    .description("Show the calls that wait for an answer, oldest first.")
    .option(
      "--state <state>",
      "those in this state, or in several with commas: pending (unless given), approved, denied, expired, executing, done, interrupted",
    )
    .option("--all", "those in every state")
    .option("--action <name>", "only calls of this action")
    .option("--limit <n>", "at most so many", createWholeNumberParser(1, 10_000), 100)
    .addHelpText("after", formatExamples("qm approvals list", "qm approvals list --state done,interrupted --json"))
    .action((options: ApprovalsListOptions) =>
      runWithWorkspace("ledger", async (workspace) =>
        (await import("./approvals/list.ts")).runApprovalsList(context, workspace, options),
      ),
    );

  approvals
    .command("show")
    .summary("one call: what exactly would run, for whom, and what became of it")
    .argument("<id>", ID)
    .option("--full", "long arguments to their end")
    .option("--reveal", "show the secrets that are masked; needs a terminal or an approver's token, and is recorded")
    .option("--as <name>", "who looks at them: one of approvals.approvers; you, when absent")
    .addHelpText("after", formatExamples("qm approvals show 0198c0de-1a2b", "qm approvals show 0198c0de-1a2b --full"))
    .action((id: string, options: ApprovalsShowOptions) =>
      runWithWorkspace("ledger", async (workspace) =>
        (await import("./approvals/list.ts")).runApprovalsShow(context, workspace, id, options),
      ),
    );

  approvals
    .command("approve")
    .summary("agree to a call: it runs, once")
    .description(
      "Show the exact call, ask at the terminal, and agree to it. Without a terminal, QM_APPROVER_TOKEN must hold an approver's token. A gateway that is running runs the call; without one this command does, and says how it ended.",
    )
    .argument("<id>", ID)
    .option("--reason <text>", "why; told to the caller, and written down")
    .option("--as <name>", "who agrees: one of approvals.approvers; you, when absent")
    .option("--no-run", "leave it to another process to run it")
    .option("-y, --yes", "do not ask; only with an approver's token in QM_APPROVER_TOKEN")
    .addHelpText("after", formatExamples("qm approvals approve 0198c0de-1a2b --reason 'as discussed'"))
    .action((id: string, options: AnswerOptions) =>
      runWithWorkspace(options.run === false ? "ledger" : "calls", async (workspace) =>
        (await import("./approvals/answer.ts")).runApprovalsAnswer(context, workspace, "approved", id, options),
      ),
    );

  approvals
    .command("deny")
    .summary("say no to a call: it never runs")
    .description("Show the exact call, ask, and say no to it. Its caller is told, with the reason.")
    .argument("<id>", ID)
    .option("--reason <text>", "why; told to the caller, and written down")
    .option("--as <name>", "who says no: one of approvals.approvers; you, when absent")
    .option("-y, --yes", "do not ask")
    .addHelpText("after", formatExamples("qm approvals deny 0198c0de-1a2b --reason 'not on a Friday'"))
    .action((id: string, options: AnswerOptions) =>
      runWithWorkspace("ledger", async (workspace) =>
        (await import("./approvals/answer.ts")).runApprovalsAnswer(context, workspace, "denied", id, options),
      ),
    );

  approvals
    .command("watch")
    .summary("show every change as it comes, until Ctrl-C")
    .description("Show what waits, and every change, one a line, until Ctrl-C; with --json one object a line.")
    .action(async () => (await import("./approvals/list.ts")).runApprovalsWatch(context));

  approvals
    .command("run")
    .summary("run what is approved and was not run yet")
    .description(
      "Run approved calls that no other process has run: one, or all. Ends with 1 when one of them did not end well.",
    )
    .argument("[id]", ID)
    .action((id: string | undefined) =>
      runWithWorkspace("calls", async (workspace) =>
        (await import("./approvals/answer.ts")).runApprovalsRun(context, workspace, id),
      ),
    );

  approvals
    .command("link")
    .summary("make a link by which one person can answer one call")
    .description(
      "Make a link to a page that shows the call and takes one person's answer. Whoever has it answers as that person, so send it to them alone. `qm serve` must be running. Making one needs a terminal or an approver's token.",
    )
    .argument("<id>", ID)
    .requiredOption("--for <name>", "who answers with it: one of approvals.approvers, if there are any")
    .option("--expires <time>", "how long it is good: 30m, 8h; never longer than the question itself", "1h")
    .addHelpText("after", formatExamples("qm approvals link 0198c0de-1a2b --for ann --expires 8h"))
    .action((id: string, options: LinkOptions) =>
      runWithWorkspace("ledger", async (workspace) =>
        (await import("./approvals/link.ts")).runApprovalsLink(context, workspace, id, options),
      ),
    );
}

/** Whether there is a store. Looking for an approval makes none. */
async function hasStore({ io: { cwd, env }, globals }: CommandContext): Promise<boolean> {
  const { loadConfig } = await import("../../config/config-file.ts");
  const { CALL_VARIABLES, compileCondition } = await import("../../core/expression.ts");
  const { resolveStorePath } = await import("../../workspace/workspace.ts");
  const compileExpression = (text: string) => compileCondition(text, CALL_VARIABLES);
  return existsSync(resolveStorePath(await loadConfig(globals.config, { cwd, env, compileExpression }), env));
}
