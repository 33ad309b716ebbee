import type { Rehearsal } from "../replay/rehearse.ts";
import type { Surface } from "../surface/surface.ts";
import type { EvalCase } from "./case.ts";
import type { Envelope } from "./envelope.ts";
import type { Scorer } from "./scorers.ts";

/** What a subject works with. Nothing it calls is really run. */
export interface Stage {
  readonly surface: Surface;
  /** Aborted when the case takes too long, or whoever asked has gone. */
  readonly signal: AbortSignal;
}

/** Whatever is put to the test: it does the work of a case, and answers how the turn ended. May throw. */
export type Subject = (given: EvalCase, stage: Stage) => Envelope | Promise<Envelope>;

/** Makes the recorded calls again, one after the other. */
export async function repeated({ calls }: EvalCase, { invoke }: Pick<Rehearsal, "invoke">): Promise<Envelope> {
  let waits = false;
  for (const { name, args } of calls) {
    const outcome = await invoke(name, args);
    waits ||= outcome.status === "waiting";
  }
  return { parts: [], turnState: waits ? "suspended" : "complete" };
}

/** Of calls that were made again: whether each ended as it did then. */
export const sameOutcomes: Scorer = {
  name: "sameOutcomes",
  score({ case: { calls: recorded }, calls: made }) {
    const wrong = recorded.flatMap(({ name, outcome }, index) => {
      const now = made[index];
      const [before, after] = [
        told(outcome.status, "error" in outcome ? outcome.error.code : undefined),
        told(now?.status ?? "nothing", now?.code),
      ];
      return before === after ? [] : [`${name} was ${before} and is ${after}`];
    });
    const score = recorded.length === 0 ? 1 : (recorded.length - wrong.length) / recorded.length;
    return {
      pass: wrong.length === 0,
      score,
      why: wrong.length === 0 ? "every call ends as it did" : wrong.join("; "),
    };
  },
};

function told(status: string, code: string | undefined): string {
  return code === undefined ? status : `${status} (${code})`;
}
