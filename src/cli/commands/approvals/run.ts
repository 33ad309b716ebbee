import type { ShownApproval } from "../../../approval/approval.ts";
import type { Approvals } from "../../../approval/approvals.ts";
import { QmError } from "../../../core/errors.ts";
import { type Context, withWorkspace } from "../../context.ts";
import { counted, oneLine } from "../../text.ts";
import { becomeOf, showOutcome } from "./become.ts";
import { findApproval } from "./find.ts";
import { answerText } from "./words.ts";

const AT_ONCE = 1_000;

/** What is approved is looked for first: whoever opens the workspace for calls begins to run it. */
export async function run(context: Context, given: string | undefined): Promise<void> {
  if (given !== undefined) return runOne(context, given);
  const { out } = context;
  const approved = await withWorkspace(context, "ledger", ({ quartermaster }) =>
    quartermaster.approvals.list({ state: "approved", limit: AT_ONCE }),
  );
  const after = await withWorkspace(context, "calls", ({ quartermaster }) => runAll(quartermaster.approvals, approved));
  const left = after.filter(({ state }) => state === "approved");
  const ran = after.filter(({ state }) => state !== "approved");
  if (out.isJson) return out.json({ ran, left });
  if (ran.length === 0) out.line("Nothing approved was there to run.");
  for (const { id, action, state, status } of ran) out.line(`${id}  ${oneLine(action)}: ${status ?? state}`);
  if (left.length > 0)
    out.line(out.dim(`${counted(left.length, "call")} of actions that are not known here must wait.`));
}

async function runAll(approvals: Approvals, approved: readonly ShownApproval[]): Promise<readonly ShownApproval[]> {
  await approvals.run();
  return Promise.all(
    approved.map(async ({ id }) => {
      const now = await approvals.get(id);
      if (now.state !== "executing") return now;
      await approvals.outcome(id);
      return approvals.get(id);
    }),
  );
}

async function runOne(context: Context, given: string): Promise<void> {
  const { out } = context;
  const { id } = await withWorkspace(context, "ledger", async ({ quartermaster }) => {
    const found = await findApproval(quartermaster.approvals, given);
    requireAgreed(found);
    return found;
  });
  await withWorkspace(context, "calls", async ({ quartermaster: { approvals } }) => {
    const outcome = await becomeOf(context, approvals, id);
    if (out.isJson) out.json({ approval: await approvals.get(id), outcome });
    showOutcome(context, outcome);
  });
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
