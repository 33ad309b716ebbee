import type { ActorEnvelope } from "../../actor/envelope.ts";
import { type ApprovalView, isFinished } from "../../approval/approval.ts";
import { toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { cliHintWords } from "../../core/hint.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { identifyApprover, requirePresence } from "../approver.ts";
import { getApprovalPaint, showApprovalCall } from "../commands/approvals/approval-text.ts";
import { getConfiguredLevelRoles, suggestApprovers } from "../commands/approvals/lookup.ts";
import type { Context } from "../context.ts";
import { showFilePages } from "../file-pages.ts";
import { showProgress } from "../terminal.ts";
import type { ChatInput } from "./chat-input.ts";

type Parts = ActorEnvelope["parts"];

export const listApprovalIds = (parts: Parts): readonly string[] => [
  ...new Set(parts.flatMap((part) => (part.partType === "approval-request" ? [part.data.approvalId] : []))),
];

/**
 * Shows each waiting call exactly as it would run and asks the person about it. An approved call runs at once. Returns
 * whether every call has its outcome, so that the turn can continue.
 */
export async function answerApprovals(context: Context, workspace: Workspace, input: ChatInput, parts: Parts) {
  let isSettled = true;
  for (const id of listApprovalIds(parts)) {
    try {
      isSettled = (await settleApproval(context, workspace, input, id)) && isSettled;
    } catch (thrown) {
      if (!(thrown instanceof QmError)) throw thrown;
      context.out.problem(thrown.toProblem(cliHintWords));
      isSettled = false;
    }
  }
  return isSettled;
}

async function settleApproval(context: Context, workspace: Workspace, input: ChatInput, id: string): Promise<boolean> {
  const { io, out } = context;
  const { approvals } = workspace.quartermaster;
  const approval = await approvals.get(id);
  if (approval.state === "pending") await askPerson(context, workspace, input, approval);
  const waiting = new AbortController();
  const stopListening = input.onInterrupt(() => waiting.abort());
  const stopProgress = showProgress(io.stderr, toOneLine(approval.action));
  try {
    await approvals.run(id);
    // Another process may have taken it.
    if ((await approvals.get(id)).state === "executing") await approvals.look(id, { signal: waiting.signal });
  } catch (thrown) {
    if (!waiting.signal.aborted) throw thrown;
  } finally {
    stopProgress();
    stopListening();
  }
  const settled = await approvals.get(id);
  if (settled.status !== undefined)
    out.note(`${out.dim(`  ${toOneLine(settled.action)}`)}  ${getApprovalPaint(out, settled)(settled.status)}`);
  return isFinished(settled);
}

async function askPerson(context: Context, workspace: Workspace, input: ChatInput, approval: ApprovalView) {
  const { out } = context;
  const person = await identifyApprover(context, workspace);
  out.line();
  showApprovalCall(out, approval, getConfiguredLevelRoles(workspace.config, approval));
  await showFilePages(
    context,
    (position) => workspace.quartermaster.approvals.readFiles(approval.id, position),
    async (question) => {
      const typed = await input.ask(question);
      return typed.kind === "text" && typed.text.trim() === "";
    },
  );
  const decision = await askDecision(input, out.warn("Run exactly this? [y]es, [n]o, [l]ater: "));
  if (decision === undefined) return;
  if (decision === "approved") requirePresence(context, person);
  const approver = { id: person.id, roles: person.roles, via: "cli" };
  await workspace.quartermaster.approvals.answer(approval.id, { decision }, approver).catch((thrown: unknown) => {
    if (!(thrown instanceof QmError) || thrown.code !== "denied") throw thrown;
    const advise = (name: string) => `Run \`qm approvals approve ${approval.id} --as ${name}\` as that person.`;
    const hint = suggestApprovers(workspace.config, approval, decision, advise);
    throw new QmError("denied", thrown.message, { hint, cause: thrown });
  });
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
