import type { ActorEnvelope } from "../../actor/envelope.ts";
import type { ApprovalView } from "../../approval/approval.ts";
import { toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { cliHintWords } from "../../core/hint.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { identifyApprover, requirePresence } from "../approver.ts";
import { showApprovalCall } from "../commands/approvals/approval-text.ts";
import { getConfiguredLevelRoles, suggestApprovers } from "../commands/approvals/lookup.ts";
import type { Context } from "../context.ts";
import { showProgress } from "../terminal.ts";
import type { ChatInput } from "./chat-input.ts";

type Parts = ActorEnvelope["parts"];

export const listApprovalIds = (parts: Parts): readonly string[] => [
  ...new Set(parts.flatMap((part) => (part.partType === "approval-request" ? [part.data.approvalId] : []))),
];

/**
 * Shows each waiting call exactly as it would run and asks the person about it. An approved call runs at once. Returns
 * whether every call has its answer, so that the turn can continue.
 */
export async function answerApprovals(context: Context, workspace: Workspace, input: ChatInput, parts: Parts) {
  const { approvals } = workspace.quartermaster;
  let isSettled = true;
  for (const id of listApprovalIds(parts)) {
    const approval = await approvals.get(id);
    const isAnswered = approval.state !== "pending" || (await answerOne(context, workspace, input, approval));
    if (!isAnswered) isSettled = false;
  }
  return isSettled;
}

/** Returns whether it has an answer now. */
async function answerOne(
  context: Context,
  workspace: Workspace,
  input: ChatInput,
  approval: ApprovalView,
): Promise<boolean> {
  const { io, out } = context;
  const { approvals } = workspace.quartermaster;
  const person = await identifyApprover(context, workspace);
  out.line();
  showApprovalCall(out, approval, getConfiguredLevelRoles(workspace.config, approval));
  const decision = await askDecision(input, out.warn("Run exactly this? [y]es, [n]o, [l]ater: "));
  if (decision === undefined) return false;
  if (decision === "approved") requirePresence(context, person);
  try {
    await approvals.answer(approval.id, { decision }, { id: person.id, roles: person.roles, via: "cli" });
  } catch (thrown) {
    if (!(thrown instanceof QmError)) throw thrown;
    const advise = (name: string) => `Run \`qm approvals approve ${approval.id} --as ${name}\` as that person.`;
    const hint =
      thrown.code === "denied" ? suggestApprovers(workspace.config, approval, decision, advise) : thrown.hint;
    out.problem({ ...thrown.toProblem(cliHintWords), ...(hint === undefined ? {} : { hint }) });
    // Another person was faster.
    return (await approvals.get(approval.id)).state !== "pending";
  }
  if (decision === "denied") return true;
  const stopProgress = showProgress(io.stderr, toOneLine(approval.action));
  await approvals.run(approval.id).finally(stopProgress);
  return true;
}

async function askDecision(input: ChatInput, question: string): Promise<"approved" | "denied" | undefined> {
  for (;;) {
    const typed = await input.ask(question);
    if (typed.kind !== "text") return undefined;
    const word = typed.text.trim().toLowerCase();
    if (word === "y" || word === "yes") return "approved";
    if (word === "n" || word === "no") return "denied";
    if (word === "l" || word === "later") return undefined;
  }
}
