import type { Approvals } from "../../../approval/approval.ts";
import { type ApprovalView, isFinished } from "../../../approval/approval.ts";
import { QmError } from "../../../core/errors.ts";
import type { Outcome } from "../../../core/outcome.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { createNotAgreedError, identifyApprover, requireYes } from "../../approver.ts";
import type { CommandContext } from "../../context.ts";
import { exitCodes, getOutcomeExitCode } from "../../exit-codes.ts";
import { confirmAtTerminal, showProgress } from "../../terminal.ts";
import { escapeUnsafe, formatCount, toOneLine } from "../../terminal-text.ts";
import { formatApprovalAnswer, showApprovalCall } from "./approval-text.ts";
import { findApproval, getConfiguredLevelRoles, suggestApprovers } from "./lookup.ts";

/** How long another process has to take up what was agreed to. */
const OTHERS_MS = 2_000;

/** Leaves an approved call to a process that is running, or runs it. Still `waiting`: nobody here can. */
async function awaitOrRunCall({ io }: CommandContext, approvals: Approvals, approval: ApprovalView): Promise<Outcome> {
  const { signal } = io;
  const { id } = approval;
  // Whoever called at the command line reads it here; any other caller has not been given it by that.
  const outcome = approval.via === "cli" ? approvals.outcome : approvals.look;
  const wipe = showProgress(io.stderr, "the call");
  try {
    const taken = await outcome(id, { timeoutMs: OTHERS_MS, signal });
    if (taken.status !== "waiting") return taken;
    await approvals.run(id);
    const { state } = await approvals.get(id);
    // What another process is at work on ends when it ends.
    return await outcome(id, { signal, ...(state === "executing" ? {} : { timeoutMs: 0 }) });
  } catch (thrown) {
    if (!signal.aborted) throw thrown;
    throw new QmError("cancelled", "nobody waits for the call any more", {
      hint: `It is approved, and may run all the same. \`qm approvals show ${id}\` shows what became of it.`,
    });
  } finally {
    wipe();
  }
}

/** Why a call that ran did not end well. */
export async function readFailureReason(
  approvals: Approvals,
  { id, status }: ApprovalView,
): Promise<string | undefined> {
  if (status === undefined || status === "done") return undefined;
  const outcome = await approvals.look(id, { timeoutMs: 0 });
  return outcome.status === "failed" || outcome.status === "refused" ? outcome.error.error : undefined;
}

/** Says how an approved call ended, in words and as the exit code; where --json is given, somebody has shown it. */
function showCallOutcome({ io, out, end }: CommandContext, outcome: Outcome): void {
  if (outcome.status !== "waiting") end(getOutcomeExitCode(outcome, io.signal.aborted));
  if (out.isJson) return;
  if (outcome.status === "waiting") out.line("It runs as soon as a process is there that knows the action.");
  else if (outcome.status !== "done") out.problem({ ...outcome.error });
  else {
    out.line(`It ran and is done, in ${Math.round(outcome.durationMs)} ms:`);
    out.line(escapeUnsafe(outcome.value));
  }
}

const AT_ONCE = 1_000;

export async function runApprovalsRun(
  context: CommandContext,
  { quartermaster }: Workspace,
  given: string | undefined,
): Promise<void> {
  const { approvals } = quartermaster;
  return given === undefined ? runApprovedCalls(context, approvals) : runApprovedCall(context, approvals, given);
}

async function runApprovedCalls({ out, end }: CommandContext, approvals: Approvals): Promise<void> {
  const approved = await approvals.list({ state: "approved", limit: AT_ONCE });
  await approvals.run();
  const after = await Promise.all(approved.map(({ id }) => approvals.get(id)));
  const ran = await Promise.all(
    after
      .filter(({ state }) => state !== "approved")
      .map(async (approval) => ({ ...approval, ...toReason(approval, await readFailureReason(approvals, approval)) })),
  );
  const left = after.filter(({ state }) => state === "approved");
  if (ran.some((approval) => isFinished(approval) && approval.status !== "done")) end(exitCodes.failed);
  if (out.isJson) return out.json({ ran, left });
  if (ran.length === 0) out.line("Nothing approved was there to run.");
  for (const { id, action, state, status, why } of ran)
    out.line(
      `${id}  ${toOneLine(action)}: ${toOneLine([status ?? state, ...(why === undefined ? [] : [why])].join(": "))}`,
    );
  if (left.length > 0)
    out.line(out.dim(`${formatCount(left.length, "call")} of actions that are not known here must wait.`));
}

/** Why it did not run, or did not end well. */
function toReason({ state, answer }: ApprovalView, why: string | undefined): { readonly why?: string } {
  const reason = why ?? (state === "expired" ? answer?.reason : undefined);
  return reason === undefined ? {} : { why: reason };
}

async function runApprovedCall(context: CommandContext, approvals: Approvals, given: string): Promise<void> {
  const { out } = context;
  const found = await findApproval(approvals, given);
  requireApproved(found);
  const outcome = await awaitOrRunCall(context, approvals, found);
  if (out.isJson) out.json({ approval: await approvals.get(found.id), outcome });
  showCallOutcome(context, outcome);
}

function requireApproved(approval: ApprovalView): void {
  const { id, state } = approval;
  if (state === "pending")
    throw new QmError("conflict", "nobody has agreed to it yet", {
      hint: `\`qm approvals approve ${id}\` agrees, and runs it.`,
    });
  if (state === "denied" || state === "expired")
    throw new QmError("conflict", `it never runs: ${formatApprovalAnswer(approval)}`, {
      hint: "Whoever wants it must ask again.",
    });
}

export interface AnswerOptions {
  readonly reason?: string;
  readonly as?: string;
  readonly run?: boolean;
  readonly yes?: boolean;
}

export async function runApprovalsAnswer(
  context: CommandContext,
  workspace: Workspace,
  decision: "approved" | "denied",
  given: string,
  { reason, as, run = true, yes = false }: AnswerOptions,
): Promise<void> {
  const { io, out } = context;
  const { config } = workspace;
  const { approvals } = workspace.quartermaster;
  const found = await findApproval(approvals, given);
  if (found.state !== "pending") throw createAnsweredError(found);
  const person = await identifyApprover(context, workspace, as);
  const { id: by, roles } = person;
  showApprovalCall(out.isJson ? toStderrOutput(out) : out, found, { roles: getConfiguredLevelRoles(config, found) });
  if (decision === "approved")
    await requireYes(context, person, { question: "Approve exactly this call?", done: decision, yes });
  else if (!yes && !(await confirmAtTerminal(io, "Deny it?"))) throw createNotAgreedError(decision);

  const approval = await approvals
    .answer(found.id, { decision, ...(reason === undefined ? {} : { reason }) }, { id: by, roles, via: "cli" })
    .catch((thrown: unknown) => {
      if (!(thrown instanceof QmError) || thrown.code !== "denied") throw thrown;
      const { message, details } = thrown;
      throw new QmError("denied", message, {
        hint: suggestApprovers(config, found, decision, (name) => `If that is you, give --as ${name}.`),
        details,
        cause: thrown,
      });
    });
  if (decision === "denied" || !run) {
    if (out.isJson) return out.json({ approval });
    return out.line(decision === "denied" ? "Denied: it will not run." : "Approved: it runs where a process is there.");
  }
  if (!out.isJson) out.line("Approved.");
  const outcome = await awaitOrRunCall(context, approvals, found);
  if (out.isJson) out.json({ approval: await approvals.get(found.id), outcome });
  showCallOutcome(context, outcome);
}

/** With --json the answer is on stdout; what it is about is still shown to whoever is asked. */
function toStderrOutput({ note }: CommandContext["out"]) {
  const plainly = (text: string) => text;
  return { line: (text = "") => note(text), bold: plainly, warn: plainly };
}

function createAnsweredError(approval: ApprovalView): QmError {
  const { id, state, answer } = approval;
  if (state === "expired")
    return new QmError("approval_expired", `nobody can answer it any more: ${answer?.reason ?? "it has expired"}`, {
      hint: "It was not run. Whoever wants it must ask again.",
      details: { approval_id: id },
    });
  return new QmError("conflict", `it is answered already: ${formatApprovalAnswer(approval)}, at ${answer?.at}`, {
    hint: `The first answer counts. \`qm approvals show ${id}\` shows what became of it.`,
    details: { approval_id: id, state, ...(answer === undefined ? {} : { answer: { ...answer } }) },
  });
}
