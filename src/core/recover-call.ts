import { type Effect, hasSideEffects } from "./action.ts";
import type { Caller } from "./caller.ts";
import { isRecord, type Json, type JsonObject } from "./json.ts";
import type { Outcome, WaitingOutcome } from "./outcome.ts";

/** A call whose process ended, as the ledger has it. */
export interface FoundCall {
  /** Whether its action may have run. */
  readonly hasBegun: boolean;
  /** The action that was decided on, and its effect. */
  readonly action?: string;
  readonly effect?: Effect;
  /** The approval that it asked for. */
  readonly approvalId?: string;
  /** Tells a model how it ended, if it did. */
  readonly end?: { readonly text: string; readonly isDone: boolean };
}

/** Finds calls that a loop had begun before a crash. */
export interface CallFinder {
  findCall(callId: string): Promise<FoundCall>;
  /** The outcome of an approved, denied or expired call. Undefined: it still waits. */
  findApprovalOutcome(approvalId: string, caller: Caller): Promise<Outcome | undefined>;
}

/** `repeat`: make the call again. It did not run, it waits, or running it again has no effect. */
export type RecoveredCall =
  | { readonly kind: "repeat" }
  | { readonly kind: "ended"; readonly text: string; readonly isDone: boolean };

/**
 * Finds out what became of a call of an earlier process. `isRepeatable`: running the action twice is like running it once;
 * it is told whether the call has ended.
 */
export async function recoverCall(
  finder: CallFinder,
  call: { readonly callId: string; readonly name: string; readonly caller: Caller; readonly approvalId?: string },
  isRepeatable: (action: string | undefined, hasEnded: boolean) => boolean,
): Promise<RecoveredCall> {
  const { callId, caller, approvalId } = call;
  const found: FoundCall = approvalId === undefined ? await finder.findCall(callId) : { approvalId, hasBegun: false };
  if (found.approvalId !== undefined) {
    const outcome = await finder.findApprovalOutcome(found.approvalId, caller);
    if (outcome === undefined) return { kind: "repeat" };
    return { kind: "ended", text: outcome.value, isDone: outcome.status === "done" };
  }
  const isHarmless = found.effect !== undefined && !hasSideEffects(found.effect);
  if (!found.hasBegun || isHarmless || isRepeatable(found.action, found.end !== undefined)) return { kind: "repeat" };
  if (found.end !== undefined) return { kind: "ended", ...found.end };
  const name = found.action ?? call.name;
  const text = `error: this call of ${name} was interrupted. It may have had an effect: look before you try again.`;
  return { kind: "ended", text, isDone: false };
}

/** The arguments for repeating a call whose inner call waits. */
export function addContinuation(args: Json, { progress }: WaitingOutcome): Json {
  const more = isRecord(progress) && isRecord(progress.continue_with) ? progress.continue_with : undefined;
  return more === undefined || !isRecord(args) ? args : ({ ...args, ...more } as JsonObject);
}
