import { z } from "zod";
import { QmError } from "../core/errors.ts";
import { isLargerThan } from "../core/json.ts";
import type { Rehearsal } from "../replay/rehearsal.ts";
import type { Surface } from "../surface/surface.ts";
import type { EvalCase } from "./eval-case.ts";
import type { Scorer } from "./scorers.ts";

/** One thing that a subject says: a text, a question, a request for approval. */
export type EnvelopePart = { readonly type: string } & Readonly<Record<string, unknown>>;

/** What a subject answers. */
export interface Envelope {
  readonly parts: readonly EnvelopePart[];
  /**
   * How the turn stands: `complete`, `suspended`, `failed`, `awaiting`, `clarifying`, `error`, `delegated`, `passed`, or a
   * word of the subject's own.
   */
  readonly turnState: string;
  /** The prompt that the model was given, or its hash. */
  readonly prompt?: { readonly text: string } | { readonly hash: string };
}

const envelopeSchema = z.looseObject({
  parts: z.array(z.looseObject({ type: z.string() })),
  turnState: z.string().min(1),
  prompt: z.union([z.looseObject({ text: z.string() }), z.looseObject({ hash: z.string() })]).optional(),
});

const LIMITS = { nodes: 200_000, depth: 64 };

/** A copy of what was answered, as JSON has it. Throws `invalid_output` for what is no envelope. */
export function parseEnvelope(answered: unknown): Envelope {
  try {
    if (isLargerThan(answered, LIMITS)) throw new TypeError("it is too large, or has no end");
    return envelopeSchema.parse(JSON.parse(JSON.stringify(answered) ?? "null")) as Envelope;
  } catch (thrown) {
    const why = thrown instanceof z.ZodError ? formatIssues(thrown) : String(thrown);
    throw new QmError("invalid_output", `the subject did not answer an envelope: ${why}`, {
      cause: thrown,
      hint: "Answer { parts: [{ type, ... }], turnState: 'complete' }.",
    });
  }
}

function formatIssues({ issues }: z.ZodError): string {
  return issues
    .slice(0, 3)
    .map(({ path, message }) => `${path.join(".") || "it"}: ${message}`)
    .join("; ");
}

/** What a subject works with. Nothing it calls is really run. */
export interface SubjectContext {
  readonly surface: Surface;
  /** Aborted when the case takes too long, or whoever asked has gone. */
  readonly signal: AbortSignal;
}

/** Whatever is put to the test: it does the work of a case, and answers how the turn ended. May throw. */
export type Subject = (given: EvalCase, stage: SubjectContext) => Envelope | Promise<Envelope>;

/** Makes the recorded calls again, one after the other. */
export async function repeatCalls({ calls }: EvalCase, { invoke }: Pick<Rehearsal, "invoke">): Promise<Envelope> {
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
        formatStatus(outcome.status, "error" in outcome ? outcome.error.code : undefined),
        formatStatus(now?.status ?? "nothing", now?.code),
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

function formatStatus(status: string, code: string | undefined): string {
  return code === undefined ? status : `${status} (${code})`;
}
