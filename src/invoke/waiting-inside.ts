import type { CallContext } from "../core/action.ts";
import { getErrorMessage } from "../core/errors.ts";
import { WithContent } from "../core/handler-result.ts";
import { isRecord } from "../core/json.ts";
import type { Outcome, WaitingOutcome } from "../core/outcome.ts";
import { AnnotatedRecord } from "../distribution/annotated-record.ts";

/** The end of a handler that cannot go on while a call it made waits for a person. `answered`: what it returned, or why it failed. */
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
    async invoke(...[name, args, as]: Parameters<CallContext["invoke"]>): Promise<Outcome> {
      const outcome = await call(name, args, as);
      if (outcome.status === "waiting") waiting.set(toCallKey(name, args), outcome);
      else if (waiting.size > 0) waiting.delete(toCallKey(name, args));
      return outcome;
    },
    waitFor(outcome: WaitingOutcome): void {
      waiting.set(outcome.approval.id, outcome);
    },
    listWaiting: (): readonly WaitingOutcome[] => [...waiting.values()],
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

/**
 * A handler that fails while a call of its own waits fails for that reason, or can be repeated after the approval. A handler
 * with an answer of its own has finished: repeating it would repeat its effects.
 */
export async function noteWaiting(
  work: Promise<unknown>,
  listWaiting: () => readonly WaitingOutcome[],
): Promise<unknown> {
  let answered: unknown;
  try {
    answered = await work;
  } catch (thrown) {
    const [waiting] = listWaiting();
    if (waiting === undefined) throw thrown;
    return new WaitingInside(waiting, { error: getErrorMessage(thrown) });
  }
  const all = listWaiting();
  const passed = all.find((outcome) => isCopy(outcome, answered));
  if (passed !== undefined) return new WaitingInside(passed, undefined);
  const [first] = all;
  return first !== undefined && isUnfinished(answered) ? new WaitingInside(first, answered) : answered;
}

/** Whether a handler passes on the outcome of its call: the outcome, its text, or its facts as a model gets them. */
function isCopy({ approval: { id }, value }: WaitingOutcome, answered: unknown): boolean {
  const data = unwrapAnswer(answered);
  if (!isRecord(data)) return data === value;
  const found = isRecord(data.approval) ? data.approval.id : data.approval_id;
  return data.status === "waiting" && found === id;
}

function isUnfinished(answered: unknown): boolean {
  const data = unwrapAnswer(answered);
  return data === undefined || data === null || (isRecord(data) && data.continue_with !== undefined);
}

function unwrapAnswer(answered: unknown): unknown {
  if (answered instanceof AnnotatedRecord) return answered.record;
  return answered instanceof WithContent ? answered.data : answered;
}
