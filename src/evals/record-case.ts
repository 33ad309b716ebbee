import { QmError } from "../core/errors.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { type ReplayQuery, readRecorded } from "../replay/read-recorded.ts";
import type { RecordedCall } from "../replay/recorded-call.ts";
import type { ScriptedCall, ScriptedOutcome } from "../replay/scripted-call.ts";
import { type CaseExpectations, type EvalCase, promptHash } from "./eval-case.ts";

/** What the ledger does not know. */
export interface CaseExtras {
  /** Absent: the name of the turn or the session. */
  readonly id?: string;
  readonly description?: string;
  /** What the subject is to be given. */
  readonly messages?: unknown;
  /** The prompt that was in force: its text, which is kept with its hash, or its hash alone. */
  readonly prompt?: string | { readonly hash: string };
  /** Absent: that the same actions are called, with the same state at the end. */
  readonly expected?: CaseExpectations;
}

/**
 * Makes a case of what the ledger has of a turn or a session. Calls that actions made themselves are part of those actions'
 * results. Throws `not_found`, and `invalid_arguments` where it has no call.
 */
export async function recordCase(
  ledger: Pick<Ledger, "read">,
  query: ReplayQuery,
  { id, description, messages, prompt, expected }: CaseExtras = {},
): Promise<EvalCase> {
  const { calls: recorded, session } = await readRecorded(ledger, query);
  const outer = recorded.filter(({ parent }) => parent === undefined);
  const [first] = outer;
  if (first === undefined) {
    throw new QmError("invalid_arguments", `${query.turn ?? query.session} has no call, so there is nothing to repeat`);
  }
  const byId = new Map(recorded.map((call) => [call.callId, call]));
  const calls = outer.flatMap((call) => toScriptedCalls(call, byId.get(call.end?.ranAs ?? "") ?? call));
  return {
    id: id ?? query.turn ?? session,
    ...(description === undefined ? {} : { description }),
    caller: first.caller,
    ...(messages === undefined ? {} : { messages }),
    ...(prompt === undefined ? {} : { prompt: toCasePrompt(prompt) }),
    calls,
    expected: expected ?? deriveExpectations(calls),
    source: { session, ...(query.turn === undefined ? {} : { turn: query.turn }) },
  };
}

function toCasePrompt(prompt: string | { readonly hash: string }): NonNullable<EvalCase["prompt"]> {
  return typeof prompt === "string" ? { hash: promptHash(prompt), text: prompt } : { hash: prompt.hash };
}

/** Nothing of a call whose end nobody knows. `ran`: the call itself, or the one that ran in its place. */
function toScriptedCalls(call: RecordedCall, ran: RecordedCall): readonly ScriptedCall[] {
  const outcome = toScriptedOutcome(ran);
  if (outcome === undefined) return [];
  const { args, filledArgs, asked, decisions } = call;
  const { approval } = ran;
  const approved = approval?.answer?.decision === "approved" ? { approvedBy: approval.answer.by } : {};
  const given = { ...(args === undefined ? {} : { args }), ...(filledArgs === undefined ? {} : { filledArgs }) };
  return [{ name: decisions[0]?.action ?? asked, ...given, outcome, ...approved }];
}

function toScriptedOutcome({ end, approval }: RecordedCall): ScriptedOutcome | undefined {
  if (end === undefined) return approval === undefined ? undefined : { status: "waiting" };
  if (end.status === "done") return { status: "done", data: end.result };
  return { status: end.status, error: { code: end.code ?? "internal", error: end.reason ?? "" } };
}

function deriveExpectations(calls: readonly ScriptedCall[]): CaseExpectations {
  const names = [...new Set(calls.map(({ name }) => name))];
  return {
    state: calls.some(({ outcome }) => outcome.status === "waiting") ? "suspended" : "complete",
    called: names,
  };
}
