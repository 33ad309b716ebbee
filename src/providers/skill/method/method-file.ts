import { getErrorMessage } from "../../../core/errors.ts";
import { type Condition, compileCondition } from "../../../core/expression.ts";
import { analyzeExpression } from "../../../core/expression-analysis.ts";
import { isRecord, omitUndefined } from "../../../core/json.ts";
import { matchesGlob } from "../../../core/name-patterns.ts";
import { quoteName } from "../../../core/names.ts";
import { didYouMean } from "../../../core/nearest.ts";
import type { SkillFile, SkillProblem } from "../skill-file.ts";
import { type FieldProblem, type ProblemPlace, readSkillInputs } from "../skill-inputs.ts";
import { type MethodStep, parseSteps, splitToolList } from "./method-steps.ts";

/** A protocol of numbered steps, as its SKILL.md declares it. */
export interface Method {
  readonly steps: readonly MethodStep[];
  /** Names and globs of the actions for steps that name none of their own. */
  readonly tools: readonly string[];
  /** `failed` is always possible and not listed. */
  readonly outcomes: readonly string[];
  /** The names of the values that leave the method. */
  readonly exports: readonly string[];
  readonly accept: readonly Condition[];
  /** Requests to the model in all. */
  readonly budget: number;
}

type Fields = SkillFile["fields"];

export const FAILED = "failed";
/** Outcomes of a method that did not do its work. Conditions that do not mention the outcome are not about these. */
const UNFINISHED: readonly string[] = [FAILED, "inapplicable", "needs_input"];
export const isUnfinished = (outcome: string): boolean => UNFINISHED.includes(outcome);

const DEFAULT_OUTCOMES = ["success"];
const DEFAULT_BUDGET = 16;
const BUDGET_LIMIT = 100;
const STEP_LIMIT = 50;
const LIST_LIMIT = 100;
const PATTERN = /^\S{1,256}$/;
const OUTCOME = /^[a-z][a-z0-9_-]{0,39}$/;
const EXPORT = /^[A-Za-z]\w{0,63}$/;
const VARIABLES = ["outcome", "exports", "notes", "args"];

/** Reads the protocol of a method. Never throws; with a problem of level `error` the method cannot run. */
export function readMethod(
  fields: Fields,
  body: string,
): { readonly method: Method; readonly problems: readonly FieldProblem[] } {
  const { schema, problems: inputProblems } = readSkillInputs(fields, "method");
  const problems: FieldProblem[] = [...inputProblems];
  const report = (rule: string, place: ProblemPlace, message: string, level: SkillProblem["level"] = "error") =>
    problems.push({ rule, level, message, ...place });
  const { steps, problems: stepProblems } = parseSteps(body);
  problems.push(...stepProblems);
  if (steps.length > STEP_LIMIT) report("steps", { bodyLine: 0 }, `more than ${STEP_LIMIT} steps`);
  const tools = readTools(fields.tools, report);
  const outcomes = readNames(fields, "outcomes", OUTCOME, DEFAULT_OUTCOMES, report).filter((name) => name !== FAILED);
  const exports = readNames(fields, "exports", EXPORT, [], report);
  const inputs = isRecord(schema.properties) ? Object.keys(schema.properties) : [];
  const accept = readConditions(fields.accept, { outcomes, exports, inputs }, report);
  const { budget = DEFAULT_BUDGET } = fields;
  const isBudget = typeof budget === "number" && Number.isInteger(budget) && budget >= 1 && budget <= BUDGET_LIMIT;
  if (!isBudget) report("budget", { path: ["budget"] }, `expected a number from 1 to ${BUDGET_LIMIT}`);
  findUnknownOutcomes(body, outcomes, report);
  return { method: { steps, tools, outcomes, exports, accept, budget: isBudget ? budget : DEFAULT_BUDGET }, problems };
}

type Report = (rule: string, place: ProblemPlace, message: string, level?: SkillProblem["level"]) => void;

function readTools(value: unknown, report: Report): readonly string[] {
  const list = typeof value === "string" ? splitToolList(value) : (value ?? []);
  const isList = Array.isArray(list) && list.length <= LIST_LIMIT;
  if (isList && list.every((each): each is string => typeof each === "string" && PATTERN.test(each))) return list;
  report("tools", { path: ["tools"] }, "expected a list of names of actions, or globs such as infospace__*");
  return [];
}

function readNames(
  fields: Fields,
  key: string,
  form: RegExp,
  byDefault: readonly string[],
  report: Report,
): readonly string[] {
  const value = fields[key] ?? byDefault;
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  const isList = list.length > 0 || key === "exports";
  if (isList && list.length <= LIST_LIMIT && list.every((each) => typeof each === "string" && form.test(each)))
    return [...new Set(list as readonly string[])];
  report(key, { path: [key] }, "expected a list of words of letters, digits and _");
  return byDefault;
}

interface DeclaredNames {
  readonly outcomes: readonly string[];
  readonly exports: readonly string[];
  readonly inputs: readonly string[];
}

function readConditions(value: unknown, names: DeclaredNames, report: Report): readonly Condition[] {
  const list: readonly unknown[] = value === undefined ? [] : Array.isArray(value) ? value : [value];
  if (list.length > LIST_LIMIT) report("accept", { path: ["accept"] }, `more than ${LIST_LIMIT} conditions`);
  return list.slice(0, LIST_LIMIT).flatMap((text, at) => {
    const place = { path: Array.isArray(value) ? ["accept", at] : ["accept"] };
    if (typeof text !== "string") {
      report("accept", place, "expected a CEL expression, or a list of them");
      return [];
    }
    try {
      const condition = compileCondition(text, VARIABLES);
      for (const problem of findUndeclared(text, names)) report("accept", place, problem, "warning");
      return [condition];
    } catch (thrown) {
      report("accept", place, getErrorMessage(thrown));
      return [];
    }
  });
}

const OUTCOME_WORD = /\boutcome\s{0,9}[!=]=\s{0,9}["']([^"']{0,80})["']/g;

/** Names in a valid condition that the method does not declare, so that the condition can never be about them. */
function findUndeclared(text: string, { outcomes, exports, inputs }: DeclaredNames): readonly string[] {
  const known: Readonly<Record<string, readonly string[]>> = { exports, notes: exports, args: inputs };
  const fields = analyzeExpression(text).fields.flatMap(({ variable, field }) => {
    const names = Object.hasOwn(known, variable) ? known[variable] : undefined;
    if (names === undefined || names.includes(field)) return [];
    const kind = variable === "args" ? "an input" : "an export";
    return [`${variable}.${field} is not ${kind}${didYouMean(field, names)}`];
  });
  const all = [...outcomes, FAILED];
  const words = [...text.matchAll(OUTCOME_WORD)].map(([, word = ""]) => word).filter((word) => !all.includes(word));
  return [...fields, ...words.map((word) => `${quoteName(word)} is not an outcome${didYouMean(word, all)}`)];
}

const OUTCOME_IN_TEXT = /\boutcome:?\s{1,3}`([a-z][a-z0-9_-]{0,39})`/gi;

function findUnknownOutcomes(body: string, outcomes: readonly string[], report: Report): void {
  const all = [...outcomes, FAILED];
  for (const [at, line] of body.split("\n").entries())
    for (const [, word = ""] of line.matchAll(OUTCOME_IN_TEXT))
      if (!all.includes(word.toLowerCase()))
        report("outcomes", { bodyLine: at }, `${quoteName(word)} is not an outcome${didYouMean(word, all)}`, "warning");
}

/** The problems of a method's file, for lint. */
export const checkMethodSkill = (fields: Fields, body: string): readonly FieldProblem[] =>
  readMethod(fields, body).problems;

/** A method as `qm skills show` prints it. Undefined for skills of other types. */
export function describeMethod({ type, fields, body }: Pick<SkillFile, "type" | "fields" | "body">) {
  if (type !== "method") return undefined;
  const { steps, tools, outcomes, exports, accept, budget } = readMethod(fields, body).method;
  return {
    steps: steps.map(({ title, tools: own = tools, budget }) => omitUndefined({ title, tools: own, budget })),
    outcomes: [...outcomes, FAILED],
    exports,
    accept: accept.map(({ text }) => text),
    budget,
  };
}

/** Tools that are methods themselves and are never offered to a method. For lint: it needs all skills, and the whole file. */
export function findMethodTools(
  { fields, body, bodyLine, type }: SkillFile,
  skills: readonly Pick<SkillFile, "name" | "type">[],
  text: string,
): readonly SkillProblem[] {
  if (type !== "method") return [];
  const { steps, tools } = readMethod(fields, body).method;
  const methods = skills.filter((skill) => skill.type === "method").map(({ name }) => `skill__${name}`);
  const lists = [
    { line: Math.max(1, text.split("\n").findIndex((line) => /^tools\s*:/.test(line)) + 1), patterns: tools },
    ...steps.map(({ tools = [], line }) => ({ line: bodyLine + line, patterns: tools })),
  ];
  return lists.flatMap(({ line, patterns }) =>
    patterns.flatMap((pattern) => {
      const named = methods.find((name) => name === pattern || (pattern !== "*" && matchesGlob(pattern, name)));
      if (named === undefined) return [];
      const message = `${quoteName(pattern)} names the method ${named}; a method cannot call another`;
      return [{ rule: "tools", level: "warning", line, message } as const];
    }),
  );
}
