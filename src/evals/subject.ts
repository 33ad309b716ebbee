import { z } from "zod";
import { QmError } from "../core/errors.ts";
import { isLargerThan } from "../core/json.ts";
import type { Rehearsal } from "../replay/rehearsal.ts";
import type { Surface } from "../surface/surface.ts";
import type { EvalCase } from "./eval-case.ts";
import { type Scorer, scoreShare } from "./scorers.ts";

/** A part of an answer: a text, a question, a request for approval. */
export type EnvelopePart = { readonly type: string } & Readonly<Record<string, unknown>>;

export interface Envelope {
  readonly parts: readonly EnvelopePart[];
  /** `complete`, `suspended`, `failed`, `awaiting`, `clarifying`, `error`, `delegated`, `passed`, or a custom state. */
  readonly turnState: string;
  readonly prompt?: { readonly text: string } | { readonly hash: string };
}

const envelopeSchema = z.looseObject({
  parts: z.array(z.looseObject({ type: z.string() })),
  turnState: z.string().min(1),
  prompt: z.union([z.looseObject({ text: z.string() }), z.looseObject({ hash: z.string() })]).optional(),
});

/** Returns a JSON copy of the answer. Throws `invalid_output` if it is no envelope. */
export function parseEnvelope(answered: unknown): Envelope {
  try {
    if (isLargerThan(answered, { nodes: 200_000, depth: 64 })) throw new TypeError("it is too large or cyclic");
    return envelopeSchema.parse(JSON.parse(JSON.stringify(answered) ?? "null")) as Envelope;
  } catch (thrown) {
    const why = thrown instanceof z.ZodError ? formatIssues(thrown) : String(thrown);
    const hint = "Return { parts: [{ type, ... }], turnState: 'complete' }.";
    throw new QmError("invalid_output", `the subject did not return an envelope: ${why}`, { cause: thrown, hint });
  }
}

function formatIssues({ issues }: z.ZodError): string {
  const texts = issues.slice(0, 3).map(({ path, message }) => `${path.join(".") || "it"}: ${message}`);
  return texts.join("; ");
}

/** The environment of a subject. Its calls run no action. */
export interface SubjectContext {
  readonly surface: Surface;
  /** Aborts when the time of the case is up or the evaluation is cancelled. */
  readonly signal: AbortSignal;
}

/** The agent under test: works on a case and returns how the turn ended. May throw. */
export type Subject = (evalCase: EvalCase, context: SubjectContext) => Envelope | Promise<Envelope>;

export async function repeatCalls({ calls }: EvalCase, { invoke }: Pick<Rehearsal, "invoke">): Promise<Envelope> {
  let waits = false;
  for (const { name, args } of calls) {
    const outcome = await invoke(name, args);
    waits ||= outcome.status === "waiting";
  }
  return { parts: [], turnState: waits ? "suspended" : "complete" };
}

/** Checks whether each repeated call ended as recorded. */
export const sameOutcomes: Scorer = {
  name: "sameOutcomes",
  score({ case: { calls: recorded }, calls: made }) {
    const checks = recorded.map(({ name, outcome }, index) => {
      const now = made[index];
      const before = formatStatus(outcome.status, "error" in outcome ? outcome.error.code : undefined);
      const after = formatStatus(now?.status ?? "nothing", now?.code);
      return { ok: before === after, what: `${name} was ${before} and is ${after}` };
    });
    return scoreShare(checks, "every call ends as it did");
  },
};

function formatStatus(status: string, code: string | undefined): string {
  return code === undefined ? status : `${status} (${code})`;
}
