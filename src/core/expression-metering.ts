import type { ASTNode } from "@marcbachmann/cel-js";
import { getOrCreate } from "./json.ts";
import { LinearPattern } from "./linear-pattern.ts";
import { spend, type WorkBudget } from "./work-budget.ts";

/** A checked node of the library, with the members its public type leaves out. `handle` gets the evaluated operands. */
interface CheckedNode {
  readonly op: string;
  readonly args: unknown;
  readonly meta: {
    readonly alternate?: CheckedNode;
    readonly macro?: { evaluate: Evaluate };
    readonly evaluate: Evaluate;
  };
  evaluate: Evaluate;
  handle?: (...operands: unknown[]) => unknown;
}

type Evaluate = (evaluator: unknown, node: unknown, context: unknown) => unknown;
const STEP_WORK = 8;
const ERROR_WORK = 500;
const PART_WORK = 5;
const FIELD_WORK = 5;
const CHARACTERS_PER_UNIT = 3;
const DATE_WORK = 150;
const ZONE_WORK = 5_000;
const ITEMS_PER_UNIT = 8;
/** In the worst case, the built-in text search compares each pair of characters. */
const PAIRS_PER_UNIT = 32;

/**
 * Charges every node of a checked expression for its evaluation: a step, and the size of its operands and result. The
 * library does not limit loops, and its `matches` backtracks, so RE2 replaces it. Returns a function that evaluates on a
 * budget. Throws for a pattern that cannot be used.
 */
export function meterExpression(ast: ASTNode): <T>(budget: WorkBudget, evaluate: () => T) => T {
  let budget: WorkBudget = { left: 0 };
  // Created when first needed, because most evaluations measure nothing.
  let sizes: WeakMap<object, number> | undefined;
  let fieldCounts: WeakMap<object, number> | undefined;
  const pay = (units: number): void => spend(budget, units);
  const compilePattern = createPatternCompiler();

  /** Cached for each evaluation, because measuring is work, too. */
  function measureSize(value: unknown): number {
    if (typeof value !== "object" || value === null) return measureLength(value) / ITEMS_PER_UNIT;
    sizes ??= new WeakMap();
    return getOrCreate(sizes, value, () => {
      const size = measureDeepSize(value, budget.left);
      pay(size);
      return size;
    });
  }

  function countFields(value: unknown): number {
    if (typeof value !== "object" || value === null || Array.isArray(value) || ArrayBuffer.isView(value)) return 0;
    fieldCounts ??= new WeakMap();
    return getOrCreate(fieldCounts, value, () => Object.keys(value).length);
  }

  function meter(node: CheckedNode): void {
    const { handle, op, meta } = node;
    const { macro } = meta;
    // Not the old `node.evaluate`: it replaces itself at its first call.
    const evaluate: Evaluate =
      macro === undefined
        ? (evaluator, self, context) => meta.evaluate.call(self, evaluator, self, context)
        : (evaluator, _self, context) => macro.evaluate(evaluator, macro, context);
    node.evaluate = (evaluator, self, context) => {
      pay(STEP_WORK);
      let result: unknown;
      try {
        result = evaluate(evaluator, self, context);
      } catch (thrown) {
        // Errors are expensive, and a loop may swallow one in each round.
        budget.left -= ERROR_WORK;
        throw thrown;
      }
      // A collecting loop returns the same growing list in each round.
      if (op === "+" && Array.isArray(result)) pay(2 * result.length);
      else if (op !== "accuPush") pay(measureLength(result) / ITEMS_PER_UNIT);
      return result;
    };
    if (handle === undefined) return;
    const charge = (price: (...operands: unknown[]) => void): void => {
      node.handle = (...operands) => {
        price(...operands);
        return handle(...operands);
      };
    };
    if (op === "==" || op === "!=") charge((left, right) => pay(Math.min(measureSize(left), measureSize(right))));
    if (op === "in") charge((left, right) => pay(measureSize(left) + measureSize(right)));
    if (op === "comprehension") charge((iterable) => pay(countFields(iterable) * FIELD_WORK));
    if ((op !== "rcall" && op !== "call") || !Array.isArray(node.args)) return;
    const [name] = node.args as [string];
    const chargeCall = (price: (operands: readonly unknown[]) => void): void =>
      charge((operands) => price(operands as readonly unknown[]));
    if (name === "size")
      chargeCall(([value]) =>
        pay(typeof value === "string" ? value.length / CHARACTERS_PER_UNIT : countFields(value) * FIELD_WORK),
      );
    if (name === "timestamp" || name === "duration" || name.startsWith("get"))
      chargeCall(({ length }) => pay(length > 1 ? ZONE_WORK : DATE_WORK));
    if (op === "call") return;
    const [, , values] = node.args as [string, CheckedNode, readonly CheckedNode[]];
    if (name === "matches") {
      const [pattern] = values;
      if (pattern?.op === "value") compilePattern(pattern.args);
      node.handle = (operands) => {
        const [text, source] = operands as readonly unknown[];
        if (typeof text !== "string") throw new Error("matches() needs a string");
        return compilePattern(source).test(text, budget);
      };
    }
    if (["contains", "indexOf", "lastIndexOf", "split"].includes(name))
      chargeCall(([text, part]) => pay((measureLength(text) * measureLength(part)) / PAIRS_PER_UNIT));
    if (name === "includes" || name === "join")
      chargeCall((operands) => {
        for (const operand of operands) pay(measureSize(operand));
      });
  }

  /** A loop calls its condition before each round, so none goes on once the budget is spent. */
  function meterLoop(loop: { condition?: (value: unknown) => boolean }): void {
    const { condition } = loop;
    if (condition === undefined) return;
    loop.condition = (value) => {
      pay(1);
      return condition(value);
    };
  }

  visitNodes(ast, meter, meterLoop);
  return (evaluationBudget, evaluate) => {
    budget = evaluationBudget;
    sizes = undefined;
    fieldCounts = undefined;
    return evaluate();
  };
}

function createPatternCompiler() {
  const compiled = new Map<unknown, LinearPattern>();
  return (source: unknown): LinearPattern => {
    const pattern = compiled.get(source) ?? (typeof source === "string" ? LinearPattern.compile(source) : "syntax");
    if (pattern === "too_large") throw new Error("the pattern is too large");
    if (pattern === "syntax") throw new Error(`${JSON.stringify(source)} is not an RE2 pattern`);
    if (compiled.size < 32) compiled.set(source, pattern);
    return pattern;
  };
}

/** Visits every node that can be evaluated once: the expansions of macros, not the macros. */
function visitNodes(root: unknown, meter: (node: CheckedNode) => void, meterLoop: (loop: object) => void): void {
  const seen = new Set<unknown>();
  const visit = (part: unknown): void => {
    if (typeof part !== "object" || part === null || seen.has(part)) return;
    seen.add(part);
    if (Array.isArray(part)) part.forEach(visit);
    else if (!isNode(part)) for (const value of Object.values(part)) visit(value);
    else if (part.meta.alternate !== undefined) visit(part.meta.alternate);
    else {
      visit(part.meta.macro ?? part.args);
      if (part.op === "comprehension") meterLoop(part.args as object);
      meter(part);
    }
  };
  visit(root);
}

const isNode = (part: object): part is CheckedNode => "op" in part && "meta" in part && "evaluate" in part;

const measureLength = (value: unknown) => (typeof value === "string" || Array.isArray(value) ? value.length : 0);

function measureDeepSize(value: object, limit: number): number {
  let size = 0;
  const open: unknown[] = [value];
  for (let part = open.pop(); part !== undefined && size <= limit; part = open.pop()) {
    size += PART_WORK + measureLength(part) / ITEMS_PER_UNIT;
    if (typeof part === "object" && part !== null) for (const inner of Object.values(part)) open.push(inner ?? 0);
  }
  return size;
}
