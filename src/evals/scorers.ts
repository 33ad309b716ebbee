import type { JsonSchema } from "../core/action.ts";
import { messageOf } from "../core/errors.ts";
import { canonicalJson, clip } from "../core/json.ts";
import { validatorOf } from "../core/validator.ts";
import type { MadeCall } from "../replay/scripted.ts";
import type { EvalCase, Expected, ExpectedCall } from "./case.ts";
import type { Envelope } from "./envelope.ts";
import { expectedCall, fitsCall, holds } from "./matches.ts";

/** What there is to judge. */
export interface ScoredRun {
  readonly case: EvalCase;
  readonly envelope: Envelope;
  /** In the order in which they were made. */
  readonly calls: readonly MadeCall[];
}

export interface Verdict {
  readonly pass: boolean;
  /** From 0 to 1. Absent: 1 for what passes, else 0. */
  readonly score?: number;
  readonly why: string;
}

export interface Score extends Required<Verdict> {
  readonly name: string;
}

/** Judges one side of a run. Undefined: it has nothing to say about this case. May throw; then it does not pass. */
export interface Scorer {
  readonly name: string;
  score(run: ScoredRun): Verdict | undefined | Promise<Verdict | undefined>;
}

/** The scorers of what a case can expect. */
export const scorers: readonly Scorer[] = [
  scorer("state", (state, { envelope: { turnState } }) =>
    verdict(turnState === state, `the turn is ${turnState}`, `expected ${state}, and the turn is ${turnState}`),
  ),
  scorer("parts", (parts, { envelope }) =>
    share(
      parts.map((part) => ({
        ok: envelope.parts.some((given) => holds(part, given)),
        what: `no part is like ${shown(part)}`,
      })),
      "every part is there",
    ),
  ),
  scorer("exact", (exact, { envelope: { parts } }) =>
    verdict(
      canonicalJson(parts) === canonicalJson(exact),
      "the parts are as expected",
      `the parts are ${shown(parts)}`,
    ),
  ),
  scorer("schema", (schemas, { envelope }) =>
    share(
      schemas.flatMap(({ part, schema }) => schemaChecks(schema as JsonSchema, part, envelope)),
      "everything fits its schema",
    ),
  ),
  scorer("called", (called, { calls }) =>
    share(
      called.map(expectedCall).map((expected) => calledCheck(expected, calls)),
      "every call was made",
    ),
  ),
  scorer("notCalled", (called, { calls }) =>
    share(
      called.map(expectedCall).map((expected) => {
        const made = calls.find((call) => fitsCall(expected, call));
        return {
          ok: made === undefined,
          what: `${nameOf(expected)} was called${made ? ` with ${shown(made.args)}` : ""}`,
        };
      }),
      "none of these calls was made",
    ),
  ),
];

/** Asks a scorer, whatever it does. */
export async function scoreOf({ name, score }: Scorer, run: ScoredRun): Promise<Score | undefined> {
  try {
    const judged = await score(run);
    if (judged === undefined) return undefined;
    const { pass, why, score: given = pass ? 1 : 0 } = judged;
    const bounded = Number.isFinite(given) ? Math.min(1, Math.max(0, given)) : 0;
    return { name, pass: pass === true, score: bounded, why: clip(String(why), 1000) };
  } catch (thrown) {
    return { name, pass: false, score: 0, why: `the scorer failed: ${messageOf(thrown)}` };
  }
}

function scorer<Key extends keyof Expected>(
  name: Key,
  judge: (expected: NonNullable<Expected[Key]>, run: ScoredRun) => Verdict,
): Scorer {
  return {
    name,
    score(run) {
      const expected = run.case.expected[name];
      return expected === undefined ? undefined : judge(expected as NonNullable<Expected[Key]>, run);
    },
  };
}

interface Check {
  readonly ok: boolean;
  /** What is wrong where it is not. */
  readonly what: string;
}

function calledCheck(expected: ExpectedCall, calls: readonly MadeCall[]): Check {
  const times = calls.filter((call) => fitsCall(expected, call)).length;
  if (expected.times !== undefined)
    return {
      ok: times === expected.times,
      what: `${nameOf(expected)} was called ${times} times, not ${expected.times}`,
    };
  return { ok: times > 0, what: `${nameOf(expected)} was not called` };
}

function schemaChecks(schema: JsonSchema, part: string | undefined, { parts }: Envelope): readonly Check[] {
  if (part === undefined) return [schemaCheck(schema, parts, "the parts")];
  const meant = parts.filter(({ type }) => type === part);
  if (meant.length === 0) return [{ ok: false, what: `there is no part of type ${part}` }];
  return meant.map((each) => schemaCheck(schema, each, `the ${part} part`));
}

function schemaCheck(schema: JsonSchema, value: unknown, name: string): Check {
  const text = JSON.stringify(value) ?? "null";
  const wrong = validatorOf(schema, "result")(JSON.parse(text), text.length);
  return { ok: wrong.length === 0, what: wrong.map(({ path, message }) => `${name}${path} ${message}`).join(", ") };
}

function share(checks: readonly Check[], fine: string): Verdict {
  const wrong = checks.filter(({ ok }) => !ok);
  const score = checks.length === 0 ? 1 : (checks.length - wrong.length) / checks.length;
  return { pass: wrong.length === 0, score, why: wrong.length === 0 ? fine : wrong.map(({ what }) => what).join("; ") };
}

function verdict(pass: boolean, fine: string, wrong: string): Verdict {
  return { pass, why: pass ? fine : wrong };
}

function nameOf({ name, args, status }: ExpectedCall): string {
  return [name, args === undefined ? "" : `with ${shown(args)}`, status ?? ""].filter((text) => text !== "").join(" ");
}

function shown(value: unknown): string {
  return clip(JSON.stringify(value) ?? "nothing", 200);
}
