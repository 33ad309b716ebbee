import type { ApprovalView } from "../../../approval/approval.ts";
import { formatMaskedSecrets } from "../../../approval/approval-view.ts";
import {
  escapeUnsafe,
  formatCount,
  toOneLine,
  toVisibleJson,
  toVisibleLine,
  toVisibleText,
} from "../../../core/display-text.ts";
import type { FileDigest } from "../../../core/file-digest.ts";
import { clip } from "../../../core/json.ts";
import type { CommandOutput } from "../../output.ts";

type CallOutput = Pick<CommandOutput, "line" | "bold" | "warn">;

/** Prints the exact call, which is untrusted. `cut` shortens long texts; never set it when asking for approval. */
export function showApprovalCall(out: CallOutput, approval: ApprovalView, roles: readonly string[], cut = false): void {
  const {
    id,
    action,
    args,
    preview,
    files,
    masked,
    warnings,
    reason,
    rule,
    level,
    via,
    method,
    requestedAt,
    expiresAt,
  } = approval;
  const indent = " ".repeat(12);
  const field = (name: string, text: string): void => {
    const lines = escapeUnsafe(text).split("\n").join(`\n${indent}`);
    out.line(`${out.bold(`${name}:`.padEnd(12))}${lines}`);
  };
  const longField = (name: string, text: string): void => {
    const clipped = clip(text.split("\n", 60).join("\n"), 4_000);
    field(name, cut ? clipped : text);
    if (clipped === text) return;
    const note = cut
      ? `Cut: ${text.length} characters in all. \`qm approvals show ${id} --full\` shows everything.`
      : `Long: ${text.length} characters in all. Read them from the beginning.`;
    out.line(`${indent}${out.warn(note)}`);
  };
  field("Approval", id);
  field("Action", toOneLine(action));
  longField("Arguments", toVisibleJson(args, 2));
  if (preview !== undefined) longField("Would do", toVisibleText(preview));
  if (files !== undefined) longField("Files", files.map(formatFile).join("\n"));
  for (const warning of warnings) field("Careful", `it ${warning}`);
  if (masked.length > 0)
    field("Masked", `${formatMaskedSecrets(masked)}; \`qm approvals show ${id} --reveal\` shows them`);
  field("Why", `${reason} (${rule})`);
  const channel = method === undefined ? `by ${toOneLine(via)}` : `by the method ${toOneLine(method)}`;
  field("Asked by", `${toOneLine(formatRequester(approval))}, ${channel}, at ${requestedAt}`);
  const who = roles.length === 1 ? `the role ${roles[0]}` : `one of the roles ${roles.join(", ")}`;
  field("Approver", `anyone with ${toOneLine(who)} (level ${toOneLine(level)}), until ${expiresAt}`);
}

const formatFile = ({ path, size, digest }: FileDigest): string =>
  `${toVisibleLine(path)}, ${formatCount(size, "byte")}, SHA-256 ${digest}`;

/** Prints the state of an approval and its history. `why`: the reason of a failure. */
export function showApprovalHistory(out: CommandOutput, approval: ApprovalView, why?: string): void {
  const { state, answer, requestedAt, begunAt, endedAt, status } = approval;
  const ended = status === undefined ? "found interrupted" : `ended: ${status}${why === undefined ? "" : `: ${why}`}`;
  out.line(`${out.bold("State:".padEnd(12))}${getApprovalPaint(out, approval)(formatApprovalState(approval))}`);
  const lines = [
    `${requestedAt}  asked`,
    ...(answer === undefined ? [] : [`${answer.at}  ${formatApprovalAnswer(approval)}`]),
    ...(begunAt === undefined ? [] : [`${begunAt}  begun`]),
    // A denied or expired call never ran; its answer is shown above.
    ...(endedAt === undefined || (status === undefined && state !== "interrupted") ? [] : [`${endedAt}  ${ended}`]),
  ];
  for (const line of lines) out.line(`  ${out.dim(toOneLine(line))}`);
}

/** For example `approved by ann (http): as discussed`. */
export function formatApprovalAnswer({ answer }: Pick<ApprovalView, "answer">): string {
  if (answer === undefined) return "";
  const { decision, by, via, reason } = answer;
  const who = decision === "expired" ? "" : ` by ${by} (${via})`;
  return toOneLine(`${decision}${who}${reason === undefined ? "" : `: ${reason}`}`);
}

export function formatRequester({ actor, session, user, person, tenant }: ApprovalView): string {
  const named = Object.entries({ user, person, tenant }).filter(([, name]) => name !== undefined);
  return `${actor} in ${session}${named.map(([what, name]) => `, ${what} ${name}`).join("")}`;
}

/** For example `pending`, or `done, failed` for a call that ran and failed. */
export function formatApprovalState({ state, status }: Pick<ApprovalView, "state" | "status">): string {
  return status === undefined || status === "done" ? state : `${state}, ${status}`;
}

export function getApprovalPaint(out: CommandOutput, { state, status }: Pick<ApprovalView, "state" | "status">) {
  if (state === "done") return status === "done" ? out.good : out.bad;
  return state === "denied" || state === "interrupted" ? out.bad : out.warn;
}
