import { type ASTNode, serialize } from "@marcbachmann/cel-js";
import {
  CALL_VARIABLES,
  type Condition,
  compileOpenCondition,
  listReads,
  parseExpression,
  type VariableRead,
} from "./expression.ts";

/** `error`: it fails for these variables. `unknown`: it depends on a variable that is not given. */
export type PartialAnswer = "true" | "false" | "error" | "unknown";

type FieldRead = VariableRead & { readonly field: string };

export interface ExpressionAnalysis {
  /** The fields it reads directly of its variables, as in `tool.effect` or `args["path"]`. */
  readonly fields: readonly FieldRead[];
  /** Evaluates it with only some of its variables. */
  answer(variables: Readonly<Record<string, unknown>>): PartialAnswer;
}

/** Analyzes a valid condition, for checks of a configuration. Decisions use `Condition.holds`. */
export function analyzeExpression(text: string): ExpressionAnalysis {
  const ast = parseExpression(text) as ASTNode;
  return { fields: listReads(ast).filter(isFieldRead), answer: createEvaluator(ast) };
}

const isFieldRead = (read: VariableRead): read is FieldRead => read.field !== undefined;

/** The fields of a variable without which the condition is false: `'path' in args && …`, `has(args.path) && …`. */
export function listRequiredFields(text: string, variable: string): readonly string[] {
  const isVariable = (node: ASTNode): boolean => node.op === "id" && node.args === variable;
  const visit = (node: ASTNode): readonly string[] => {
    if (node.op === "&&") return node.args.flatMap(visit);
    if (node.op === "in") {
      const [key, object] = node.args;
      return isVariable(object) && key.op === "value" && typeof key.args === "string" ? [key.args] : [];
    }
    if (node.op !== "call" || node.args[0] !== "has") return [];
    const [field] = node.args[1];
    return field?.op === "." && isVariable(field.args[0]) ? [field.args[1]] : [];
  };
  return visit(parseExpression(text) as ASTNode);
}

type Evaluator = ExpressionAnalysis["answer"];

/** Follows `&&`, `||` and `!`, whose result one known side can decide. Other parts are evaluated as a whole. */
function createEvaluator(node: ASTNode): Evaluator {
  if (node.op === "!_") {
    const evaluate = createEvaluator(node.args);
    return (variables) => NEGATED[evaluate(variables)];
  }
  if (node.op === "&&" || node.op === "||") {
    const [left, right] = node.args.map(createEvaluator) as [Evaluator, Evaluator];
    const decisive = node.op === "&&" ? "false" : "true";
    return (variables) => {
      const answers = [left(variables), right(variables)];
      const order: readonly PartialAnswer[] = [decisive, "unknown", "error", NEGATED[decisive]];
      return order.find((answer) => answers.includes(answer)) ?? "unknown";
    };
  }
  const mentioned = listReads(node).map(({ variable }) => variable);
  const needed = CALL_VARIABLES.filter((name) => mentioned.includes(name));
  let condition: Condition | undefined;
  return (variables) => {
    if (needed.some((name) => !Object.hasOwn(variables, name))) return "unknown";
    try {
      condition ??= compileOpenCondition(serialize(node));
      return condition.holds(variables) ? "true" : "false";
    } catch {
      return "error";
    }
  };
}

const NEGATED = { true: "false", false: "true", error: "error", unknown: "unknown" } as const;
