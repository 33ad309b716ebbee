import type { Caller } from "../core/caller.ts";
import { type ErrorCode, errorCodes, QmError } from "../core/errors.ts";
import { SYSTEM_SESSION } from "../core/events.ts";
import { getOwn, isRecord, type Json, type JsonObject, omitUndefined } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import type { StoredEvent } from "../ledger/event-store.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { ModelUsage, UsageTotals } from "../policy/budget.ts";
import type { RecordedApproval, RecordedCall, RecordedDecision, RecordedEnd } from "./recorded-call.ts";
import { hasTokens, isAltered } from "./recorded-call.ts";

/** A session, a turn of it, or a turn of any session. */
export type ReplayQuery =
  | { readonly session: string; readonly turn?: string }
  | { readonly session?: string; readonly turn: string };

export type RecordedSession = Readonly<{ session: string; calls: readonly RecordedCall[] }>;

/**
 * Reads the calls of a session or a turn, in the order in which they were received. Throws `not_found` if the ledger has
 * no event of it, and `invalid_arguments` if several sessions have a turn with this name.
 */
export async function readRecorded(ledger: Pick<Ledger, "read">, query: ReplayQuery): Promise<RecordedSession> {
  const { session, turn } = query;
  if (session === undefined && turn === undefined)
    throw new QmError("invalid_arguments", "a replay needs a session or a turn");
  const calls = new Map<string, CallDraft>();
  const sessions = new Set<string>();
  /** Whether there are events of calls whose start is missing. */
  let isCut = false;
  for await (const event of readEvents(ledger, session)) {
    // The answer of an approver has no turn, but belongs to a call of it.
    const isPart = turn === undefined || event.turn === turn || (event.callId !== null && calls.has(event.callId));
    if (!isPart) continue;
    sessions.add(event.session);
    applyEvent(calls, event);
    isCut ||= event.callId !== null && !calls.has(event.callId);
  }
  const [only, ...others] = sessions;
  if (only === undefined || (calls.size === 0 && isCut)) throw await createNotFoundError(ledger, query);
  if (others.length === 0) return { session: only, calls: [...calls.values()] };
  const details = { sessions: [...sessions].slice(0, 10) };
  const message = `${sessions.size} sessions have a turn ${quoteName(String(turn))}`;
  throw new QmError("invalid_arguments", message, { details, hint: "Give the session: --session." });
}

async function* readEvents(ledger: Pick<Ledger, "read">, session: string | undefined): AsyncGenerator<StoredEvent> {
  for (let after = 0; ; ) {
    const page = await ledger.read({ after, limit: 1000, ...omitUndefined({ session }) });
    yield* page;
    const last = page.at(-1);
    if (last === undefined) return;
    after = last.id;
  }
}

type CallDraft = { -readonly [Key in keyof RecordedCall]: RecordedCall[Key] } & { decisions: RecordedDecision[] };

/** Ignores events with an invalid shape: the store may have been changed by hand. */
function applyEvent(calls: Map<string, CallDraft>, event: StoredEvent) {
  const data = isRecord(event.data) ? (event.data as JsonObject) : undefined;
  const { callId } = event;
  if (data === undefined || callId === null) return;
  if (event.type === "call.received") {
    if (!calls.has(callId)) calls.set(callId, createDraft(event, callId, data));
    return;
  }
  const call = calls.get(callId);
  if (call === undefined) return;
  const updateApproval = (change: Partial<RecordedApproval>): void => {
    const id = readText(data, "approvalId") ?? "";
    call.approval = { id, resumed: false, interrupted: false, ...call.approval, ...change };
  };
  const { type } = event;
  if (type === "call.decided") call.decisions.push(readDecision(data));
  if (type === "call.suspended") updateApproval({});
  if (type === "call.resumed") updateApproval({ resumed: true });
  if (type === "model.called") call.modelUsages = [...(call.modelUsages ?? []), readModelUsage(data)];
  if (type === "call.ended") call.end = readEnd(data);
  if (type === "approval.expired") updateApproval({ expired: readText(data, "reason") ?? "" });
  if (type === "approval.interrupted") updateApproval({ interrupted: true });
  if (type === "approval.decided") {
    const decision = readText(data, "decision") === "approved" ? "approved" : "denied";
    const reason = readText(data, "reason");
    updateApproval({ answer: { decision, by: readText(data, "by") ?? "", ...omitUndefined({ reason }) } });
  }
  if (type === "arguments.filled") {
    call.filledArgs = getOwn(data, "args");
    if (isAltered(call.filledArgs)) call.lacks ??= "the values of handles were not recorded completely";
  }
}

function createDraft(event: StoredEvent, callId: string, data: JsonObject): CallDraft {
  const optional = omitUndefined({ parent: readText(data, "parent"), lacks: detectLoss(event, data) });
  const [asked, via] = [readText(data, "asked") ?? "", readText(data, "via") ?? ""];
  const caller = readCaller(event, data);
  return { callId, at: event.at, caller, asked, via, args: getOwn(data, "args"), decisions: [], ...optional };
}

function readCaller(event: StoredEvent, data: JsonObject): Caller {
  const { session, actor, turn, tenant, person } = event;
  const whole = getOwn(data, "user");
  const user = isUser(whole) ? whole : event.user === null ? undefined : { id: event.user };
  const optional = { turn: turn ?? undefined, tenant: tenant ?? undefined, person: person ?? undefined, user };
  return { actor: actor ?? "default", session, ...omitUndefined(optional) };
}

function isUser(value: unknown): value is { readonly id: string } & JsonObject {
  return isRecord(value) && typeof getOwn(value, "id") === "string";
}

function detectLoss(event: StoredEvent, data: JsonObject): string | undefined {
  const args = getOwn(data, "args");
  if (isAltered(args)) return "arguments were redacted";
  if (hasTokens(args)) return "arguments held tokens for anchored values";
  if (isAltered(getOwn(data, "asked"))) return "the name was redacted";
  const user = getOwn(data, "user");
  if (isAltered(user)) return "user facts were redacted";
  return event.user !== null && !isUser(user) ? "only the id of the user was recorded" : undefined;
}

function readDecision(data: JsonObject): RecordedDecision {
  const decision = readText(data, "decision");
  return {
    action: readText(data, "action") ?? "",
    definition: readText(data, "definition") ?? "",
    decision: decision === "allow" || decision === "ask" ? decision : "deny",
    ...omitUndefined({ layer: readText(data, "layer"), rule: readText(data, "rule") }),
    policyVersion: readText(data, "policyVersion") ?? "",
    usage: readUsage(getOwn(data, "usage")),
  };
}

function readUsage(value: unknown): ReadonlyMap<string, UsageTotals> {
  const usage = new Map<string, UsageTotals>();
  for (const [key, spent] of Object.entries(isRecord(value) ? value : {}))
    if (isRecord(spent))
      usage.set(key, {
        ...{ calls: readAmount(spent.calls), ms: readAmount(spent.ms), bytes: readAmount(spent.bytes) },
        ...(spent.tokens === undefined ? {} : { tokens: readAmount(spent.tokens) }),
        ...(spent.cost === undefined ? {} : { cost: readAmount(spent.cost) }),
      });
  return usage;
}

const readModelUsage = (data: JsonObject): ModelUsage => ({
  tokens: readAmount(data.inputTokens) + readAmount(data.outputTokens),
  cost: readAmount(data.cost),
});

function readEnd(data: JsonObject): RecordedEnd {
  const status = readText(data, "status");
  const code = readText(data, "code");
  const result: Json = getOwn(data, "result") ?? null;
  return {
    status: status === "done" || status === "refused" ? status : "failed",
    ...(code !== undefined && Object.hasOwn(errorCodes, code) ? { code: code as ErrorCode } : {}),
    ...omitUndefined({ reason: readText(data, "reason"), ranAs: readText(data, "ranAs") }),
    durationMs: readAmount(data.durationMs),
    bytes: readAmount(data.bytes),
    result,
    isPartial: Object.hasOwn(data, "resultHash") || isAltered(result),
  };
}

function readText(data: JsonObject, key: string): string | undefined {
  const value = getOwn(data, key);
  return typeof value === "string" ? value : undefined;
}

function readAmount(value: unknown): number {
  return typeof value === "number" && value >= 0 ? value : 0;
}

async function createNotFoundError(ledger: Pick<Ledger, "read">, { session, turn }: ReplayQuery): Promise<QmError> {
  const pruned = await findPruned(ledger, session);
  const subject = turn === undefined ? `session ${quoteName(String(session))}` : `turn ${quoteName(turn)}`;
  const where = session === undefined || turn === undefined ? "" : ` in session ${quoteName(session)}`;
  if (pruned !== undefined) {
    const message = `the ledger has no whole call of ${subject}${where}: events before ${pruned} were removed`;
    const hint = "Removed events cannot be replayed. Look for them in the archive, if one was written.";
    return new QmError("not_found", message, { hint, details: { pruned_before: pruned } });
  }
  const hint =
    turn === undefined
      ? "Is it the id of a turn? {qm events} shows the sessions. Give {qm replay <turn> --turn} for a turn."
      : "{qm events --json} shows the turn of every event. {qm replay <session>} replays a whole session.";
  return new QmError("not_found", `the ledger has no ${subject}${where}`, { hint });
}

/** Up to when events were removed: of the session, or of any if it is not known. */
async function findPruned(ledger: Pick<Ledger, "read">, session: string | undefined): Promise<string | undefined> {
  const removals = await ledger.read({ session: SYSTEM_SESSION, type: "ledger.pruned" });
  const last = removals.findLast(({ data }) => {
    const chains = isRecord(data) && Array.isArray(data.chains) ? data.chains.filter(isRecord) : [];
    return chains.some((chain) => session === undefined || chain.session === session);
  });
  return isRecord(last?.data) && typeof last.data.before === "string" ? last.data.before : undefined;
}
