import { type ApprovalState, approvalStates, type ShownApproval } from "../../../approval/approval.ts";
import { QmError } from "../../../core/errors.ts";
import { clip } from "../../../core/json.ts";
import { quoted } from "../../../core/names.ts";
import { visibleJson } from "../../../core/visible.ts";
import { systemRuntime } from "../../../system-runtime.ts";
import type { Workspace } from "../../../workspace.ts";
import type { Context } from "../../context.ts";
import { paintOf, span, stateText, whoAsked } from "./words.ts";

export interface ListOptions {
  readonly state?: string;
  readonly all?: boolean;
  readonly action?: string;
  readonly limit: number;
}

/** Enough to tell calls apart. */
const ARGS_LIMIT = 120;

export async function list(context: Context, { quartermaster }: Workspace, options: ListOptions): Promise<void> {
  const { out, globals } = context;
  const { session, actor, tenant, user } = globals;
  const { action, limit } = options;
  const state = statesOf(options);
  const found = await quartermaster.approvals.list({
    limit,
    ...(state === undefined ? {} : { state }),
    ...(session === undefined ? {} : { session }),
    ...(actor === undefined ? {} : { actor }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(user === undefined ? {} : { user }),
    ...(action === undefined ? {} : { action }),
  });
  if (out.isJson) return out.json({ approvals: found });
  if (found.length === 0) return sayNone(context, state);
  const length = lengthToTell(found);
  const now = systemRuntime.now().getTime();
  out.table(
    ["ID", "STATE", "ACTION", "LEVEL", "AGE", "EXPIRES IN", "ASKED BY", "ARGUMENTS"],
    found.map((approval) => [
      approval.id.slice(0, length),
      { text: stateText(approval), paint: paintOf(out, approval) },
      approval.action,
      approval.level,
      span(now - Date.parse(approval.requestedAt)),
      approval.state === "pending" ? span(Date.parse(approval.expiresAt) - now) : "",
      whoAsked(approval),
      clip(visibleJson(approval.args), ARGS_LIMIT),
    ]),
  );
  if (found.length === limit) out.line(out.dim(`These are the oldest ${limit}; --limit shows more.`));
  if (isPending(state)) out.line(out.dim("`qm approvals show <id>` shows what exactly would run."));
}

function statesOf({ state, all }: ListOptions): readonly ApprovalState[] | undefined {
  if (all === true && state !== undefined)
    throw new QmError("invalid_arguments", "--all and --state contradict each other", { hint: "Give one of them." });
  if (all === true) return undefined;
  return (state ?? "pending").split(",").map(stateOf);
}

function stateOf(text: string): ApprovalState {
  const found = approvalStates.find((each) => each === text.trim());
  if (found !== undefined) return found;
  throw new QmError("invalid_arguments", `${quoted(text)} is no state of an approval`, {
    details: { valid: [...approvalStates] },
    hint: "Give one of them, several with commas, or --all.",
  });
}

function isPending(states: readonly ApprovalState[] | undefined): boolean {
  return states?.length === 1 && states[0] === "pending";
}

function sayNone({ out }: Context, states: readonly ApprovalState[] | undefined): void {
  out.line(isPending(states) ? "Nothing waits for an answer." : "No approval fits.");
  out.line(
    out.dim(
      "A call does that when a rule of policy.rules has the effect `ask`, or its action or category requires approval.",
    ),
  );
}

/** Enough of the ids to tell apart what is shown: the time in them to the millisecond, or more. */
function lengthToTell(found: readonly ShownApproval[]): number {
  const differ = (length: number) => new Set(found.map(({ id }) => id.slice(0, length))).size === found.length;
  return [13, 18, 23].find(differ) ?? 36;
}
