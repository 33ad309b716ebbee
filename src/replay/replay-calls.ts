import { QmError } from "../core/errors.ts";
import { omitUndefined } from "../core/json.ts";
import type { ActionCall } from "../invoke/invoke.ts";
import type { ReplayAnswer, ReplayEnvironment, ReplayScript } from "./answer-call.ts";
import { answerCall, createReplayEnvironment } from "./answer-call.ts";
import { type ReplayQuery, readRecorded } from "./read-recorded.ts";
import type { RecordedCall } from "./recorded-call.ts";
import type { ReplayOptions, ReplayParts } from "./replay.ts";
import { compareCall, type ReplayReport } from "./replay-report.ts";

export async function replayRecorded(
  parts: ReplayParts,
  query: ReplayQuery,
  { policy: options, ledger = parts.ledger }: ReplayOptions,
): Promise<ReplayReport> {
  const { session, calls } = await readRecorded(ledger, query);
  const environment = createReplayEnvironment(parts, options);
  const { policy } = environment;
  const answers = await replayCalls(environment, calls);
  const compared = calls.map((call) => compareCall(call, answers.get(call.callId), { policy, exists: parts.exists }));
  const same = compared.filter((call) => call.same).length;
  const uncertain = compared.filter((call) => call.uncertain !== undefined).length;
  const different = compared.length - same - uncertain;
  const summary = { calls: compared.length, same, different, uncertain, realCalls: 0 } as const;
  const { turn } = query;
  return { session, ...omitUndefined({ turn }), policyVersion: policy.version, calls: compared, summary };
}

/** The answer to each repeated call, by call id. */
async function replayCalls(environment: ReplayEnvironment, calls: readonly RecordedCall[]) {
  const answers = new Map<string, ReplayAnswer>();
  const known = new Set(calls.map(({ callId }) => callId));
  // The key undefined has the calls that no other call of this replay made.
  const byParent = new Map<string | undefined, RecordedCall[]>();
  for (const call of calls) {
    const parent = call.parent !== undefined && known.has(call.parent) ? call.parent : undefined;
    const siblings = byParent.get(parent);
    if (siblings === undefined) byParent.set(parent, [call]);
    else siblings.push(call);
  }

  async function replayCall(recorded: RecordedCall, inside?: ActionCall["inside"]): Promise<void> {
    const { callId: id, asked: name, args, caller, via } = recorded;
    const script: ReplayScript = {
      findRecorded: () => recorded,
      filledArgs: () => recorded.filledArgs,
      async inside(place) {
        for (const each of byParent.get(id) ?? []) await replayCall(each, place);
      },
      missing: ({ name }) =>
        new QmError("not_found", `${name} did not run when it was recorded, so its result now is not known`),
    };
    const call = { id, name, args, caller, via, ...omitUndefined({ inside }) };
    const answered = await answerCall(environment, script, call);
    answers.set(id, answered);
    if (!answered.isRun) refundSkipped(recorded);
  }

  /** The recorded call was charged, and so were the calls inside it. */
  function refundSkipped(recorded: RecordedCall): void {
    environment.accounts.refund(recorded);
    for (const each of byParent.get(recorded.callId) ?? []) refundSkipped(each);
  }

  for (const call of byParent.get(undefined) ?? []) await replayCall(call);
  return answers;
}
