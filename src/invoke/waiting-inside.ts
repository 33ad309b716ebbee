import type { CallContext } from "../core/action.ts";
import { getErrorMessage } from "../core/errors.ts";
import type { Outcome, WaitingOutcome } from "../core/outcome.ts";

/** The end of a handler while a call it made waits for a person. `answered`: what it returned, or why it failed. */
export class WaitingInside {
  readonly outcome: WaitingOutcome;
  readonly answered: unknown;

  constructor(outcome: WaitingOutcome, answered: unknown) {
    this.outcome = outcome;
    this.answered = answered;
  }
}

/** Remembers which calls of a handler wait. A call that is repeated and ends waits no longer. */
export function trackWaiting(call: CallContext["invoke"]) {
  const waiting = new Map<string, WaitingOutcome>();
  return {
    async invoke(name: string, args?: unknown): Promise<Outcome> {
      const outcome = await call(name, args);
      if (outcome.status === "waiting") waiting.set(toCallKey(name, args), outcome);
      else if (waiting.size > 0) waiting.delete(toCallKey(name, args));
      return outcome;
    },
    findWaiting: (): WaitingOutcome | undefined => waiting.values().next().value,
  };
}

function toCallKey(name: string, args: unknown): string {
  try {
    return JSON.stringify([name, args]);
  } catch {
    // Such a call fails and never waits.
    return name;
  }
}

/** A handler that fails while a call of its own waits fails for that reason, or can be repeated after the approval. */
export async function noteWaiting(
  work: Promise<unknown>,
  findWaiting: () => WaitingOutcome | undefined,
): Promise<unknown> {
  let answered: unknown;
  try {
    answered = await work;
  } catch (thrown) {
    if (findWaiting() === undefined) throw thrown;
    answered = { error: getErrorMessage(thrown) };
  }
  const waiting = findWaiting();
  if (waiting === undefined) return answered;
  return new WaitingInside(waiting, answered === waiting ? undefined : answered);
}
