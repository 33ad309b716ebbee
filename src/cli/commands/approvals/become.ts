import type { ShownApproval } from "../../../approval/approval.ts";
import type { Approvals } from "../../../approval/approvals.ts";
import { QmError } from "../../../core/errors.ts";
import type { Outcome } from "../../../core/outcome.ts";
import type { Context } from "../../context.ts";
import { exitCodeOfOutcome } from "../../exit-codes.ts";
import { showProgress } from "../../progress.ts";
import { plain } from "../../text.ts";

/** How long another process has to take up what was agreed to. */
const OTHERS_MS = 2_000;

/** Leaves an approved call to a process that is running, or runs it. Still `waiting`: nobody here can. */
export async function becomeOf({ io }: Context, approvals: Approvals, approval: ShownApproval): Promise<Outcome> {
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
export async function whyNot(approvals: Approvals, { id, status }: ShownApproval): Promise<string | undefined> {
  if (status === undefined || status === "done") return undefined;
  const outcome = await approvals.look(id, { timeoutMs: 0 });
  return outcome.status === "failed" || outcome.status === "refused" ? outcome.error.error : undefined;
}

/** Says how an approved call ended, in words and as the exit code; where --json is given, somebody has shown it. */
export function showOutcome({ io, out, end }: Context, outcome: Outcome): void {
  if (outcome.status !== "waiting") end(exitCodeOfOutcome(outcome, io.signal.aborted));
  if (out.isJson) return;
  if (outcome.status === "waiting") out.line("It runs as soon as a process is there that knows the action.");
  else if (outcome.status !== "done") out.problem({ ...outcome.error });
  else {
    out.line(`It ran and is done, in ${Math.round(outcome.durationMs)} ms:`);
    out.line(plain(outcome.value));
  }
}
