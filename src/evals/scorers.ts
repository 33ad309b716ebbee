import type { JsonSchema } from "../core/action.ts";
import { getErrorMessage } from "../core/errors.ts";
import { canonicalJson, clip, isRecord } from "../core/json.ts";
import { matchesGlob } from "../core/name-patterns.ts";
import { getValidator } from "../core/schema-validator.ts";
import type { RehearsedCall } from "../replay/scripted-call.ts";
import type { CaseExpectations, EvalCase, ExpectedCall } from "./eval-case.ts";
import type { Envelope } from "./subject.ts";

export interface ScoredRun {
  readonly case: EvalCase;
  readonly envelope: Envelope;
  /** In the order in which they were made. */
  readonly calls: readonly RehearsedCall[];
}

export interface Verdict {
  readonly pass: boolean;
  /** From 0 to 1. Default: 1 if it passes, otherwise 0. */
  readonly score?: number;
  readonly why: string;
}

export type Score = Required<Verdict> & Readonly<{ name: string }>;

/** Scores one aspect of a run. Undefined: it does not apply to this case. If it throws, it does not pass. */
export interface Scorer {
  readonly name: string;
  score(run: ScoredRun): Verdict | undefined | Promise<Verdict | undefined>;
}

export const scorers: readonly Scorer[] = [
  createScorer("state", (state, { envelope: { turnState } }) => {
    const pass = turnState === state;
    return { pass, why: pass ? `the turn is ${turnState}` : `expected ${state}, and the turn is ${turnState}` };
  }),
  createScorer("parts", (parts, { envelope }) => {
    const has = (part: unknown) => envelope.parts.some((actual) => matchesExpected(part, actual));
    const checks = parts.map((part) => ({ ok: has(part), what: `no part is like ${formatValue(part)}` }));
    return scoreShare(checks, "every part is present");
  }),
  createScorer("exact", (exact, { envelope: { parts } }) => {
    const pass = canonicalJson(parts) === canonicalJson(exact);
    return { pass, why: pass ? "the parts are as expected" : `the parts are ${formatValue(parts)}` };
  }),
  createScorer("schema", (schemas, { envelope }) => {
    const checks = schemas.flatMap(({ part, schema }) => checkSchemas(schema as JsonSchema, part, envelope));
    return scoreShare(checks, "everything fits its schema");
  }),
  createScorer("called", (called, { calls }) => {
    const checks = called.map(toExpectedCall).map((expected) => {
      const text = formatExpectedCall(expected);
      const count = calls.filter((call) => matchesCall(expected, call)).length;
      if (expected.times === undefined) return { ok: count > 0, what: `${text} was not called` };
      return { ok: count === expected.times, what: `${text} was called ${count} times, not ${expected.times}` };
    });
    return scoreShare(checks, "every call was made");
  }),
  createScorer("notCalled", (called, { calls }) => {
    const checks = called.map(toExpectedCall).map((expected) => {
      const made = calls.find((call) => matchesCall(expected, call));
      const args = made === undefined ? "" : ` with ${formatValue(made.args)}`;
      return { ok: made === undefined, what: `${formatExpectedCall(expected)} was called${args}` };
    });
    return scoreShare(checks, "none of these calls was made");
  }),
];

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

/** Runs a scorer. An error becomes a score of 0. */
export async function runScorer({ name, score }: Scorer, run: ScoredRun): Promise<Score | undefined> {
  try {
    const verdict = await score(run);
    if (verdict === undefined) return undefined;
    const { pass, why, score: given = pass ? 1 : 0 } = verdict;
    const bounded = Number.isFinite(given) ? Math.min(1, Math.max(0, given)) : 0;
    return { name, pass: pass === true, score: bounded, why: clip(String(why), 1000) };
  } catch (thrown) {
    return { name, pass: false, score: 0, why: `the scorer failed: ${getErrorMessage(thrown)}` };
  }
}

type ExpectationCheck = Readonly<{ ok: boolean; what: string }>;

export function scoreShare(checks: readonly ExpectationCheck[], fine: string): Verdict {
  const wrong = checks.filter(({ ok }) => !ok);
  const score = checks.length === 0 ? 1 : (checks.length - wrong.length) / checks.length;
  return { pass: wrong.length === 0, score, why: wrong.map(({ what }) => what).join("; ") || fine };
}

function checkSchemas(schema: JsonSchema, type: string | undefined, { parts }: Envelope): readonly ExpectationCheck[] {
  if (type === undefined) return [checkSchema(schema, parts, "the parts")];
  const selected = parts.filter((part) => part.type === type);
  if (selected.length === 0) return [{ ok: false, what: `there is no part of type ${type}` }];
  return selected.map((part) => checkSchema(schema, part, `the ${type} part`));
}

function checkSchema(schema: JsonSchema, value: unknown, name: string): ExpectationCheck {
  const text = JSON.stringify(value) ?? "null";
  const wrong = getValidator(schema, "result")(JSON.parse(text), text.length);
  return { ok: wrong.length === 0, what: wrong.map(({ path, message }) => `${name}${path} ${message}`).join(", ") };
}

/** Whether the value has everything that is expected. Objects may have further fields, lists no further items. */
function matchesExpected(expected: unknown, value: unknown): boolean {
  if (Array.isArray(expected)) {
    if (!Array.isArray(value) || value.length !== expected.length) return false;
    return expected.every((part, index) => matchesExpected(part, value[index]));
  }
  if (!isRecord(expected)) return Object.is(expected, value);
  if (!isRecord(value)) return false;
  const has = (key: string, part: unknown) => Object.hasOwn(value, key) && matchesExpected(part, value[key]);
  return Object.entries(expected).every(([key, part]) => has(key, part));
}

function toExpectedCall(written: string | ExpectedCall): ExpectedCall {
  return typeof written === "string" ? { name: written } : written;
}

function matchesCall({ name, args, status }: ExpectedCall, { action, asked, ...made }: RehearsedCall): boolean {
  const called = action ?? asked;
  // A registered tool may also be given by its bare name.
  const isNamed = [called, called.replace(/^tool__/, "")].some((spelling) => matchesGlob(name, spelling));
  if (!isNamed || (args !== undefined && !matchesExpected(args, made.args))) return false;
  return status === undefined || made.status === status;
}

function formatExpectedCall({ name, args, status }: ExpectedCall): string {
  return [name, args && `with ${formatValue(args)}`, status].filter(Boolean).join(" ");
}

function formatValue(value: unknown): string {
  return clip(JSON.stringify(value) ?? "nothing", 200);
}
