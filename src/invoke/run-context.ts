import type { Permit } from "../approval/permits.ts";
import type { Action } from "../core/action.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Call, Door, Progress } from "./invoke.ts";
import { placeOf } from "./places.ts";
import { KeptStream } from "./result.ts";
import type { RunContext } from "./run.ts";

/** What the handler of a call is given beside its arguments. `invoke` is how it calls others: through the same door. */
export function runContext(
  door: Door,
  call: Call,
  action: Action,
  progress: Progress,
  invoke: (door: Door, call: Call, signal?: AbortSignal) => Promise<Outcome>,
): RunContext {
  const { id, caller, via, inside, activation, dialogue } = call;
  const held = new Set([...(inside?.held ?? []), placeOf(action)]);
  const trace = progress.span.carrier();
  return {
    caller,
    callId: id,
    ...(trace.traceparent === undefined ? {} : { trace }),
    ...approvalDecisionOf(progress.permit),
    ...(dialogue === undefined ? {} : { dialogue }),
    sees: (name) => door.viewOf(caller).get(name) !== undefined,
    held: inside?.held,
    async begin() {
      if (!progress.began) await progress.permit?.begin();
      progress.began = true;
    },
    inside: (signal, dialogue) => (name, args) => {
      const place = { callId: id, held };
      const inner = { id: door.runtime.newId(), name, args, caller, via, activation, dialogue, trace, inside: place };
      return invoke(door, inner, signal);
    },
    taken: async (streamed, signal) =>
      new KeptStream(await door.keeper.keepStream(streamed, { caller, callId: id, action: action.name }, signal)),
    settled: (outcome, signal) => door.gatekeeper.settled(outcome, caller, signal),
  };
}

function approvalDecisionOf(permit: Permit | undefined): Pick<RunContext, "approvalDecision"> {
  const { id: approvalId, answer, preview } = permit?.approval ?? {};
  if (approvalId === undefined || answer === undefined) return {};
  const { by, via, at, reason } = answer;
  const said = { ...(reason === undefined ? {} : { reason }), ...(preview === undefined ? {} : { preview }) };
  return { approvalDecision: { approvalId, by, via, at, ...said } };
}
