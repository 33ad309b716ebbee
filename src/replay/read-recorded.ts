import type { Caller } from "../core/caller.ts";
import { type ErrorCode, errorCodes, QmError } from "../core/errors.ts";
import { getOwn, isRecord, type Json, type JsonObject } from "../core/json.ts";
import { quoted } from "../core/names.ts";
import type { StoredEvent } from "../ledger/event-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Spent } from "../policy/usage.ts";
import { holdsTokens, isAltered } from "./marks.ts";
import type { RecordedApproval, RecordedCall, RecordedDecision, RecordedEnd } from "./recorded.ts";

/** What to read: a session, a turn of it, or a turn wherever it is. */
export type ReplayQuery =
  | { readonly session: string; readonly turn?: string }
  | { readonly session?: string; readonly turn: string };

export interface Recorded {
  readonly session: string;
  readonly calls: readonly RecordedCall[];
}

const PAGE = 1000;

/**
 * The calls of a session or a turn, in the order in which they were received. Throws `not_found` where the ledger has no
 * line of it, and `invalid_arguments` where several sessions have a turn of that name.
 */
export async function readRecorded(ledger: Pick<Ledger, "read">, query: ReplayQuery): Promise<Recorded> {
  const { session, turn } = query;
  if (session === undefined && turn === undefined)
    throw new QmError("invalid_arguments", "a replay is of a session or of a turn, and neither was named");
  const calls = new Map<string, Writing>();
  const sessions = new Set<string>();
  for await (const event of linesOf(ledger, session)) {
    // What a person answers is not part of the turn, but part of a call of it.
    const isMeant = turn === undefined || event.turn === turn || (event.callId !== null && calls.has(event.callId));
    if (!isMeant) continue;
    sessions.add(event.session);
    take(calls, event);
  }
  const [only, ...others] = sessions;
  if (only === undefined) throw notFound(query);
  if (others.length > 0) throw ambiguous(String(turn), [...sessions]);
  return { session: only, calls: [...calls.values()] };
}

async function* linesOf(ledger: Pick<Ledger, "read">, session: string | undefined): AsyncGenerator<StoredEvent> {
  for (let after = 0; ; ) {
    const page = await ledger.read({ after, limit: PAGE, ...(session === undefined ? {} : { session }) });
    yield* page;
    const last = page.at(-1);
    if (last === undefined) return;
    after = last.id;
  }
}

type Changeable<T> = { -readonly [Key in keyof T]: T[Key] };

interface Writing extends Changeable<RecordedCall> {
  readonly decisions: RecordedDecision[];
}

/** Lines that are not of the form they should have, because somebody changed them, are passed over. */
function take(calls: Map<string, Writing>, event: StoredEvent): void {
  const data = isRecord(event.data) ? (event.data as JsonObject) : undefined;
  const { callId } = event;
  if (data === undefined || callId === null) return;
  if (event.type === "call.received") {
    if (!calls.has(callId)) calls.set(callId, receivedCall(event, callId, data));
    return;
  }
  const call = calls.get(callId);
  if (call === undefined) return;
  switch (event.type) {
    case "arguments.filled":
      call.filledArgs = getOwn(data, "args");
      if (isAltered(call.filledArgs)) call.lacks ??= "what handles led to was not written down whole";
      return;
    case "call.decided":
      call.decisions.push(decisionOf(data));
      return;
    case "call.suspended":
      call.approval = approvalWith(call.approval, data, {});
      return;
    case "approval.decided":
      call.approval = approvalWith(call.approval, data, { answer: answerOf(data) });
      return;
    case "approval.expired":
      call.approval = approvalWith(call.approval, data, { expired: text(data, "reason") ?? "" });
      return;
    case "approval.interrupted":
      call.approval = approvalWith(call.approval, data, { interrupted: true });
      return;
    case "call.resumed":
      call.approval = approvalWith(call.approval, data, { resumed: true });
      return;
    case "call.ended":
      call.end = endOf(data);
      return;
  }
}

function receivedCall(event: StoredEvent, callId: string, data: JsonObject): Writing {
  const parent = text(data, "parent");
  const lacks = lackOf(event, data);
  return {
    callId,
    at: event.at,
    caller: callerOf(event, data),
    asked: text(data, "asked") ?? "",
    via: text(data, "via") ?? "",
    args: getOwn(data, "args"),
    ...(parent === undefined ? {} : { parent }),
    decisions: [],
    ...(lacks === undefined ? {} : { lacks }),
  };
}

function callerOf(event: StoredEvent, data: JsonObject): Caller {
  const { session, actor, turn, tenant, person } = event;
  const whole = getOwn(data, "user");
  const user = isUser(whole) ? whole : event.user === null ? undefined : { id: event.user };
  return {
    actor: actor ?? "default",
    session,
    ...(turn === null ? {} : { turn }),
    ...(tenant === null ? {} : { tenant }),
    ...(person === null ? {} : { person }),
    ...(user === undefined ? {} : { user }),
  };
}

function isUser(value: unknown): value is { readonly id: string } & JsonObject {
  return isRecord(value) && typeof getOwn(value, "id") === "string";
}

function lackOf(event: StoredEvent, data: JsonObject): string | undefined {
  const args = getOwn(data, "args");
  if (isAltered(args)) return "arguments were redacted";
  if (holdsTokens(args)) return "arguments stood for anchored values";
  if (isAltered(getOwn(data, "asked"))) return "the name was redacted";
  const user = getOwn(data, "user");
  if (isAltered(user)) return "facts about the user were redacted";
  return event.user !== null && !isUser(user) ? "only the id of the user was recorded" : undefined;
}

function decisionOf(data: JsonObject): RecordedDecision {
  const layer = text(data, "layer");
  const rule = text(data, "rule");
  const decision = text(data, "decision");
  return {
    action: text(data, "action") ?? "",
    definition: text(data, "definition") ?? "",
    decision: decision === "allow" || decision === "ask" ? decision : "deny",
    ...(layer === undefined ? {} : { layer }),
    ...(rule === undefined ? {} : { rule }),
    policyVersion: text(data, "policyVersion") ?? "",
    usage: usageOf(getOwn(data, "usage")),
  };
}

function usageOf(value: unknown): ReadonlyMap<string, Spent> {
  const entries = isRecord(value) ? Object.entries(value) : [];
  return new Map(
    entries.flatMap(([key, spent]): [string, Spent][] =>
      isRecord(spent) ? [[key, { calls: amount(spent.calls), ms: amount(spent.ms), bytes: amount(spent.bytes) }]] : [],
    ),
  );
}

function approvalWith(
  before: RecordedApproval | undefined,
  data: JsonObject,
  change: Partial<Changeable<RecordedApproval>>,
): RecordedApproval {
  return { id: text(data, "approvalId") ?? "", resumed: false, interrupted: false, ...before, ...change };
}

function answerOf(data: JsonObject): NonNullable<RecordedApproval["answer"]> {
  const reason = text(data, "reason");
  return {
    decision: text(data, "decision") === "approved" ? "approved" : "denied",
    by: text(data, "by") ?? "",
    ...(reason === undefined ? {} : { reason }),
  };
}

function endOf(data: JsonObject): RecordedEnd {
  const status = text(data, "status");
  const code = text(data, "code");
  const reason = text(data, "reason");
  const ranAs = text(data, "ranAs");
  const result: Json = getOwn(data, "result") ?? null;
  return {
    status: status === "done" || status === "refused" ? status : "failed",
    ...(isCode(code) ? { code } : {}),
    ...(reason === undefined ? {} : { reason }),
    durationMs: amount(data.durationMs),
    bytes: amount(data.bytes),
    result,
    isPartial: Object.hasOwn(data, "resultHash") || isAltered(result),
    ...(ranAs === undefined ? {} : { ranAs }),
  };
}

function isCode(code: string | undefined): code is ErrorCode {
  return code !== undefined && Object.hasOwn(errorCodes, code);
}

function text(data: JsonObject, key: string): string | undefined {
  const value = getOwn(data, key);
  return typeof value === "string" ? value : undefined;
}

function amount(value: unknown): number {
  return typeof value === "number" && value >= 0 ? value : 0;
}

function notFound({ session, turn }: ReplayQuery): QmError {
  if (turn === undefined)
    return new QmError("not_found", `the ledger has no session ${quoted(String(session))}`, {
      hint: "`qm events` shows the sessions there are. A turn is asked for as one: --turn.",
    });
  const where = session === undefined ? "" : ` in session ${quoted(session)}`;
  return new QmError("not_found", `the ledger has no turn ${quoted(turn)}${where}`, {
    hint: "`qm events --json` shows the turn of every event. A whole session is asked for by its name alone: `qm replay <session>`.",
  });
}

function ambiguous(turn: string, sessions: readonly string[]): QmError {
  return new QmError("invalid_arguments", `${sessions.length} sessions have a turn ${quoted(turn)}`, {
    details: { sessions: sessions.slice(0, 10) },
    hint: "Say which one: --session.",
  });
}
