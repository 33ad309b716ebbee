import { type ASTNode, Environment } from "@marcbachmann/cel-js";
import { getErrorMessage, QmError } from "./errors.ts";
import { meterExpression } from "./expression-metering.ts";
import { clip, isRecord } from "./json.ts";
import { WORK_LIMIT, type WorkBudget, WorkExceeded } from "./work-budget.ts";

/** A compiled CEL condition. */
export interface Condition {
  readonly text: string;
  /** The variables it mentions. */
  readonly mentions: ReadonlySet<string>;
  /**
   * Throws `invalid_expression` when it cannot be evaluated, and `not_evaluated` when it needs more work than the budget
   * has. Callers then fail closed. Without a budget it has the usual one to itself.
   */
  holds(variables: ConditionVariables, budget?: WorkBudget): boolean;
}

export type ConditionVariables = Readonly<Record<string, unknown>>;

/** What a condition about a call may speak of: the action, the actor's configuration, the caller, the arguments. */
export const CALL_VARIABLES = ["tool", "actor", "ctx", "args"] as const;

/** What a condition about a routed event may speak of: the event, the action where it is a call, the actor, the caller. */
export const ROUTE_VARIABLES = ["event", "tool", "actor", "ctx"] as const;

const TEXT_LIMIT = 4096;

/**
 * Compiles a CEL expression over the named variables. It is total and bounded: limits on size and depth when parsed,
 * a work limit when evaluated, no access to prototypes. Beyond the standard it knows `list.includes(x)`, and numbers
 * mix in arithmetic, because JSON numbers arrive as doubles and literals are ints.
 */
export function compileCondition(text: string, variables: readonly string[]): Condition {
  const scope = environment.clone();
  for (const name of variables) scope.registerVariable(name, "dyn");
  return compile(text, scope);
}

/** The same over whatever variables it mentions, for facts whose names nobody knows before. One that is not given cannot be evaluated. */
export function compileOpenCondition(text: string): Condition {
  return compile(text, openEnvironment);
}

function compile(text: string, scope: Environment): Condition {
  if (text.length > TEXT_LIMIT) throw createExpressionError(text, `is longer than ${TEXT_LIMIT} characters`);
  const program = parse(text, scope);
  const checked = program.check();
  if (!checked.valid) throw createExpressionError(text, getFirstLine(checked.error));
  if (checked.type !== "bool" && checked.type !== "dyn")
    throw createExpressionError(text, `gives ${checked.type}, not true or false`);
  const mentions = findVariables(program.ast);
  const evaluateMetered = meter(text, program.ast);

  return {
    text,
    mentions,
    holds(given, budget = { left: WORK_LIMIT }) {
      let answer: unknown;
      try {
        answer = evaluateMetered(budget, () => program(given));
      } catch (thrown) {
        if (budget.left < 0 || thrown instanceof WorkExceeded) throw new WorkExceeded(`expression ${quote(text)}`);
        throw createExpressionError(text, getFirstLine(thrown));
      }
      if (typeof answer !== "boolean") throw createExpressionError(text, "did not give true or false");
      return answer;
    },
  };
}

const environment = new Environment({
  homogeneousAggregateLiterals: false,
  limits: { maxAstNodes: 500, maxDepth: 50, maxListElements: 200, maxMapEntries: 100, maxCallArguments: 8 },
})
  .registerFunction({
    name: "includes",
    receiverType: "list",
    returnType: "bool",
    params: [{ name: "value", type: "dyn" }],
    handler: (list: unknown[], value: unknown) => list.includes(value),
  })
  .registerOperator("double + int: double", (a: number, b: bigint) => a + Number(b))
  .registerOperator("int + double: double", (a: bigint, b: number) => Number(a) + b)
  .registerOperator("double - int: double", (a: number, b: bigint) => a - Number(b))
  .registerOperator("int - double: double", (a: bigint, b: number) => Number(a) - b)
  .registerOperator("double * int: double", (a: number, b: bigint) => a * Number(b))
  .registerOperator("int * double: double", (a: bigint, b: number) => Number(a) * b)
  .registerOperator("double / int: double", (a: number, b: bigint) => a / Number(b))
  .registerOperator("int / double: double", (a: bigint, b: number) => Number(a) / b)
  .registerOperator("double % int: double", (a: number, b: bigint) => a % Number(b))
  .registerOperator("int % double: double", (a: bigint, b: number) => Number(a) % b)
  .registerOperator("double % double: double", (a: number, b: number) => a % b);

const openEnvironment = environment.clone({ unlistedVariablesAreDyn: true });

function parse(text: string, scope: Environment) {
  try {
    return scope.parse(text);
  } catch (thrown) {
    throw createExpressionError(text, getFirstLine(thrown));
  }
}

function meter(text: string, ast: ASTNode): ReturnType<typeof meterExpression> {
  try {
    return meterExpression(ast);
  } catch (thrown) {
    throw createExpressionError(text, getFirstLine(thrown));
  }
}

function findVariables(ast: ASTNode): ReadonlySet<string> {
  const found = new Set<string>();
  const visit = (part: unknown): void => {
    if (Array.isArray(part)) for (const each of part) visit(each);
    if (!isRecord(part) || !("op" in part)) return;
    if (part.op === "id") found.add(String(part.args));
    visit(part.args);
  };
  visit(ast);
  return found;
}

function quote(text: string): string {
  return JSON.stringify(clip(text, 120));
}

function createExpressionError(text: string, problem: string): QmError {
  return new QmError("invalid_expression", `expression ${quote(text)}: ${problem}`);
}

function getFirstLine(thrown: unknown): string {
  return getErrorMessage(thrown).split("\n", 1)[0] ?? "";
}
