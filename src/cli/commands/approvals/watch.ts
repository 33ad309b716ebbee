import { existsSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { isOver, type ShownApproval } from "../../../approval/approval.ts";
import type { Approvals } from "../../../approval/approvals.ts";
import { type Context, withWorkspace } from "../../context.ts";
import { exitCodes } from "../../exit-codes.ts";
import { counted, oneLine } from "../../text.ts";
import { answerText, paintOf, stateText, whoAsked } from "./words.ts";

const POLL_MS = 500;
const PAGE = 1_000;

/** Waits for the first call to make the store, where there is none yet. */
export async function watch(context: Context): Promise<void> {
  const { signal } = context.io;
  let found = false;
  let told = false;
  while (!found && !signal.aborted) {
    found = await withWorkspace(context, "ledger", async ({ quartermaster, storePath }) => {
      if (!existsSync(storePath)) {
        if (!told) sayWaiting(context, 0);
        told = true;
        return false;
      }
      const waiting = await quartermaster.approvals.list({ state: "pending", limit: PAGE });
      if (!told) sayWaiting(context, waiting.filter((approval) => isWanted(context, approval)).length);
      await follow(context, quartermaster.approvals);
      return true;
    });
    if (!found) await pause(POLL_MS, undefined, { signal }).catch(() => {});
  }
  context.end(exitCodes.interrupted);
}

function sayWaiting({ out }: Context, count: number): void {
  const what = count === 0 ? "Nothing waits" : `${counted(count, "call")} ${count === 1 ? "waits" : "wait"}`;
  out.note(`${what} for an answer now. Every change is shown here, until Ctrl-C.`);
}

/** Word of a change comes at once; what nobody gives word of is seen when looking again. */
export async function follow(context: Context, approvals: Approvals): Promise<void> {
  const { signal } = context.io;
  const seen = new Map<string, ShownApproval>();

  function tell(approval: ShownApproval): void {
    if (seen.get(approval.id)?.state === approval.state || !isWanted(context, approval)) return;
    seen.set(approval.id, approval);
    print(context, approval);
  }

  const stop = approvals.onChange(tell);
  try {
    while (!signal.aborted) {
      const open = await approvals.list({ state: ["pending", "approved", "executing"], limit: PAGE });
      const ids = new Set(open.map(({ id }) => id));
      for (const approval of open) tell(approval);
      for (const { id } of [...seen.values()].filter((each) => !isOver(each) && !ids.has(each.id)))
        tell(await approvals.get(id));
      await pause(POLL_MS, undefined, { signal }).catch(() => {});
    }
  } finally {
    stop();
  }
}

function isWanted({ globals }: Context, { session, actor, tenant, user }: ShownApproval): boolean {
  return (
    (globals.session ?? session) === session &&
    (globals.actor ?? actor) === actor &&
    (globals.tenant ?? tenant) === tenant &&
    (globals.user ?? user) === user
  );
}

function print({ out }: Context, approval: ShownApproval): void {
  if (out.isJson) {
    out.json(approval);
    return;
  }
  const { id, state, action, level, answer, requestedAt, endedAt } = approval;
  const at = (endedAt ?? answer?.at ?? requestedAt).slice(11, 19);
  const what = state === "pending" ? `${whoAsked(approval)}, level ${level}` : answerText(approval);
  out.line(
    `${at}  ${paintOf(out, approval)(stateText(approval).padEnd(11))}  ${id}  ${oneLine(action)}  ${out.dim(oneLine(what))}`,
  );
}
