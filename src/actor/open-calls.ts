import type { TurnCallResult } from "../approval/turn-service.ts";
import type { Caller } from "../core/caller.ts";
import { recoverCall } from "../core/recover-call.ts";
import type { ActorServices } from "./actor-services.ts";
import { isRespond } from "./respond.ts";
import type { OpenCall, TurnProgress } from "./turn-progress.ts";

/**
 * The progress of a turn with the results of its open calls, as far as they are known now. A call that is to be made again
 * gets a new id. `isClosing`: no call is made again.
 */
export async function takeResults(
  services: ActorServices,
  progress: TurnProgress,
  caller: Caller,
  results: readonly TurnCallResult[],
  { isClosing = false } = {},
): Promise<TurnProgress> {
  if (progress.open === undefined) return progress;
  const given = new Map(results.map((each) => [each.ref, each]));
  const open = await Promise.all(
    progress.open.map(async (call): Promise<OpenCall> => {
      if (call.text !== undefined || isRespond(call)) return call;
      const result = given.get(call.callId);
      if (result !== undefined && result.repeat === undefined)
        return { ...call, text: result.outcome.value, ok: result.outcome.status === "done" };
      if (result === undefined) {
        const { callId, name } = call;
        const recovered = await recoverCall(services, { callId, name, caller }, (action, hasEnded) =>
          action === undefined ? false : services.isRepeatable(action, caller, hasEnded),
        );
        if (recovered.kind === "ended") return { ...call, text: recovered.text, ok: recovered.isDone };
      }
      return isClosing ? call : { ...call, callId: services.runtime.newId() };
    }),
  );
  return { ...progress, open };
}

/** Withdraws the calls of a cancelled turn that wait for people: approving one later must not run it. */
export async function withdrawCalls(services: ActorServices, { open = [] }: TurnProgress): Promise<void> {
  for (const { approvalId, text } of open)
    if (approvalId !== undefined && text === undefined) await services.withdraw(approvalId, "the turn was cancelled");
}
