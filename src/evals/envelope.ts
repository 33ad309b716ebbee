import { z } from "zod";
import { QmError } from "../core/errors.ts";
import { outgrows } from "../core/json.ts";

/** One thing that a subject says: a text, a question, a request for approval. */
export type Part = { readonly type: string } & Readonly<Record<string, unknown>>;

/** What a subject answers. */
export interface Envelope {
  readonly parts: readonly Part[];
  /**
   * How the turn stands: `complete`, `suspended`, `failed`, `awaiting`, `clarifying`, `error`, `delegated`, `passed`, or a
   * word of the subject's own.
   */
  readonly turnState: string;
  /** The prompt that the model was given, or its hash. */
  readonly prompt?: { readonly text: string } | { readonly hash: string };
}

const shape = z.looseObject({
  parts: z.array(z.looseObject({ type: z.string() })),
  turnState: z.string().min(1),
  prompt: z.union([z.looseObject({ text: z.string() }), z.looseObject({ hash: z.string() })]).optional(),
});

const LIMITS = { nodes: 200_000, depth: 64 };

/** A copy of what was answered, as JSON has it. Throws `invalid_output` for what is no envelope. */
export function envelopeOf(answered: unknown): Envelope {
  try {
    if (outgrows(answered, LIMITS)) throw new TypeError("it is too large, or has no end");
    return shape.parse(JSON.parse(JSON.stringify(answered) ?? "null")) as Envelope;
  } catch (thrown) {
    const why = thrown instanceof z.ZodError ? issuesOf(thrown) : String(thrown);
    throw new QmError("invalid_output", `the subject did not answer an envelope: ${why}`, {
      cause: thrown,
      hint: "Answer { parts: [{ type, ... }], turnState: 'complete' }.",
    });
  }
}

function issuesOf({ issues }: z.ZodError): string {
  return issues
    .slice(0, 3)
    .map(({ path, message }) => `${path.join(".") || "it"}: ${message}`)
    .join("; ");
}
