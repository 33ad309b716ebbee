import type { ActorEnvelope } from "../../actor/envelope.ts";
import { quoteShellWord } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { readStdin } from "../commands/invoke.ts";
import { type Context, reportNotFound, toCallerOptions } from "../context.ts";
import { createUsageError } from "../exit-codes.ts";
import { requireAnsweringActor } from "./answering-actor.ts";
import { chooseSession } from "./choose-session.ts";
import { listApprovalIds } from "./turn-approvals.ts";
import { createArgumentRedactor, createTurnDisplay, formatPart } from "./turn-display.ts";
import { formatSessionCommand, getTurnExitCode } from "./turn-end.ts";

/** `resume`: `true` without a token. */
type RunFlags = { readonly resume?: string | true };

export async function runTask(context: Context, workspace: Workspace, task: string | undefined, { resume }: RunFlags) {
  const { out, end } = context;
  if ((task === undefined) === (resume === undefined))
    throw createUsageError(
      "give a task, or --resume",
      'For example: qm run "List the open issues", or `qm run -` to read the task from stdin.',
    );
  const envelope = await reportNotFound(context, () => takeTurn(context, workspace, task, resume));
  if (envelope === undefined) return;
  end(getTurnExitCode(envelope));
  if (out.isJson) return out.json(envelope);
  const answer = envelope.parts.flatMap((part) => (part.partType === "approval-request" ? [] : [formatPart(part)]));
  const said = answer.filter((each) => each !== "").join("\n\n");
  if (said !== "") out.result(`${said}\n`);
  showNextStep(context, envelope);
}

/** Runs the turn of a task or of a token, or the open one of a session. */
async function takeTurn(
  context: Context,
  workspace: Workspace,
  task: string | undefined,
  resume: RunFlags["resume"],
): Promise<ActorEnvelope> {
  const { io, out, globals } = context;
  const { quartermaster } = workspace;
  const redact = createArgumentRedactor(workspace);
  const display = createTurnDisplay({ actor: globals.actor ?? "the actor", notes: io.stderr, out, redact });
  const options = { signal: io.signal, onEvent: display.onEvent };
  try {
    if (typeof resume === "string") return await quartermaster.resumeActor(resume, options);
    const { actor } = requireAnsweringActor(workspace, globals.actor);
    const isLast = resume === true && globals.session === undefined;
    const { session } = await chooseSession(context, workspace, actor, isLast);
    const caller = { ...toCallerOptions(globals), session };
    if (task === undefined) return await quartermaster.sessions.resume(session, { ...options, actor, caller });
    const text = task === "-" ? await readStdin(io, "task") : task;
    return await quartermaster.callActor(actor, text, { ...options, caller }).catch(explainOpenTurn);
  } finally {
    display.end({ parts: [] });
  }
}

/** At the command line, the next step is a command. */
function explainOpenTurn(thrown: unknown): never {
  if (!(thrown instanceof QmError) || thrown.code !== "conflict") throw thrown;
  const hint =
    "Run `qm run --resume` with the same --actor and --session to continue that turn, or use another session.";
  throw new QmError("conflict", thrown.message, { hint, details: thrown.details, cause: thrown });
}

function showNextStep({ out }: Context, envelope: ActorEnvelope): void {
  const { actor, session, turnState, error, parts, resumeToken, resumeExpiresAt } = envelope;
  if (turnState === "failed" && error !== undefined) out.problem(error);
  if (turnState === "cancelled") out.note("qm: interrupted. What ran before remains.");
  if (turnState === "clarifying")
    out.note(`qm: it needs an answer: ${formatSessionCommand("run", actor, session)} "<answer>"`);
  if (turnState !== "suspended") return;
  out.note("qm: not finished: calls wait for approval.");
  for (const id of listApprovalIds(parts))
    out.note(`    Run \`qm approvals approve ${id}\` to allow it, or \`qm approvals deny ${id}\` to refuse.`);
  // A turn that still waits keeps its token, which is not known here.
  const next =
    resumeToken === undefined
      ? `${formatSessionCommand("run", actor, session)} --resume`
      : `qm run --resume=${quoteShellWord(resumeToken)}`;
  out.note(`    Then run \`${next}\` to continue${resumeExpiresAt === undefined ? "" : `, until ${resumeExpiresAt}`}.`);
}
