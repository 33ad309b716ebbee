import type { ApprovalView } from "../../../approval/approval.ts";
import { formatMaskedSecrets } from "../../../approval/approval-view.ts";
import { toVisibleJson, toVisibleText } from "../../../core/display-text.ts";
import { clip } from "../../../core/json.ts";
import type { CommandContext } from "../../context.ts";
import { escapeUnsafe, toOneLine } from "../../terminal-text.ts";

type Out = CommandContext["out"];

/** As much of one text as somebody reads on a screen. */
const SCREEN_LIMIT = { characters: 4_000, lines: 60 } as const;

export interface CallDisplay {
  /** Who may agree. */
  readonly roles: readonly string[];
  /** Whether a long text may be cut. Never where somebody is asked about it. */
  readonly cut?: boolean;
}

/** The exact call, for whoever must judge it. Everything in it is from outside. */
export function showApprovalCall(
  out: Pick<Out, "line" | "bold" | "warn">,
  approval: ApprovalView,
  view: CallDisplay,
): void {
  const { id, action, args, preview, masked, warnings, reason, rule, level, via, requestedAt, expiresAt } = approval;
  const { roles, cut = false } = view;
  const field = (name: string, text: string): void => {
    const [first = "", ...rest] = escapeUnsafe(text).split("\n");
    out.line(`${out.bold(`${name}:`.padEnd(12))}${first}`);
    for (const line of rest) out.line(`${" ".repeat(12)}${line}`);
  };
  const long = (name: string, text: string): void => {
    const isLong = clipToScreen(text) !== text;
    field(name, cut ? clipToScreen(text) : text);
    if (!isLong) return;
    const note = cut
      ? `Cut: ${text.length} characters in all. \`qm approvals show ${id} --full\` shows everything.`
      : `Long: ${text.length} characters in all. Read them from the beginning.`;
    out.line(`${" ".repeat(12)}${out.warn(note)}`);
  };
  field("Approval", id);
  field("Action", toOneLine(action));
  long("Arguments", toVisibleJson(args, 2));
  if (preview !== undefined) long("Would do", toVisibleText(preview));
  for (const warning of warnings) field("Careful", `it ${warning}`);
  if (masked.length > 0)
    field("Masked", `${formatMaskedSecrets(masked)}; \`qm approvals show ${id} --reveal\` shows them`);
  field("Why", `${reason} (${rule})`);
  field("Asked by", `${toOneLine(formatRequester(approval))}, by ${toOneLine(via)}, at ${requestedAt}`);
  const who = roles.length === 1 ? `the role ${roles[0]}` : `one of the roles ${roles.join(", ")}`;
  field("Agrees", `somebody with ${toOneLine(who)} (level ${toOneLine(level)}), until ${expiresAt}`);
}

function clipToScreen(text: string): string {
  return clip(text.split("\n", SCREEN_LIMIT.lines).join("\n"), SCREEN_LIMIT.characters);
}

/** What became of it so far, and why it did not end well where it did not. */
export function showApprovalHistory(out: Out, approval: ApprovalView, why?: string): void {
  const { state, answer, begunAt, endedAt, status } = approval;
  const ended = status === undefined ? "found interrupted" : `ended: ${status}${why === undefined ? "" : `: ${why}`}`;
  out.line(`${out.bold("State:".padEnd(12))}${getApprovalPaint(out, approval)(formatApprovalState(approval))}`);
  const lines = [
    `${approval.requestedAt}  asked`,
    ...(answer === undefined ? [] : [`${answer.at}  ${formatApprovalAnswer(approval)}`]),
    ...(begunAt === undefined ? [] : [`${begunAt}  begun`]),
    // What was denied or expired never ran, and has said so above.
    ...(endedAt === undefined || (status === undefined && state !== "interrupted") ? [] : [`${endedAt}  ${ended}`]),
  ];
  for (const line of lines) out.line(`  ${out.dim(toOneLine(line))}`);
}

/** `approved by ann (http): as discussed` */
export function formatApprovalAnswer({ answer }: Pick<ApprovalView, "answer">): string {
  if (answer === undefined) return "";
  const { decision, by, via, reason } = answer;
  const who = decision === "expired" ? "" : ` by ${by} (${via})`;
  return toOneLine(`${decision}${who}${reason === undefined ? "" : `: ${reason}`}`);
}

/** Actor and session, and the person where one is known. */
export function formatRequester({ actor, session, user, person, tenant }: ApprovalView): string {
  const named = Object.entries({ user, person, tenant }).flatMap(([what, name]) =>
    name === undefined ? [] : `, ${what} ${name}`,
  );
  return `${actor} in ${session}${named.join("")}`;
}

/** The state, and with it how the call ended where that was not well. */
export function formatApprovalState({ state, status }: Pick<ApprovalView, "state" | "status">): string {
  return status === undefined || status === "done" ? state : `${state}, ${status}`;
}

export function getApprovalPaint(
  out: Out,
  { state, status }: Pick<ApprovalView, "state" | "status">,
): (text: string) => string {
  if (state === "done") return status === "done" ? out.good : out.bad;
  return state === "denied" || state === "interrupted" ? out.bad : out.warn;
}

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
] as const;

/** A stretch of time in the largest unit that it has two of: `45s`, `90m`, `36h`, `3d`. */
export function formatTimeSpan(ms: number): string {
  const [unit, length] = UNITS.find(([, each]) => ms >= 2 * each) ?? ["s", 1_000];
  return `${Math.max(0, Math.floor(ms / length))}${unit}`;
}
