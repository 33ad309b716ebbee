import { type Approvals, type ApprovalView, isFinished } from "../../../approval/approval.ts";
import { escapeUnsafe, formatCount, toOneLine } from "../../../core/display-text.ts";
import { QmError } from "../../../core/errors.ts";
import { omitUndefined } from "../../../core/json.ts";
import type { Outcome } from "../../../core/outcome.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { identifyApprover, requireApproval, requireYes } from "../../approver.ts";
import type { Context } from "../../context.ts";
import { exitCodes, getOutcomeExitCode } from "../../exit-codes.ts";
import { showFilesToApprover } from "../../file-pages.ts";
import { showProgress } from "../../terminal.ts";
import { formatApprovalAnswer, showApprovalCall } from "./approval-text.ts";
import { findApproval, getConfiguredLevelRoles, suggestApprovers } from "./lookup.ts";

export type AnswerOptions = Readonly<{ reason?: string; as?: string; run?: boolean; yes?: boolean }>;
type Decision = "approved" | "denied";

export async function runApprovalsAnswer(
  context: Context,
  workspace: Workspace,
  id: string,
  flags: AnswerOptions,
  decision: Decision,
) {
  const { reason, as, run = true, yes = false } = flags;
  const { out } = context;
  const { config } = workspace;
  const { approvals } = workspace.quartermaster;
  const found = await findApproval(approvals, id);
  if (found.state !== "pending") throw createAnsweredError(found);
  const person = await identifyApprover(context, workspace, as);
  showApprovalCall(out.isJson ? toStderrOutput(out) : out, found, getConfiguredLevelRoles(config, found));
  if (decision === "approved") {
    // A person approves what they were shown, so the files come first.
    await showFilesToApprover(context, (position) => approvals.readFiles(found.id, position), yes);
    await requireApproval(context, person, { question: "Approve exactly this call?", done: decision, yes });
  } else await requireYes(context, { question: "Deny it?", done: decision, yes });

  const approver = { id: person.id, roles: person.roles, via: "cli" };
  const approval = await approvals
    .answer(found.id, { decision, ...omitUndefined({ reason }) }, approver)
    .catch((thrown: unknown) => {
      if (!(thrown instanceof QmError) || thrown.code !== "denied") throw thrown;
      const { message, details } = thrown;
      const hint = suggestApprovers(config, found, decision, (name) => `If that is you, give --as ${name}.`);
      throw new QmError("denied", message, { hint, details, cause: thrown });
    });
  if (decision === "denied") return out.answer({ approval }, "Denied: it will not run.");
  if (!run) return out.answer({ approval }, "Approved: the next process that knows the action runs it.");
  if (!out.isJson) out.line("Approved.");
  await runAndShow(context, approvals, found);
}

/** With --json the answer is on stdout; the person who is asked reads the call on stderr. */
function toStderrOutput({ note }: Context["out"]) {
  const paint = (text: string) => text;
  return { line: (...lines: readonly string[]) => note(lines.join("\n")), bold: paint, warn: paint };
}

function createAnsweredError(approval: ApprovalView): QmError {
  const { id, state, answer } = approval;
  if (state === "expired")
    return new QmError("approval_expired", `it cannot be answered any more: ${answer?.reason ?? "it has expired"}`, {
      hint: "It was not run. The caller must ask again.",
      details: { approval_id: id },
    });
  return new QmError("conflict", `it is already answered: ${formatApprovalAnswer(approval)}, at ${answer?.at}`, {
    hint: `The first answer counts. \`qm approvals show ${id}\` shows the outcome.`,
    details: { approval_id: id, state, ...(answer === undefined ? {} : { answer: { ...answer } }) },
  });
}

export async function runApprovalsRun(context: Context, { quartermaster }: Workspace, idText: string | undefined) {
  const { approvals } = quartermaster;
  if (idText === undefined) return runApprovedCalls(context, approvals);
  const approval = await findApproval(approvals, idText);
  const { id, state } = approval;
  if (state === "pending")
    throw createConflict("it is not approved yet", `Run \`qm approvals approve ${id}\` to approve and run it.`);
  if (state === "denied" || state === "expired")
    throw createConflict(`it never runs: ${formatApprovalAnswer(approval)}`, "The caller must ask again.");
  await runAndShow(context, approvals, approval);
}

function createConflict(message: string, hint: string): QmError {
  return new QmError("conflict", message, { hint });
}

async function runApprovedCalls({ out, end }: Context, approvals: Approvals): Promise<void> {
  const approved = await approvals.list({ state: "approved", limit: 1_000 });
  await approvals.run();
  const after = await Promise.all(approved.map(({ id }) => approvals.get(id)));
  const left = after.filter(({ state }) => state === "approved");
  const ran = await Promise.all(
    after
      .filter(({ state }) => state !== "approved")
      .map(async (approval) => {
        const expired = approval.state === "expired" ? approval.answer?.reason : undefined;
        return { ...approval, ...omitUndefined({ why: (await readFailureReason(approvals, approval)) ?? expired }) };
      }),
  );
  if (ran.some((approval) => isFinished(approval) && approval.status !== "done")) end(exitCodes.failed);
  if (out.isJson) return out.json({ ran, left });
  if (ran.length === 0) out.line("There was no approved call to run.");
  for (const { id, action, state, status = state, why } of ran)
    out.line(`${id}  ${toOneLine(action)}: ${toOneLine(why === undefined ? status : `${status}: ${why}`)}`);
  if (left.length > 0)
    out.line(out.dim(`${formatCount(left.length, "call")} not run: their actions are not known in this workspace.`));
}

export async function readFailureReason(approvals: Approvals, { id, status }: ApprovalView) {
  if (status === undefined || status === "done") return undefined;
  const outcome = await approvals.look(id, { timeoutMs: 0 });
  return outcome.status === "failed" || outcome.status === "refused" ? outcome.error.error : undefined;
}

async function runAndShow(context: Context, approvals: Approvals, approval: ApprovalView): Promise<void> {
  const { io, out, end } = context;
  const outcome = await awaitOrRunCall(context, approvals, approval);
  if (out.isJson) out.json({ approval: await approvals.get(approval.id), outcome });
  if (outcome.status !== "waiting") end(getOutcomeExitCode(outcome, io.signal.aborted));
  if (out.isJson) return;
  if (outcome.status === "waiting") return out.line("It runs as soon as a process that knows the action is running.");
  if (outcome.status !== "done") return out.problem({ ...outcome.error });
  out.line(`It ran successfully in ${Math.round(outcome.durationMs)} ms:`, escapeUnsafe(outcome.value));
  if (approval.parent !== undefined)
    out.line(out.dim("Another call made it. The caller repeats that call, which then continues with this result."));
}

/** How long a running gateway has to start an approved call. */
const GATEWAY_MS = 2_000;

/** Waits for a running gateway to run an approved call, else runs it. Still `waiting`: the action is unknown here. */
async function awaitOrRunCall({ io }: Context, approvals: Approvals, approval: ApprovalView): Promise<Outcome> {
  const { signal } = io;
  const { id } = approval;
  // A person at the command line gets the outcome by reading it here, except when another call of theirs continues with it.
  const isDelivered = approval.via === "cli" && approval.parent === undefined;
  const outcome = isDelivered ? approvals.outcome : approvals.look;
  const stopProgress = showProgress(io.stderr, "the call");
  try {
    // A call from the command line has no gateway that could run it.
    const taken = await outcome(id, { timeoutMs: approval.via === "cli" ? 0 : GATEWAY_MS, signal });
    if (taken.status !== "waiting") return taken;
    await approvals.run(id);
    const { state } = await approvals.get(id);
    // `executing`: another process runs it, so wait for that.
    return await outcome(id, { signal, ...(state === "executing" ? {} : { timeoutMs: 0 }) });
  } catch (thrown) {
    if (!signal.aborted) throw thrown;
    const hint = `It is approved and may still run. \`qm approvals show ${id}\` shows the outcome.`;
    throw new QmError("cancelled", "interrupted while waiting for the call", { hint });
  } finally {
    stopProgress();
  }
}
