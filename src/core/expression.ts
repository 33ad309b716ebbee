import { type ASTNode, Environment } from "@marcbachmann/cel-js";
import { bounded } from "./bounded.ts";
import { messageOf, QmError } from "./errors.ts";
import { clip, isRecord } from "./json.ts";

/** A compiled CEL condition. */
export interface Condition {
  readonly text: string;
  /** The variables it mentions. */
  readonly mentions: ReadonlySet<string>;
  /** Throws `invalid_expression` when it cannot be evaluated; who asks then fails closed. */
  holds(variables: Variables): boolean;
  /** The same for many, at less than the price of one by one: what cannot be evaluated is answered with why. */
  each(many: readonly Variables[]): readonly (boolean | QmError)[];
}

export type Variables = Readonly<Record<string, unknown>>;

/** What a condition about a call may speak of: the action, the actor's configuration, the caller, the arguments. */
export const CALL_VARIABLES = ["tool", "actor", "ctx", "args"] as const;

/** What a condition about a routed event may speak of: the event, the action where it is a call, the actor, the caller. */
export const ROUTE_VARIABLES = ["event", "tool", "actor", "ctx"] as const;

const TEXT_LIMIT = 4096;
const TIME_LIMIT_MS = 50;
const MOST_LATE = 4;
/** Of one that decides on data, item by item: a machine that is busy for a moment must not lose any. */
const OPEN_TIME_LIMIT_MS = 250;

// What can take longer than the length of its text suggests: the loops, and a backtracking regular expression.
const UNBOUNDED_CALLS = new Set(["all", "exists", "exists_one", "filter", "map", "matches"]);

/**
 * Compiles a CEL expression over the named variables. It is total and bounded: limits on size and depth when parsed,
 * an interrupt when evaluated, no access to prototypes. Beyond the standard it knows `list.includes(x)`, and numbers
 * mix in arithmetic, because JSON numbers arrive as doubles and literals are ints.
 */
export function compileCondition(text: string, variables: readonly string[]): Condition {
  const scope = environment.clone();
  for (const name of variables) scope.registerVariable(name, "dyn");
  return compiled(text, scope, TIME_LIMIT_MS);
}

/** The same over whatever variables it mentions, for facts whose names nobody knows before. One that is not given cannot be evaluated. */
export function compileOpenCondition(text: string): Condition {
  return compiled(text, openEnvironment, OPEN_TIME_LIMIT_MS);
}

function compiled(text: string, scope: Environment, timeLimitMs: number): Condition {
  if (text.length > TEXT_LIMIT) throw invalid(text, `is longer than ${TEXT_LIMIT} characters`);
  const program = parse(text, scope);
  const checked = program.check();
  if (!checked.valid) throw invalid(text, firstLine(checked.error));
  if (checked.type !== "bool" && checked.type !== "dyn")
    throw invalid(text, `gives ${checked.type}, not true or false`);
  const { calls, identifiers } = wordsOf(program.ast);
  const guarded = [...calls].some((call) => UNBOUNDED_CALLS.has(call));

  let lateOnes = 0;
  const late = (): QmError => invalid(text, `took longer than ${timeLimitMs} ms`);
  const within = <T>(work: () => T): T => (guarded ? bounded(timeLimitMs, work, late) : work());
  const holds = (given: Variables): boolean => {
    let answer: unknown;
    try {
      answer = program(given);
    } catch (thrown) {
      throw thrown instanceof QmError ? thrown : invalid(text, firstLine(thrown));
    }
    if (typeof answer !== "boolean") throw invalid(text, "did not give true or false");
    return answer;
  };
  const held = (given: Variables): boolean | QmError => {
    try {
      return holds(given);
    } catch (thrown) {
      return thrown as QmError;
    }
  };

  return {
    text,
    mentions: identifiers,
    holds: (given) => within(() => holds(given)),
    each(many) {
      if (lateOnes === MOST_LATE) return many.map(late);
      try {
        return within(() => many.map(held));
      } catch {
        // One of them takes all the time there is. Each has as much for itself, until it is clear that it is not just one.
        return many.map((given) => {
          try {
            return lateOnes < MOST_LATE ? within(() => held(given)) : late();
          } catch (thrown) {
            lateOnes++;
            return thrown as QmError;
          }
        });
      }
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
    throw invalid(text, firstLine(thrown));
  }
}

function wordsOf(ast: ASTNode): { calls: Set<string>; identifiers: Set<string> } {
  const found = { calls: new Set<string>(), identifiers: new Set<string>() };
  const visit = (part: unknown): void => {
    if (Array.isArray(part)) for (const each of part) visit(each);
    if (!isRecord(part) || !("op" in part)) return;
    const { op, args } = part;
    if (op === "id") found.identifiers.add(String(args));
    if ((op === "rcall" || op === "call") && Array.isArray(args)) found.calls.add(String(args[0]));
    visit(args);
  };
  visit(ast);
  return found;
}

function invalid(text: string, problem: string): QmError {
  return new QmError("invalid_expression", `expression ${JSON.stringify(clip(text, 120))}: ${problem}`);
}

function firstLine(thrown: unknown): string {
  return messageOf(thrown).split("\n", 1)[0] ?? "";
}
