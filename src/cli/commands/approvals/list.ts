import { systemRuntime } from "../../../app/system-runtime.ts";
import {
  type ApprovalState,
  type Approvals,
  type ApprovalView,
  approvalStates,
  isFinished,
} from "../../../approval/approval.ts";
import { formatCount, toOneLine, toVisibleJson } from "../../../core/display-text.ts";
import { QmError } from "../../../core/errors.ts";
import { clip, omitUndefined } from "../../../core/json.ts";
import { quoteName } from "../../../core/names.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { identifyApprover, requirePresence } from "../../approver.ts";
import { type Context, followStore, pause, toOwnerFilter } from "../../context.ts";
import { createUsageError } from "../../exit-codes.ts";
import { type ReadPortion, readAllParts, showFilePages } from "../../file-pages.ts";
import { formatTimeSpan } from "../../terminal-text.ts";
import { readFailureReason } from "./answer.ts";
import {
  formatApprovalAnswer,
  formatApprovalState,
  formatRequester,
  getApprovalPaint,
  showApprovalCall,
  showApprovalHistory,
} from "./approval-text.ts";
import { findApproval, getConfiguredLevelRoles } from "./lookup.ts";

type ListOptions = Readonly<{ state?: string; all?: boolean; action?: string; limit: number }>;

export async function runApprovalsList({ out, globals }: Context, workspace: Workspace, options: ListOptions) {
  const { action, limit } = options;
  const state = parseStates(options);
  const isPending = state?.length === 1 && state[0] === "pending";
  const query = { limit, ...toOwnerFilter(globals), ...omitUndefined({ state, action }) };
  const found = await workspace.quartermaster.approvals.list(query);
  if (out.isJson) return out.json({ approvals: found });
  if (found.length === 0) {
    out.line(isPending ? "No call waits for an answer." : "No approval matches.");
    return out.line(
      out.dim("A call waits if a rule of policy.rules has the effect `ask`, or its action or category needs approval."),
    );
  }
  const length = getUniqueIdLength(found);
  const now = systemRuntime.now().getTime();
  out.table(
    ["ID", "STATE", "ACTION", "LEVEL", "AGE", "EXPIRES IN", "ASKED BY", "ARGUMENTS"],
    found.map((approval) => [
      approval.id.slice(0, length),
      { text: formatApprovalState(approval), paint: getApprovalPaint(out, approval) },
      approval.action,
      approval.level,
      formatTimeSpan(now - Date.parse(approval.requestedAt)),
      approval.state === "pending" ? formatTimeSpan(Date.parse(approval.expiresAt) - now) : "",
      formatRequester(approval),
      clip(toVisibleJson(approval.args), 120),
    ]),
    { whole: [0, 1, 2] },
  );
  if (found.length === limit) out.line(out.dim(`These are the oldest ${limit}; --limit shows more.`));
  if (isPending) out.line(out.dim("`qm approvals show <id>` shows the exact call."));
}

function parseStates({ state, all }: ListOptions): readonly ApprovalState[] | undefined {
  if (all !== true) return (state ?? "pending").split(",").map(parseState);
  if (state === undefined) return undefined;
  throw createUsageError("--all and --state contradict each other", "Give one of them.");
}

function parseState(text: string): ApprovalState {
  const found = approvalStates.find((each) => each === text.trim());
  if (found !== undefined) return found;
  const details = { valid: [...approvalStates] };
  const hint = "Give one of them, several with commas, or --all.";
  throw new QmError("invalid_arguments", `unknown approval state ${quoteName(text)}`, { details, hint });
}

/** How much of the ids to show so that they differ: the time in milliseconds, or more. */
function getUniqueIdLength(found: readonly ApprovalView[]): number {
  const differ = (length: number) => new Set(found.map(({ id }) => id.slice(0, length))).size === found.length;
  return [13, 18, 23].find(differ) ?? 36;
}

type ShowOptions = { readonly full?: boolean; readonly reveal?: boolean; readonly as?: string };

export async function runApprovalsShow(context: Context, workspace: Workspace, idText: string, options: ShowOptions) {
  const { out } = context;
  const { full = false, reveal = false, as } = options;
  const { approvals } = workspace.quartermaster;
  const found = await findApproval(approvals, idText);
  const approval = reveal ? await revealApproval(context, workspace, found, as) : found;
  const readPage: ReadPortion = (position) => approvals.readFiles(found.id, position);
  if (out.isJson) return out.json({ ...approval, ...(full && { parts: await readAllParts(readPage) }) });
  showApprovalCall(out, approval, getConfiguredLevelRoles(workspace.config, approval), !full);
  if (full) await showFilePages(context, readPage);
  else if (approval.files !== undefined)
    out.line(out.dim(`\`qm approvals show ${approval.id} --full\` shows the files.`));
  showApprovalHistory(out, approval, await readFailureReason(approvals, approval));
  if (approval.state === "pending")
    out.line(out.dim(`Run \`qm approvals approve ${approval.id}\` to allow it, or \`deny\` to refuse.`));
}

/** Secrets are revealed only to an approver of the call, and only if a person is present. */
async function revealApproval(context: Context, workspace: Workspace, { id }: ApprovalView, as?: string) {
  const person = await identifyApprover(context, workspace, as);
  requirePresence(context, person);
  return workspace.quartermaster.approvals.reveal(id, { id: person.id, roles: person.roles, via: "cli" });
}

const POLL_MS = 500;
const PAGE = 1_000;

export async function runApprovalsWatch(context: Context): Promise<void> {
  let isAnnounced = false;
  const announce = (count: number): void => {
    if (isAnnounced) return;
    isAnnounced = true;
    const calls = count === 0 ? "No call waits" : `${formatCount(count, "call")} ${count === 1 ? "waits" : "wait"}`;
    context.out.note(`${calls} for an answer now. Changes are shown until Ctrl-C.`);
  };
  await followStore(
    context,
    POLL_MS,
    async ({ quartermaster: { approvals } }) => {
      const waiting = await approvals.list({ state: "pending", limit: PAGE });
      announce(waiting.filter((approval) => isSelected(context, approval)).length);
      await followApprovalChanges(context, approvals);
    },
    () => announce(0),
  );
}

/** Changes of this process are reported at once, those of other processes are found by polling. */
export async function followApprovalChanges(context: Context, approvals: Approvals): Promise<void> {
  const { signal } = context.io;
  const seen = new Map<string, ApprovalView>();
  const reportChange = (approval: ApprovalView): void => {
    if (seen.get(approval.id)?.state === approval.state || !isSelected(context, approval)) return;
    seen.set(approval.id, approval);
    printChange(context, approval);
  };
  const stop = approvals.onChange(reportChange);
  try {
    while (!signal.aborted) {
      const open = await approvals.list({ state: ["pending", "approved", "executing"], limit: PAGE });
      const ids = new Set(open.map(({ id }) => id));
      for (const approval of open) reportChange(approval);
      for (const { id } of [...seen.values()].filter((each) => !isFinished(each) && !ids.has(each.id)))
        reportChange(await approvals.get(id));
      await pause(POLL_MS, signal);
    }
  } finally {
    stop();
  }
}

function isSelected({ globals }: Context, approval: ApprovalView): boolean {
  return (["session", "actor", "tenant", "user"] as const).every(
    (key) => globals[key] === undefined || globals[key] === approval[key],
  );
}

function printChange({ out }: Context, approval: ApprovalView): void {
  const { id, state, action, level, answer, requestedAt, endedAt } = approval;
  const at = (endedAt ?? answer?.at ?? requestedAt).slice(11, 19);
  const status = getApprovalPaint(out, approval)(formatApprovalState(approval).padEnd(11));
  const what = state === "pending" ? `${formatRequester(approval)}, level ${level}` : formatApprovalAnswer(approval);
  out.answer(approval, `${at}  ${status}  ${id}  ${toOneLine(action)}  ${out.dim(toOneLine(what))}`);
}
