import { type ASTNode, serialize } from "@marcbachmann/cel-js";
import { CALL_VARIABLES, type Condition, compileOpenCondition, findVariables, parseExpression } from "./expression.ts";
import { isRecord } from "./json.ts";

/** `error`: it fails for these variables. `unknown`: it depends on a variable that is not given. */
export type PartialAnswer = "true" | "false" | "error" | "unknown";

export interface ExpressionAnalysis {
  /** The fields it reads directly of its variables, as in `tool.effect` or `args["path"]`. */
  readonly fields: readonly { readonly variable: string; readonly field: string }[];
  /** Evaluates it with only some of its variables. */
  answer(variables: Readonly<Record<string, unknown>>): PartialAnswer;
}

/** Analyzes a valid condition, for checks of a configuration. Decisions use `Condition.holds`. */
export function analyzeExpression(text: string): ExpressionAnalysis {
  const ast = parseExpression(text) as ASTNode;
  return { fields: listFields(ast), answer: createEvaluator(ast) };
}

function listFields(ast: ASTNode): ExpressionAnalysis["fields"] {
  const found = new Map<string, { variable: string; field: string }>();
  const visit = (part: unknown): void => {
    if (Array.isArray(part)) for (const each of part) visit(each);
    if (!isNode(part)) return;
    const [object, key] = Array.isArray(part.args) ? part.args : [];
    const field = part.op === "." ? key : part.op === "[]" && isNode(key) && key.op === "value" ? key.args : undefined;
    if (isNode(object) && object.op === "id" && typeof field === "string")
      found.set(`${object.args}.${field}`, { variable: String(object.args), field });
    visit(part.args);
  };
  visit(ast);
  return [...found.values()];
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
  const mentioned = findVariables(node);
  const needed = CALL_VARIABLES.filter((name) => mentioned.has(name));
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
const isNode = (part: unknown): part is ASTNode => isRecord(part) && "op" in part;
