import { PEER_CATEGORY } from "../core/delegation.ts";
import { isRecord, type Json } from "../core/json.ts";
import { getModelData, type Outcome } from "../core/outcome.ts";
import type { TaskChange, TaskPart } from "./peer-task.ts";

/** As much of a result as one answer may hold. */
const RESULT_CHARS = 2 * 1024 * 1024;
const STATUS_CHARS = 4_000;
/** Errors that tell about this installation: addresses, files, missing keys. They are in the ledger. */
const OWN_FAULTS: readonly string[] = ["model_failed", "no_model", "invalid_config", "internal", "store_failed"];

/** The state of a task after its call. */
export function toTaskEnd(outcome: Outcome): Omit<TaskChange, "at"> {
  if (outcome.status === "waiting") {
    const { id, inner, level } = outcome.approval;
    // The client may not see the actions that an actor calls.
    const what =
      inner === undefined ? `${outcome.action}: ${outcome.reason}` : `something that ${outcome.action} does.`;
    const status = `A person with the level ${level} must approve ${what} Approval ${id}.`;
    return { state: "auth_required", status: cut(status), approval: { id, inner: inner !== undefined } };
  }
  if (outcome.status !== "done") {
    const isCancelled = outcome.error.code === "cancelled";
    const state = outcome.status === "refused" ? "rejected" : isCancelled ? "cancelled" : "failed";
    const { code } = outcome.error;
    return { state, status: OWN_FAULTS.includes(code) ? `It failed on this side: ${code}.` : cut(outcome.reason) };
  }
  // The view for peers, without hidden fields.
  const data = getModelData(outcome);
  const isPeer = outcome.action.startsWith(`${PEER_CATEGORY}__`);
  const result = isPeer ? toActorParts(data) : [toPart(data)];
  if (JSON.stringify(result).length > RESULT_CHARS)
    return { state: "failed", status: `It ran, but its result has more than ${RESULT_CHARS} characters.` };
  if (isPeer && isRecord(data) && data.state === "input_required")
    return { state: "input_required", status: cut(String(data.text)) };
  return { state: "completed", result };
}

const toPart = (data: unknown): TaskPart => (typeof data === "string" ? { text: data } : { data: data as Json });

/** The answer of an actor: its text, and its data. */
function toActorParts(data: unknown): readonly TaskPart[] {
  if (!isRecord(data)) return [toPart(data)];
  const parts = Array.isArray(data.parts) ? data.parts.map((part: unknown) => toPart(part)) : [];
  const text = typeof data.text === "string" && data.text !== "" ? [{ text: data.text }] : [];
  return [...text, ...parts];
}

const cut = (text: string): string => text.slice(0, STATUS_CHARS);
