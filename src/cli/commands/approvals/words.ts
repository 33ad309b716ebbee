import type { ApprovalState, ShownApproval } from "../../../approval/approval.ts";
import type { Context } from "../../context.ts";
import { oneLine, plain, safeJson } from "../../text.ts";

type Out = Context["out"];

/** The exact call, for whoever must judge it. Everything in it is from outside. */
export function showCall(out: Out, approval: ShownApproval): void {
  const { id, action, args, preview, reason, rule, level, via, requestedAt, expiresAt } = approval;
  const field = (name: string, text: string): void => {
    const [first = "", ...rest] = plain(text).split("\n");
    out.line(`${out.bold(`${name}:`.padEnd(12))}${first}`);
    for (const line of rest) out.line(`${" ".repeat(12)}${line}`);
  };
  field("Approval", id);
  field("Action", oneLine(action));
  field("Arguments", safeJson(args, 2));
  if (preview !== undefined) field("Would do", preview);
  field("Why", `${reason} (${rule})`);
  field("Asked by", `${oneLine(whoAsked(approval))}, by ${oneLine(via)}, at ${requestedAt}`);
  field("Agrees", `somebody for the level ${oneLine(level)}, until ${expiresAt}`);
}

/** What became of it so far. */
export function showHistory(out: Out, approval: ShownApproval): void {
  const { state, answer, begunAt, endedAt, status } = approval;
  out.line(`${out.bold("State:".padEnd(12))}${paintOf(out, state)(state)}`);
  const lines = [
    `${approval.requestedAt}  asked`,
    ...(answer === undefined ? [] : [`${answer.at}  ${answerText(approval)}`]),
    ...(begunAt === undefined ? [] : [`${begunAt}  begun`]),
    ...(endedAt === undefined
      ? []
      : [`${endedAt}  ${state === "interrupted" ? "found interrupted" : `ended: ${status}`}`]),
  ];
  for (const line of lines) out.line(`  ${out.dim(oneLine(line))}`);
}

/** `approved by ann (http): as discussed` */
export function answerText({ answer }: Pick<ShownApproval, "answer">): string {
  if (answer === undefined) return "";
  const { decision, by, via, reason } = answer;
  const who = decision === "expired" ? "" : ` by ${by} (${via})`;
  return oneLine(`${decision}${who}${reason === undefined ? "" : `: ${reason}`}`);
}

/** Actor and session, and the person where one is known. */
export function whoAsked({ actor, session, user, person, tenant }: ShownApproval): string {
  const named = Object.entries({ user, person, tenant }).flatMap(([what, name]) =>
    name === undefined ? [] : `, ${what} ${name}`,
  );
  return `${actor} in ${session}${named.join("")}`;
}

export function paintOf(out: Out, state: ApprovalState): (text: string) => string {
  if (state === "done") return out.good;
  return state === "denied" || state === "interrupted" ? out.bad : out.warn;
}

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
] as const;

/** A stretch of time in the largest unit that it has two of: `45s`, `90m`, `36h`, `3d`. */
export function span(ms: number): string {
  const [unit, length] = UNITS.find(([, each]) => ms >= 2 * each) ?? ["s", 1_000];
  return `${Math.max(0, Math.floor(ms / length))}${unit}`;
}
