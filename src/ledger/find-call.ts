import { type Effect, effects } from "../core/action.ts";
import { isRecord, omitUndefined } from "../core/json.ts";
import { formatResultValue } from "../core/outcome.ts";
import type { FoundCall } from "../core/recover-call.ts";
import type { Ledger } from "./ledger.ts";

/** Reads the ledger about a call whose process ended. Before an action with effects runs, its decision is written. */
export async function findCall(ledger: Pick<Ledger, "read" | "flush">, callId: string): Promise<FoundCall> {
  await ledger.flush();
  const events = await ledger.read({ callId });
  const find = (type: string) => {
    const data = events.findLast((event) => event.type === type)?.data;
    return isRecord(data) ? data : undefined;
  };
  const decided = find("call.decided") ?? {};
  const facts = omitUndefined({
    hasBegun: decided.decision === "allow" || decided.decision === "ask",
    action: typeof decided.action === "string" ? decided.action : undefined,
    effect: effects.find((each): each is Effect => each === decided.effect),
  });
  const approvalId = find("approval.requested")?.approvalId;
  if (typeof approvalId === "string") return { ...facts, approvalId };
  const ended = find("call.ended");
  // A call that was cancelled with its process, or whose process died, may have run.
  if (ended === undefined || ended.code === "cancelled" || ended.code === "interrupted") return facts;
  const { status, code, reason, kept: handle } = ended;
  if (status !== "done") return { ...facts, end: { text: formatResultValue({ code, error: reason }), isDone: false } };
  // The ledger's copy of a result may have fields that are hidden from models. A stored note has none.
  const note = "it ran, but its process ended before the result was kept";
  return { ...facts, end: { text: formatResultValue(omitUndefined({ status, note, handle })), isDone: true } };
}
