import type { Command } from "commander";
import type { ActorEnvelope } from "../../actor/envelope.ts";
import { quoteShellWord } from "../../core/display-text.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { requireAnsweringActor } from "../chat/answering-actor.ts";
import { chooseSession } from "../chat/choose-session.ts";
import { listApprovalIds } from "../chat/turn-approvals.ts";
import { createArgumentRedactor, createTurnDisplay, formatPart } from "../chat/turn-display.ts";
import { formatSessionCommand, getTurnExitCode } from "../chat/turn-end.ts";
import { type Context, inWorkspace, toCallerOptions } from "../context.ts";
import { createUsageError } from "../exit-codes.ts";
import { examples } from "../option-parsers.ts";
import { readStdin } from "./invoke.ts";

type RunFlags = { readonly resume?: string };

export function addRunCommand(program: Command, context: Context): void {
  program
    .command("run")
    .summary("give an actor one task, and print its answer")
    .description(
      "Give an actor one task and print its answer. Its calls are listed on stderr. If calls wait for approval, it exits with 10 and prints how to continue.",
    )
    .argument("[task]", "what the actor is to do, or - for stdin")
    .option("--resume <token>", "continue a turn that waited for approval, with the token that was printed")
    .addHelpText(
      ...examples(
        'qm run --actor reviewer "Review src/app.ts"',
        "git diff | qm run --actor reviewer -",
        'qm run --json --session release "What is left to do?"',
        "qm run --resume 5wJ0pQ",
      ),
    )
    .action(inWorkspace(context, "calls", runTask));
}

async function runTask(context: Context, workspace: Workspace, text: string | undefined, { resume }: RunFlags) {
  const { io, out, globals, end } = context;
  const { quartermaster } = workspace;
  if ((text === undefined) === (resume === undefined))
    throw createUsageError("give a task, or --resume with a token", 'For example: qm run "List the open issues"');
  const { actor } = resume === undefined ? requireAnsweringActor(workspace, globals.actor) : { actor: "the actor" };
  const display = createTurnDisplay({ actor, notes: io.stderr, out, redact: createArgumentRedactor(workspace) });
  const options = { signal: io.signal, onEvent: display.onEvent };
  let envelope: ActorEnvelope;
  try {
    if (resume === undefined) {
      const task = text === "-" ? await readStdin(io, "task") : String(text);
      const { session } = await chooseSession(context, workspace, actor, false);
      envelope = await quartermaster.callActor(actor, task, {
        ...options,
        caller: { ...toCallerOptions(globals), session },
      });
    } else envelope = await quartermaster.resumeActor(resume, options);
  } finally {
    display.end({ parts: [] });
  }
  end(getTurnExitCode(envelope));
  if (out.isJson) return out.json(envelope);
  const answer = envelope.parts.flatMap((part) => (part.partType === "approval-request" ? [] : [formatPart(part)]));
  const said = answer.filter((each) => each !== "").join("\n\n");
  if (said !== "") out.result(`${said}\n`);
  showNextStep(context, envelope, resume);
}

function showNextStep({ out }: Context, envelope: ActorEnvelope, token: string | undefined): void {
  const { actor, session, turnState, error, parts, resumeToken = token, resumeExpiresAt } = envelope;
  if (turnState === "failed" && error !== undefined) out.problem(error);
  if (turnState === "cancelled") out.note("qm: interrupted. What ran before remains.");
  if (turnState === "clarifying")
    out.note(`qm: it needs an answer: ${formatSessionCommand("run", actor, session)} "<answer>"`);
  if (turnState !== "suspended") return;
  out.note("qm: not finished: calls wait for approval.");
  for (const id of listApprovalIds(parts))
    out.note(`    Run \`qm approvals approve ${id}\` to allow it, or \`qm approvals deny ${id}\` to refuse.`);
  const until = resumeExpiresAt === undefined ? "" : ` The token is valid until ${resumeExpiresAt}.`;
  out.note(`    Then run \`qm run --resume ${quoteShellWord(resumeToken ?? "")}\` to continue.${until}`);
}
