import type { ASTNode } from "@marcbachmann/cel-js";
import { LinearPattern } from "./linear-pattern.ts";
import { spend, type WorkBudget } from "./work-budget.ts";

/** What a checked node of the library has beside its public type. `handle` gets the evaluated operands. */
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
/** The fields of a large object are listed anew each time they are counted. */
const FIELD_WORK = 5;
const CHARACTERS_PER_UNIT = 3;
/** Reading a date or a duration, and writing out a date in a time zone. */
const DATE_WORK = 150;
const ZONE_WORK = 5_000;
const ITEMS_PER_UNIT = 8;
/** The built-in search of one text in another compares each pair of characters at worst. */
const PAIRS_PER_UNIT = 32;

/**
 * Makes every node of a checked expression pay for its evaluation: a step, and the size of its operands and result. The
 * library itself puts no limit on loops. Replaces `matches`, which backtracks, by RE2. Returns a function that evaluates on a
 * budget. Throws when a pattern in the expression cannot be used.
 */
export function meterExpression(ast: ASTNode): <T>(budget: WorkBudget, evaluate: () => T) => T {
  let budget: WorkBudget = { left: 0 };
  let sizes = new WeakMap<object, number>();
  let fieldCounts = new WeakMap<object, number>();
  const pay = (units: number): void => spend(budget, units);
  const matches = createMatcher();

  /** Measured once for each object and evaluation: measuring is work, too. */
  function measureSize(value: unknown): number {
    if (typeof value !== "object" || value === null) return measureLength(value) / ITEMS_PER_UNIT;
    let size = sizes.get(value);
    if (size === undefined) {
      size = measureDeepSize(value, budget.left);
      sizes.set(value, size);
      pay(size);
    }
    return size;
  }

  /** Counted once for each object and evaluation. */
  function countFields(value: unknown): number {
    if (typeof value !== "object" || value === null || Array.isArray(value) || ArrayBuffer.isView(value)) return 0;
    let count = fieldCounts.get(value);
    if (count === undefined) {
      count = Object.keys(value).length;
      fieldCounts.set(value, count);
    }
    return count;
  }

  function meter(node: CheckedNode): void {
    const { handle, op, meta } = node;
    const { macro } = meta;
    // Not `node.evaluate` of before: it replaces itself at its first call.
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
        // Errors are dear, and a loop may swallow one in each round.
        budget.left -= ERROR_WORK;
        throw thrown;
      }
      // A loop that collects gives the same growing list in each round.
      if (op === "+" && Array.isArray(result)) pay(2 * result.length);
      else if (op !== "accuPush") pay(measureLength(result) / ITEMS_PER_UNIT);
      return result;
    };
    if (handle === undefined) return;
    if (op === "==" || op === "!=" || op === "in") {
      node.handle = (left, right, ...rest) => {
        pay(op === "in" ? measureSize(left) + measureSize(right) : Math.min(measureSize(left), measureSize(right)));
        return handle(left, right, ...rest);
      };
    }
    if (op === "comprehension") {
      node.handle = (iterable, ...rest) => {
        pay(countFields(iterable) * FIELD_WORK);
        return handle(iterable, ...rest);
      };
    }
    if ((op !== "rcall" && op !== "call") || !Array.isArray(node.args)) return;
    const [name] = node.args as [string];
    if (name === "size") {
      node.handle = (operands, ...rest) => {
        const [value] = operands as readonly unknown[];
        pay(typeof value === "string" ? value.length / CHARACTERS_PER_UNIT : countFields(value) * FIELD_WORK);
        return handle(operands, ...rest);
      };
    }
    if (name === "timestamp" || name === "duration" || name.startsWith("get")) {
      node.handle = (operands, ...rest) => {
        pay((operands as readonly unknown[]).length > 1 ? ZONE_WORK : DATE_WORK);
        return handle(operands, ...rest);
      };
    }
    if (op === "call") return;
    const [, , values] = node.args as [string, CheckedNode, readonly CheckedNode[]];
    if (name === "matches") {
      const [pattern] = values;
      if (pattern?.op === "value") matches.compile(pattern.args);
      node.handle = (operands) => matches.test(operands as readonly unknown[], budget);
    }
    if (["contains", "indexOf", "lastIndexOf", "split"].includes(name)) {
      node.handle = (operands, ...rest) => {
        const [text, part] = operands as readonly unknown[];
        pay((measureLength(text) * measureLength(part)) / PAIRS_PER_UNIT);
        return handle(operands, ...rest);
      };
    }
    if (name === "includes" || name === "join") {
      node.handle = (operands, ...rest) => {
        for (const operand of operands as readonly unknown[]) pay(measureSize(operand));
        return handle(operands, ...rest);
      };
    }
  }

  /** A loop asks its condition before each round. Once the budget is spent, no loop goes on. */
  function meterLoop(loop: { condition?: (value: unknown) => boolean }): void {
    const { condition } = loop;
    if (condition === undefined) return;
    loop.condition = (value) => {
      pay(1);
      return condition(value);
    };
  }

  visitNodes(ast, meter, meterLoop);
  return (given, evaluate) => {
    budget = given;
    sizes = new WeakMap();
    fieldCounts = new WeakMap();
    return evaluate();
  };
}

function createMatcher() {
  const compiled = new Map<unknown, LinearPattern>();
  const compile = (source: unknown): LinearPattern => {
    const pattern = compiled.get(source) ?? (typeof source === "string" ? LinearPattern.compile(source) : "syntax");
    if (pattern === "too_large") throw new Error("the pattern is too large");
    if (pattern === "syntax") throw new Error(`${JSON.stringify(source)} is not an RE2 pattern`);
    if (compiled.size < 32) compiled.set(source, pattern);
    return pattern;
  };
  return {
    compile,
    test([text, source]: readonly unknown[], budget: WorkBudget): boolean {
      if (typeof text !== "string") throw new Error("matches() needs a string");
      return compile(source).test(text, budget);
    },
  };
}

/** Every node that can be evaluated, each once: what macros stand for, and not the macros. */
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

function isNode(part: object): part is CheckedNode {
  return "op" in part && "meta" in part && "evaluate" in part;
}

function measureLength(value: unknown): number {
  if (typeof value === "string" || Array.isArray(value)) return value.length;
  return 0;
}

/** The work of comparing a value with another one. Stops at the limit. */
function measureDeepSize(value: object, limit: number): number {
  let size = 0;
  const open: unknown[] = [value];
  for (let part = open.pop(); part !== undefined && size <= limit; part = open.pop()) {
    size += PART_WORK + measureLength(part) / ITEMS_PER_UNIT;
    if (typeof part === "object" && part !== null) for (const inner of Object.values(part)) open.push(inner ?? 0);
  }
  return size;
}
