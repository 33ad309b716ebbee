import type { JsonSchema } from "../core/action.ts";
import { getErrorMessage } from "../core/errors.ts";
import { canonicalJson, clip, getOwn, isRecord } from "../core/json.ts";
import { matchesGlob } from "../core/name-patterns.ts";
import { getValidator } from "../core/schema-validator.ts";
import type { RehearsedCall } from "../replay/scripted-call.ts";
import type { CaseExpectations, EvalCase, ExpectedCall } from "./eval-case.ts";
import type { Envelope } from "./subject.ts";

/** Whether everything that is said of a value is so: fields it does not speak of may be there, items of lists may not. */
function matchesExpected(expected: unknown, value: unknown): boolean {
  if (Array.isArray(expected)) {
    if (!Array.isArray(value) || value.length !== expected.length) return false;
    return expected.every((part, index) => matchesExpected(part, value[index]));
  }
  if (isRecord(expected)) {
    if (!isRecord(value)) return false;
    return Object.entries(expected).every(
      ([key, part]) => Object.hasOwn(value, key) && matchesExpected(part, getOwn(value, key)),
    );
  }
  return Object.is(expected, value);
}

/** An expectation of a call, whichever way it was written. */
function toExpectedCall(written: string | ExpectedCall): ExpectedCall {
  return typeof written === "string" ? { name: written } : written;
}

function matchesCall({ name, args, status }: ExpectedCall, made: RehearsedCall): boolean {
  const isNamed = listCallNames(made).some((spelling) => matchesGlob(name, spelling));
  return (
    isNamed &&
    (args === undefined || matchesExpected(args, made.args)) &&
    (status === undefined || made.status === status)
  );
}

/** A registered tool also goes by its bare name. What was taken for nothing is known by what was written. */
function listCallNames({ action, asked }: RehearsedCall): readonly string[] {
  const name = action ?? asked;
  return name.startsWith(TOOL_PREFIX) ? [name, name.slice(TOOL_PREFIX.length)] : [name];
}

const TOOL_PREFIX = "tool__";

/** What there is to judge. */
export interface ScoredRun {
  readonly case: EvalCase;
  readonly envelope: Envelope;
  /** In the order in which they were made. */
  readonly calls: readonly RehearsedCall[];
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
  createScorer("state", (state, { envelope: { turnState } }) =>
    createVerdict(turnState === state, `the turn is ${turnState}`, `expected ${state}, and the turn is ${turnState}`),
  ),
  createScorer("parts", (parts, { envelope }) =>
    scoreShare(
      parts.map((part) => ({
        ok: envelope.parts.some((given) => matchesExpected(part, given)),
        what: `no part is like ${formatValue(part)}`,
      })),
      "every part is there",
    ),
  ),
  createScorer("exact", (exact, { envelope: { parts } }) =>
    createVerdict(
      canonicalJson(parts) === canonicalJson(exact),
      "the parts are as expected",
      `the parts are ${formatValue(parts)}`,
    ),
  ),
  createScorer("schema", (schemas, { envelope }) =>
    scoreShare(
      schemas.flatMap(({ part, schema }) => checkSchemas(schema as JsonSchema, part, envelope)),
      "everything fits its schema",
    ),
  ),
  createScorer("called", (called, { calls }) =>
    scoreShare(
      called.map(toExpectedCall).map((expected) => checkCalled(expected, calls)),
      "every call was made",
    ),
  ),
  createScorer("notCalled", (called, { calls }) =>
    scoreShare(
      called.map(toExpectedCall).map((expected) => {
        const made = calls.find((call) => matchesCall(expected, call));
        return {
          ok: made === undefined,
          what: `${formatExpectedCall(expected)} was called${made ? ` with ${formatValue(made.args)}` : ""}`,
        };
      }),
      "none of these calls was made",
    ),
  ),
];

/** Asks a scorer, whatever it does. */
export async function runScorer({ name, score }: Scorer, run: ScoredRun): Promise<Score | undefined> {
  try {
    const judged = await score(run);
    if (judged === undefined) return undefined;
    const { pass, why, score: given = pass ? 1 : 0 } = judged;
    const bounded = Number.isFinite(given) ? Math.min(1, Math.max(0, given)) : 0;
    return { name, pass: pass === true, score: bounded, why: clip(String(why), 1000) };
  } catch (thrown) {
    return { name, pass: false, score: 0, why: `the scorer failed: ${getErrorMessage(thrown)}` };
  }
}

function createScorer<Key extends keyof CaseExpectations>(
  name: Key,
  judge: (expected: NonNullable<CaseExpectations[Key]>, run: ScoredRun) => Verdict,
): Scorer {
  return {
    name,
    score(run) {
      const expected = run.case.expected[name];
      return expected === undefined ? undefined : judge(expected as NonNullable<CaseExpectations[Key]>, run);
    },
  };
}

interface ExpectationCheck {
  readonly ok: boolean;
  /** What is wrong where it is not. */
  readonly what: string;
}

function checkCalled(expected: ExpectedCall, calls: readonly RehearsedCall[]): ExpectationCheck {
  const times = calls.filter((call) => matchesCall(expected, call)).length;
  if (expected.times !== undefined)
    return {
      ok: times === expected.times,
      what: `${formatExpectedCall(expected)} was called ${times} times, not ${expected.times}`,
    };
  return { ok: times > 0, what: `${formatExpectedCall(expected)} was not called` };
}

function checkSchemas(schema: JsonSchema, part: string | undefined, { parts }: Envelope): readonly ExpectationCheck[] {
  if (part === undefined) return [checkSchema(schema, parts, "the parts")];
  const meant = parts.filter(({ type }) => type === part);
  if (meant.length === 0) return [{ ok: false, what: `there is no part of type ${part}` }];
  return meant.map((each) => checkSchema(schema, each, `the ${part} part`));
}

function checkSchema(schema: JsonSchema, value: unknown, name: string): ExpectationCheck {
  const text = JSON.stringify(value) ?? "null";
  const wrong = getValidator(schema, "result")(JSON.parse(text), text.length);
  return { ok: wrong.length === 0, what: wrong.map(({ path, message }) => `${name}${path} ${message}`).join(", ") };
}

function scoreShare(checks: readonly ExpectationCheck[], fine: string): Verdict {
  const wrong = checks.filter(({ ok }) => !ok);
  const score = checks.length === 0 ? 1 : (checks.length - wrong.length) / checks.length;
  return { pass: wrong.length === 0, score, why: wrong.length === 0 ? fine : wrong.map(({ what }) => what).join("; ") };
}

function createVerdict(pass: boolean, fine: string, wrong: string): Verdict {
  return { pass, why: pass ? fine : wrong };
}

function formatExpectedCall({ name, args, status }: ExpectedCall): string {
  return [name, args === undefined ? "" : `with ${formatValue(args)}`, status ?? ""]
    .filter((text) => text !== "")
    .join(" ");
}

function formatValue(value: unknown): string {
  return clip(JSON.stringify(value) ?? "nothing", 200);
}
