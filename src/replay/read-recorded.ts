import type { Caller } from "../core/caller.ts";
import { type ErrorCode, errorCodes, QmError } from "../core/errors.ts";
import { getOwn, isRecord, type Json, type JsonObject } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import type { StoredEvent } from "../ledger/event-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { UsageTotals } from "../policy/budget.ts";
import type { RecordedApproval, RecordedCall, RecordedDecision, RecordedEnd } from "./recorded-call.ts";
import { hasTokens, isAltered } from "./recorded-call.ts";

/** What to read: a session, a turn of it, or a turn wherever it is. */
export type ReplayQuery =
  | { readonly session: string; readonly turn?: string }
  | { readonly session?: string; readonly turn: string };

export interface RecordedSession {
  readonly session: string;
  readonly calls: readonly RecordedCall[];
}

const PAGE = 1000;

/**
 * The calls of a session or a turn, in the order in which they were received. Throws `not_found` where the ledger has no
 * line of it, and `invalid_arguments` where several sessions have a turn of that name.
 */
export async function readRecorded(ledger: Pick<Ledger, "read">, query: ReplayQuery): Promise<RecordedSession> {
  const { session, turn } = query;
  if (session === undefined && turn === undefined)
    throw new QmError("invalid_arguments", "a replay is of a session or of a turn, and neither was named");
  const calls = new Map<string, CallDraft>();
  const sessions = new Set<string>();
  for await (const event of readEvents(ledger, session)) {
    // What a person answers is not part of the turn, but part of a call of it.
    const isMeant = turn === undefined || event.turn === turn || (event.callId !== null && calls.has(event.callId));
    if (!isMeant) continue;
    sessions.add(event.session);
    applyEvent(calls, event);
  }
  const [only, ...others] = sessions;
  if (only === undefined) throw createNotFoundError(query);
  if (others.length > 0) throw createAmbiguousError(String(turn), [...sessions]);
  return { session: only, calls: [...calls.values()] };
}

async function* readEvents(ledger: Pick<Ledger, "read">, session: string | undefined): AsyncGenerator<StoredEvent> {
  for (let after = 0; ; ) {
    const page = await ledger.read({ after, limit: PAGE, ...(session === undefined ? {} : { session }) });
    yield* page;
    const last = page.at(-1);
    if (last === undefined) return;
    after = last.id;
  }
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

interface CallDraft extends Mutable<RecordedCall> {
  readonly decisions: RecordedDecision[];
}

/** Lines that are not of the form they should have, because somebody changed them, are passed over. */
function applyEvent(calls: Map<string, CallDraft>, event: StoredEvent): void {
  const data = isRecord(event.data) ? (event.data as JsonObject) : undefined;
  const { callId } = event;
  if (data === undefined || callId === null) return;
  if (event.type === "call.received") {
    if (!calls.has(callId)) calls.set(callId, createDraft(event, callId, data));
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
      call.decisions.push(readDecision(data));
      return;
    case "call.suspended":
      call.approval = updateApproval(call.approval, data, {});
      return;
    case "approval.decided":
      call.approval = updateApproval(call.approval, data, { answer: readAnswer(data) });
      return;
    case "approval.expired":
      call.approval = updateApproval(call.approval, data, { expired: readText(data, "reason") ?? "" });
      return;
    case "approval.interrupted":
      call.approval = updateApproval(call.approval, data, { interrupted: true });
      return;
    case "call.resumed":
      call.approval = updateApproval(call.approval, data, { resumed: true });
      return;
    case "call.ended":
      call.end = readEnd(data);
      return;
  }
}

function createDraft(event: StoredEvent, callId: string, data: JsonObject): CallDraft {
  const parent = readText(data, "parent");
  const lacks = detectLoss(event, data);
  return {
    callId,
    at: event.at,
    caller: readCaller(event, data),
    asked: readText(data, "asked") ?? "",
    via: readText(data, "via") ?? "",
    args: getOwn(data, "args"),
    ...(parent === undefined ? {} : { parent }),
    decisions: [],
    ...(lacks === undefined ? {} : { lacks }),
  };
}

function readCaller(event: StoredEvent, data: JsonObject): Caller {
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

function detectLoss(event: StoredEvent, data: JsonObject): string | undefined {
  const args = getOwn(data, "args");
  if (isAltered(args)) return "arguments were redacted";
  if (hasTokens(args)) return "arguments stood for anchored values";
  if (isAltered(getOwn(data, "asked"))) return "the name was redacted";
  const user = getOwn(data, "user");
  if (isAltered(user)) return "facts about the user were redacted";
  return event.user !== null && !isUser(user) ? "only the id of the user was recorded" : undefined;
}

function readDecision(data: JsonObject): RecordedDecision {
  const layer = readText(data, "layer");
  const rule = readText(data, "rule");
  const decision = readText(data, "decision");
  return {
    action: readText(data, "action") ?? "",
    definition: readText(data, "definition") ?? "",
    decision: decision === "allow" || decision === "ask" ? decision : "deny",
    ...(layer === undefined ? {} : { layer }),
    ...(rule === undefined ? {} : { rule }),
    policyVersion: readText(data, "policyVersion") ?? "",
    usage: readUsage(getOwn(data, "usage")),
  };
}

function readUsage(value: unknown): ReadonlyMap<string, UsageTotals> {
  const entries = isRecord(value) ? Object.entries(value) : [];
  return new Map(
    entries.flatMap(([key, spent]): [string, UsageTotals][] =>
      isRecord(spent)
        ? [[key, { calls: readAmount(spent.calls), ms: readAmount(spent.ms), bytes: readAmount(spent.bytes) }]]
        : [],
    ),
  );
}

function updateApproval(
  before: RecordedApproval | undefined,
  data: JsonObject,
  change: Partial<Mutable<RecordedApproval>>,
): RecordedApproval {
  return { id: readText(data, "approvalId") ?? "", resumed: false, interrupted: false, ...before, ...change };
}

function readAnswer(data: JsonObject): NonNullable<RecordedApproval["answer"]> {
  const reason = readText(data, "reason");
  return {
    decision: readText(data, "decision") === "approved" ? "approved" : "denied",
    by: readText(data, "by") ?? "",
    ...(reason === undefined ? {} : { reason }),
  };
}

function readEnd(data: JsonObject): RecordedEnd {
  const status = readText(data, "status");
  const code = readText(data, "code");
  const reason = readText(data, "reason");
  const ranAs = readText(data, "ranAs");
  const result: Json = getOwn(data, "result") ?? null;
  return {
    status: status === "done" || status === "refused" ? status : "failed",
    ...(isErrorCode(code) ? { code } : {}),
    ...(reason === undefined ? {} : { reason }),
    durationMs: readAmount(data.durationMs),
    bytes: readAmount(data.bytes),
    result,
    isPartial: Object.hasOwn(data, "resultHash") || isAltered(result),
    ...(ranAs === undefined ? {} : { ranAs }),
  };
}

function isErrorCode(code: string | undefined): code is ErrorCode {
  return code !== undefined && Object.hasOwn(errorCodes, code);
}

function readText(data: JsonObject, key: string): string | undefined {
  const value = getOwn(data, key);
  return typeof value === "string" ? value : undefined;
}

function readAmount(value: unknown): number {
  return typeof value === "number" && value >= 0 ? value : 0;
}

function createNotFoundError({ session, turn }: ReplayQuery): QmError {
  if (turn === undefined)
    return new QmError("not_found", `the ledger has no session ${quoteName(String(session))}`, {
      hint: "`qm events` shows the sessions there are. A turn is asked for as one: --turn.",
    });
  const where = session === undefined ? "" : ` in session ${quoteName(session)}`;
  return new QmError("not_found", `the ledger has no turn ${quoteName(turn)}${where}`, {
    hint: "`qm events --json` shows the turn of every event. A whole session is asked for by its name alone: `qm replay <session>`.",
  });
}

function createAmbiguousError(turn: string, sessions: readonly string[]): QmError {
  return new QmError("invalid_arguments", `${sessions.length} sessions have a turn ${quoteName(turn)}`, {
    details: { sessions: sessions.slice(0, 10) },
    hint: "Say which one: --session.",
  });
}
