import { QmError } from "../core/errors.ts";
import { omitUndefined } from "../core/json.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { type ReplayQuery, readRecorded } from "../replay/read-recorded.ts";
import type { RecordedCall } from "../replay/recorded-call.ts";
import type { ScriptedCall, ScriptedOutcome } from "../replay/scripted-call.ts";
import { type CaseExpectations, type EvalCase, promptHash } from "./eval-case.ts";

/** Facts that the ledger does not have. */
export interface CaseExtras {
  /** Default: the name of the turn or the session. */
  readonly id?: string;
  readonly description?: string;
  readonly messages?: unknown;
  /** The prompt: its text, which is stored with its hash, or only its hash. */
  readonly prompt?: string | { readonly hash: string };
  /** Default: the same actions are called and the turn ends in the same state. */
  readonly expected?: CaseExpectations;
}

/**
 * Creates a case from a recorded turn or session. Calls made by actions are part of the results of those actions. Throws
 * `not_found`, and `invalid_arguments` if there is no call.
 */
export async function recordCase(
  ledger: Pick<Ledger, "read">,
  query: ReplayQuery,
  { id, description, messages, prompt, expected }: CaseExtras = {},
): Promise<EvalCase> {
  const { calls: recorded, session } = await readRecorded(ledger, query);
  const { turn } = query;
  const outer = recorded.filter(({ parent }) => parent === undefined);
  const [first] = outer;
  if (first === undefined)
    throw new QmError("invalid_arguments", `${turn ?? query.session} has no calls, so there is nothing to repeat`);
  const byId = new Map(recorded.map((call) => [call.callId, call]));
  const calls = outer.flatMap((call) => toScriptedCalls(call, byId.get(call.end?.ranAs ?? "") ?? call));
  return {
    id: id ?? turn ?? session,
    ...omitUndefined({ description, messages, prompt: toCasePrompt(prompt) }),
    caller: first.caller,
    calls,
    expected: expected ?? {
      state: calls.some(({ outcome }) => outcome.status === "waiting") ? "suspended" : "complete",
      called: [...new Set(calls.map(({ name }) => name))],
    },
    source: { session, ...omitUndefined({ turn }) },
  };
}

function toCasePrompt(prompt: CaseExtras["prompt"]): EvalCase["prompt"] {
  return typeof prompt === "string" ? { hash: promptHash(prompt), text: prompt } : prompt && { hash: prompt.hash };
}

/** Empty for a call without a known end. `ran`: the call itself, or the earlier one whose result it got. */
function toScriptedCalls(call: RecordedCall, ran: RecordedCall): readonly ScriptedCall[] {
  const outcome = toScriptedOutcome(ran);
  if (outcome === undefined) return [];
  const { args, filledArgs, asked, decisions } = call;
  const answer = ran.approval?.answer;
  const approvedBy = answer?.decision === "approved" ? answer.by : undefined;
  return [{ name: decisions[0]?.action ?? asked, outcome, ...omitUndefined({ args, filledArgs, approvedBy }) }];
}

function toScriptedOutcome({ end, approval }: RecordedCall): ScriptedOutcome | undefined {
  if (end === undefined) return approval === undefined ? undefined : { status: "waiting" };
  if (end.status === "done") return { status: "done", data: end.result };
  return { status: end.status, error: { code: end.code ?? "internal", error: end.reason ?? "" } };
}
