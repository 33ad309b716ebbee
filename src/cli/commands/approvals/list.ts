import { existsSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { systemRuntime } from "../../../app/system-runtime.ts";
import type { Approvals } from "../../../approval/approval.ts";
import { type ApprovalState, type ApprovalView, approvalStates, isFinished } from "../../../approval/approval.ts";
import { toVisibleJson } from "../../../core/display-text.ts";
import { QmError } from "../../../core/errors.ts";
import { clip } from "../../../core/json.ts";
import { quoteName } from "../../../core/names.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { identifyApprover, requirePresence } from "../../approver.ts";
import { type CommandContext, withWorkspace } from "../../context.ts";
import { exitCodes } from "../../exit-codes.ts";
import { formatCount, toOneLine } from "../../terminal-text.ts";
import { readFailureReason } from "./answer.ts";
import {
  formatApprovalAnswer,
  formatApprovalState,
  formatRequester,
  formatTimeSpan,
  getApprovalPaint,
  showApprovalCall,
  showApprovalHistory,
} from "./approval-text.ts";
import { findApproval, getConfiguredLevelRoles } from "./lookup.ts";

export interface ApprovalsShowOptions {
  readonly full?: boolean;
  readonly reveal?: boolean;
  readonly as?: string;
}

export async function runApprovalsShow(
  context: CommandContext,
  workspace: Workspace,
  id: string,
  { full = false, reveal = false, as }: ApprovalsShowOptions,
): Promise<void> {
  const { out } = context;
  const { config, quartermaster } = workspace;
  const { approvals } = quartermaster;
  const found = await findApproval(approvals, id);
  const approval = reveal ? await revealApproval(context, workspace, found.id, as) : found;
  if (out.isJson) return out.json(approval);
  showApprovalCall(out, approval, { roles: getConfiguredLevelRoles(config, approval), cut: !full });
  showApprovalHistory(out, approval, await readFailureReason(approvals, approval));
  if (approval.state === "pending")
    out.line(out.dim(`\`qm approvals approve ${approval.id}\` has it run; deny says no.`));
}

/** Secrets are shown to somebody who could approve the call, and only where a person is there. */
async function revealApproval(context: CommandContext, workspace: Workspace, id: string, as: string | undefined) {
  const person = await identifyApprover(context, workspace, as);
  requirePresence(context, person);
  return workspace.quartermaster.approvals.reveal(id, { id: person.id, roles: person.roles, via: "cli" });
}

const POLL_MS = 500;
const PAGE = 1_000;

/** Waits for the first call to make the store, where there is none yet. */
export async function runApprovalsWatch(context: CommandContext): Promise<void> {
  const { signal } = context.io;
  let found = false;
  let told = false;
  while (!found && !signal.aborted) {
    found = await withWorkspace(context, "ledger", async ({ quartermaster, storePath }) => {
      if (!existsSync(storePath)) {
        if (!told) printWaiting(context, 0);
        told = true;
        return false;
      }
      const waiting = await quartermaster.approvals.list({ state: "pending", limit: PAGE });
      if (!told) printWaiting(context, waiting.filter((approval) => isSelected(context, approval)).length);
      await followApprovalChanges(context, quartermaster.approvals);
      return true;
    });
    if (!found) await pause(POLL_MS, undefined, { signal }).catch(() => {});
  }
  context.end(exitCodes.interrupted);
}

function printWaiting({ out }: CommandContext, count: number): void {
  const what = count === 0 ? "Nothing waits" : `${formatCount(count, "call")} ${count === 1 ? "waits" : "wait"}`;
  out.note(`${what} for an answer now. Every change is shown here, until Ctrl-C.`);
}

/** Word of a change comes at once; what nobody gives word of is seen when looking again. */
export async function followApprovalChanges(context: CommandContext, approvals: Approvals): Promise<void> {
  const { signal } = context.io;
  const seen = new Map<string, ApprovalView>();

  function reportChange(approval: ApprovalView): void {
    if (seen.get(approval.id)?.state === approval.state || !isSelected(context, approval)) return;
    seen.set(approval.id, approval);
    printChange(context, approval);
  }

  const stop = approvals.onChange(reportChange);
  try {
    while (!signal.aborted) {
      const open = await approvals.list({ state: ["pending", "approved", "executing"], limit: PAGE });
      const ids = new Set(open.map(({ id }) => id));
      for (const approval of open) reportChange(approval);
      for (const { id } of [...seen.values()].filter((each) => !isFinished(each) && !ids.has(each.id)))
        reportChange(await approvals.get(id));
      await pause(POLL_MS, undefined, { signal }).catch(() => {});
    }
  } finally {
    stop();
  }
}

function isSelected({ globals }: CommandContext, { session, actor, tenant, user }: ApprovalView): boolean {
  return (
    (globals.session ?? session) === session &&
    (globals.actor ?? actor) === actor &&
    (globals.tenant ?? tenant) === tenant &&
    (globals.user ?? user) === user
  );
}

function printChange({ out }: CommandContext, approval: ApprovalView): void {
  if (out.isJson) {
    out.json(approval);
    return;
  }
  const { id, state, action, level, answer, requestedAt, endedAt } = approval;
  const at = (endedAt ?? answer?.at ?? requestedAt).slice(11, 19);
  const what = state === "pending" ? `${formatRequester(approval)}, level ${level}` : formatApprovalAnswer(approval);
  out.line(
    `${at}  ${getApprovalPaint(out, approval)(formatApprovalState(approval).padEnd(11))}  ${id}  ${toOneLine(action)}  ${out.dim(toOneLine(what))}`,
  );
}

export interface ApprovalsListOptions {
  readonly state?: string;
  readonly all?: boolean;
  readonly action?: string;
  readonly limit: number;
}

/** Enough to tell calls apart. */
const ARGS_LIMIT = 120;

export async function runApprovalsList(
  context: CommandContext,
  { quartermaster }: Workspace,
  options: ApprovalsListOptions,
): Promise<void> {
  const { out, globals } = context;
  const { session, actor, tenant, user } = globals;
  const { action, limit } = options;
  const state = parseStates(options);
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
  if (found.length === 0) return printNoApprovals(context, state);
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
      clip(toVisibleJson(approval.args), ARGS_LIMIT),
    ]),
  );
  if (found.length === limit) out.line(out.dim(`These are the oldest ${limit}; --limit shows more.`));
  if (isPending(state)) out.line(out.dim("`qm approvals show <id>` shows what exactly would run."));
}

function parseStates({ state, all }: ApprovalsListOptions): readonly ApprovalState[] | undefined {
  if (all === true && state !== undefined)
    throw new QmError("invalid_arguments", "--all and --state contradict each other", { hint: "Give one of them." });
  if (all === true) return undefined;
  return (state ?? "pending").split(",").map(parseState);
}

function parseState(text: string): ApprovalState {
  const found = approvalStates.find((each) => each === text.trim());
  if (found !== undefined) return found;
  throw new QmError("invalid_arguments", `${quoteName(text)} is no state of an approval`, {
    details: { valid: [...approvalStates] },
    hint: "Give one of them, several with commas, or --all.",
  });
}

function isPending(states: readonly ApprovalState[] | undefined): boolean {
  return states?.length === 1 && states[0] === "pending";
}

function printNoApprovals({ out }: CommandContext, states: readonly ApprovalState[] | undefined): void {
  out.line(isPending(states) ? "Nothing waits for an answer." : "No approval fits.");
  out.line(
    out.dim(
      "A call does that when a rule of policy.rules has the effect `ask`, or its action or category requires approval.",
    ),
  );
}

/** Enough of the ids to tell apart what is shown: the time in them to the millisecond, or more. */
function getUniqueIdLength(found: readonly ApprovalView[]): number {
  const differ = (length: number) => new Set(found.map(({ id }) => id.slice(0, length))).size === found.length;
  return [13, 18, 23].find(differ) ?? 36;
}
