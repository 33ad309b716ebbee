import { Environment } from "@marcbachmann/cel-js";
import { getErrorMessage, QmError } from "./errors.ts";
import { meterExpression } from "./expression-metering.ts";
import { clip, isRecord } from "./json.ts";
import { WORK_LIMIT, type WorkBudget, WorkExceeded } from "./work-budget.ts";

export interface Condition {
  readonly text: string;
  readonly mentions: ReadonlySet<string>;
  readonly reads: readonly VariableRead[];
  /** Throws `invalid_expression`, or `not_evaluated` at the work limit. Callers must then fail closed. */
  holds(variables: Readonly<Record<string, unknown>>, budget?: WorkBudget): boolean;
  /** As `holds`, but undefined instead of an error. */
  answer(variables: Readonly<Record<string, unknown>>, budget: WorkBudget): boolean | undefined;
}

/** `field`: read directly, as in `tool.effect` or `args["path"]`. Undefined: the variable is used as a whole. */
export type VariableRead = { readonly variable: string; readonly field: string | undefined };

export const CALL_VARIABLES = ["tool", "actor", "ctx", "args"] as const;

/** The variables of a condition about a routed event. `tool` is set for calls only. */
export const ROUTE_VARIABLES = ["event", "tool", "actor", "ctx"] as const;
const TEXT_LIMIT = 4096;

/**
 * Compiles a CEL expression over the named variables. Its size, depth and work are limited, and it cannot reach
 * prototypes. Beyond the standard it has `list.includes(x)`, and arithmetic may mix doubles and ints, because JSON
 * numbers are doubles and literals are ints.
 */
export function compileCondition(text: string, variables: readonly string[]): Condition {
  const scope = getEnvironment().clone();
  for (const name of variables) scope.registerVariable(name, "dyn");
  return compile(text, scope);
}

/** Compiles an expression over any variables. Evaluation fails if one of them is missing. */
export const compileOpenCondition = (text: string): Condition =>
  compile(text, getEnvironment().clone({ unlistedVariablesAreDyn: true }));

/** The syntax tree of a valid expression. */
export const parseExpression = (text: string): unknown =>
  getEnvironment().clone({ unlistedVariablesAreDyn: true }).parse(text).ast;

function compile(text: string, scope: Environment): Condition {
  const createError = (problem: string) => new QmError("invalid_expression", `expression ${quote(text)}: ${problem}`);
  const attempt = <T>(work: () => T): T => {
    try {
      return work();
    } catch (thrown) {
      throw createError(getFirstLine(thrown));
    }
  };
  if (text.length > TEXT_LIMIT) throw createError(`is longer than ${TEXT_LIMIT} characters`);
  const program = attempt(() => scope.parse(text));
  const checked = program.check();
  if (!checked.valid) throw createError(getFirstLine(checked.error));
  if (checked.type !== "bool" && checked.type !== "dyn") throw createError(`gives ${checked.type}, not true or false`);
  const reads = listReads(program.ast);
  const evaluateMetered = attempt(() => meterExpression(program.ast));
  return {
    text,
    mentions: new Set(reads.map(({ variable }) => variable)),
    reads,
    answer(variables, budget) {
      try {
        const answer = evaluateMetered(budget, () => program(variables));
        return typeof answer === "boolean" ? answer : undefined;
      } catch {
        return undefined;
      }
    },
    holds(variables, budget = { left: WORK_LIMIT }) {
      let answer: unknown;
      try {
        answer = evaluateMetered(budget, () => program(variables));
      } catch (thrown) {
        if (budget.left < 0 || thrown instanceof WorkExceeded) throw new WorkExceeded(`expression ${quote(text)}`);
        throw createError(getFirstLine(thrown));
      }
      if (typeof answer !== "boolean") throw createError("did not give true or false");
      return answer;
    },
  };
}

let environment: Environment | undefined;

function getEnvironment(): Environment {
  environment ??= createEnvironment();
  return environment;
}

function createEnvironment(): Environment {
  const created = new Environment({
    homogeneousAggregateLiterals: false,
    limits: { maxAstNodes: 500, maxDepth: 50, maxListElements: 200, maxMapEntries: 100, maxCallArguments: 8 },
  }).registerFunction({
    name: "includes",
    receiverType: "list",
    returnType: "bool",
    params: [{ name: "value", type: "dyn" }],
    handler: (list: unknown[], value: unknown) => list.includes(value),
  });
  const operators: Record<string, (a: number, b: number) => number> = {
    "+": (a, b) => a + b,
    "-": (a, b) => a - b,
    "*": (a, b) => a * b,
    "/": (a, b) => a / b,
    "%": (a, b) => a % b,
  };
  for (const [sign, apply] of Object.entries(operators)) {
    created.registerOperator(`double ${sign} int: double`, (a: number, b: bigint) => apply(a, Number(b)));
    created.registerOperator(`int ${sign} double: double`, (a: bigint, b: number) => apply(Number(a), b));
  }
  return created.registerOperator("double % double: double", (a: number, b: number) => a % b);
}

export function listReads(ast: unknown): readonly VariableRead[] {
  const found = new Map<string, VariableRead>();
  const add = (variable: string, field: string | undefined) =>
    found.set(JSON.stringify([variable, field]), { variable, field });
  const visit = (part: unknown): void => {
    if (Array.isArray(part)) for (const each of part) visit(each);
    if (!isNode(part)) return;
    if (part.op === "id") add(String(part.args), undefined);
    const [object, key] = Array.isArray(part.args) ? part.args : [];
    const field = part.op === "." ? key : part.op === "[]" && isNode(key) && key.op === "value" ? key.args : undefined;
    if (isNode(object) && object.op === "id" && typeof field === "string") add(String(object.args), field);
    else visit(part.args);
  };
  visit(ast);
  return [...found.values()];
}

const isNode = (part: unknown): part is Record<string, unknown> => isRecord(part) && "op" in part;
const quote = (text: string): string => JSON.stringify(clip(text, 120));
const getFirstLine = (thrown: unknown): string => getErrorMessage(thrown).split("\n", 1)[0] ?? "";
