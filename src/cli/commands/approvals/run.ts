import { isOver, type ShownApproval } from "../../../approval/approval.ts";
import type { Approvals } from "../../../approval/approvals.ts";
import { QmError } from "../../../core/errors.ts";
import type { Workspace } from "../../../workspace.ts";
import type { Context } from "../../context.ts";
import { exitCodes } from "../../exit-codes.ts";
import { counted, oneLine } from "../../text.ts";
import { becomeOf, showOutcome, whyNot } from "./become.ts";
import { findApproval } from "./find.ts";
import { answerText } from "./words.ts";

const AT_ONCE = 1_000;

export async function run(context: Context, { quartermaster }: Workspace, given: string | undefined): Promise<void> {
  const { approvals } = quartermaster;
  return given === undefined ? runAll(context, approvals) : runOne(context, approvals, given);
}

async function runAll({ out, end }: Context, approvals: Approvals): Promise<void> {
  const approved = await approvals.list({ state: "approved", limit: AT_ONCE });
  await approvals.run();
  const after = await Promise.all(approved.map(({ id }) => approvals.get(id)));
  const ran = await Promise.all(
    after
      .filter(({ state }) => state !== "approved")
      .map(async (approval) => ({ ...approval, ...reasonOf(approval, await whyNot(approvals, approval)) })),
  );
  const left = after.filter(({ state }) => state === "approved");
  if (ran.some((approval) => isOver(approval) && approval.status !== "done")) end(exitCodes.failed);
  if (out.isJson) return out.json({ ran, left });
  if (ran.length === 0) out.line("Nothing approved was there to run.");
  for (const { id, action, state, status, why } of ran)
    out.line(
      `${id}  ${oneLine(action)}: ${oneLine([status ?? state, ...(why === undefined ? [] : [why])].join(": "))}`,
    );
  if (left.length > 0)
    out.line(out.dim(`${counted(left.length, "call")} of actions that are not known here must wait.`));
}

/** Why it did not run, or did not end well. */
function reasonOf({ state, answer }: ShownApproval, why: string | undefined): { readonly why?: string } {
  const reason = why ?? (state === "expired" ? answer?.reason : undefined);
  return reason === undefined ? {} : { why: reason };
}

async function runOne(context: Context, approvals: Approvals, given: string): Promise<void> {
  const { out } = context;
  const found = await findApproval(approvals, given);
  requireAgreed(found);
  const outcome = await becomeOf(context, approvals, found);
  if (out.isJson) out.json({ approval: await approvals.get(found.id), outcome });
  showOutcome(context, outcome);
}

function requireAgreed(approval: ShownApproval): void {
  const { id, state } = approval;
  if (state === "pending")
    throw new QmError("conflict", "nobody has agreed to it yet", {
      hint: `\`qm approvals approve ${id}\` agrees, and runs it.`,
    });
  if (state === "denied" || state === "expired")
    throw new QmError("conflict", `it never runs: ${answerText(approval)}`, {
      hint: "Whoever wants it must ask again.",
    });
}
