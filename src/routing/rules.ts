import { z } from "zod";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { type Condition, compileCondition, ROUTE_VARIABLES } from "../core/expression.ts";
import { clip } from "../core/json.ts";
import { matchesGlob } from "../core/name-patterns.ts";
import { WORK_LIMIT } from "../core/work-budget.ts";
import { TOOL_CALL, TOOL_RESULT } from "./event.ts";

/** Which events, and what happens with them. Only the first rule that fits counts. */
export interface RouteRule {
  /** For the ledger and messages. Default: `rule <number>`. */
  readonly name?: string;
  /** A glob. Default: any source. */
  readonly source?: string;
  /** A glob on the type. Default: any. */
  readonly event?: string;
  /** CEL over `event` (`source`, `type`, `data`), `tool`, `actor` and `ctx`. If it fails, the rule does not fit. */
  readonly when?: string;
  /** The handler of a host event. Ignored for calls: they run what the policy allowed. */
  readonly to?: string;
  /** For all attempts together. */
  readonly deadlineMs?: number;
  readonly retry?: RetryPolicy;
}

export interface RetryPolicy {
  /** Including the first: 1 to 10. */
  readonly attempts: number;
  /** The pause after the first attempt. It doubles each time, up to 30 seconds. Default: 200. */
  readonly backoffMs?: number;
}

export type RouteFacts = Readonly<Record<(typeof ROUTE_VARIABLES)[number], unknown>>;

export interface CompiledRoute extends Pick<RouteRule, "to" | "deadlineMs" | "retry"> {
  readonly label: string;
}

export interface RouteTable {
  readonly labels: readonly string[];
  /** The first rule that fits. `facts` is called at most once, and only for a rule with a condition. */
  first(source: string, type: string, facts: () => RouteFacts): CompiledRoute | undefined;
  /** The first rule that fits a call, without its `to`. */
  firstForCall(source: string, type: string, facts: () => RouteFacts): CompiledRoute | undefined;
}

const DAY_MS = 86_400_000;
export const LONGEST_BACKOFF_MS = 30_000;
const word = z.string().min(1).max(256);
const rulesShape = z
  .array(
    z.strictObject({
      name: word.optional(),
      source: word.optional(),
      event: word.optional(),
      when: z.string().optional(),
      to: word.optional(),
      deadlineMs: z.int().min(1).max(DAY_MS).optional(),
      retry: z
        .strictObject({
          attempts: z.int().min(1).max(10),
          backoffMs: z.int().min(0).max(LONGEST_BACKOFF_MS).optional(),
        })
        .optional(),
    }),
  )
  .max(1000);

/** Throws `invalid_config`, or `invalid_expression` for a condition. Reports the first failure of each rule. */
export function compileRoutes(given: readonly RouteRule[], report: (problem: string) => void): RouteTable {
  const rules = parseRules(given).map((rule, index) => compileRule(rule, rule.name ?? `rule ${index + 1}`));
  const labels = rules.map(({ label }) => label);
  const twice = labels.find((label, index) => labels.indexOf(label) !== index);
  if (twice !== undefined) throw invalidRoutingError(`two rules are called ${JSON.stringify(twice)}`);
  const reported = new Set<string>();
  const reportOnce = (label: string, problem: string): void => {
    if (!reported.has(label)) report(`routing ${label}: ${problem}`);
    reported.add(label);
  };

  function first(source: string, type: string, facts: () => RouteFacts): RouteMatcher | undefined {
    let known: RouteFacts | undefined;
    const budget = { left: WORK_LIMIT };
    return rules.find((rule) => {
      if (rule.source !== undefined && !matchesGlob(rule.source, source)) return false;
      if (rule.event !== undefined && !matchesGlob(rule.event, type)) return false;
      if (rule.condition === undefined) return true;
      try {
        known ??= facts();
        return rule.condition.holds(known, budget);
      } catch (thrown) {
        reportOnce(
          rule.label,
          `it does not fit ${type}, because its condition fails there: ${getErrorMessage(thrown)}`,
        );
        return false;
      }
    });
  }

  return {
    labels,
    first,
    firstForCall(source, type, facts) {
      const rule = first(source, type, facts);
      if (rule?.to === undefined) return rule;
      reportOnce(rule.label, `its "to" does not count for ${type}: a rule cannot change what a call runs`);
      const { to: _ignored, ...rest } = rule;
      return rest;
    },
  };
}

interface RouteMatcher extends CompiledRoute {
  readonly source?: string;
  readonly event?: string;
  readonly condition?: Condition;
}

function compileRule({ name: _name, when, ...rule }: RouteRule, label: string): RouteMatcher {
  const { event = "", to } = rule;
  if (event.startsWith(TOOL_RESULT)) {
    const problem = `${label}: rules do not apply to ${TOOL_RESULT} events`;
    throw invalidRoutingError(problem, "Use subscribe() to be told of results.");
  }
  if (event.startsWith(TOOL_CALL) && to !== undefined) {
    const problem = `a call runs what was decided on, so a rule about ${TOOL_CALL} events cannot have "to"`;
    throw invalidRoutingError(`${label}: ${problem}`, "Leave it out, and use subscribe() to be told of calls.");
  }
  try {
    return { ...rule, label, ...(when === undefined ? {} : { condition: compileCondition(when, ROUTE_VARIABLES) }) };
  } catch (thrown) {
    throw new QmError("invalid_expression", `routing ${label}: ${getErrorMessage(thrown)}`);
  }
}

function parseRules(given: unknown): readonly RouteRule[] {
  let parsed: ReturnType<typeof rulesShape.safeParse>;
  try {
    parsed = rulesShape.safeParse(given);
  } catch (thrown) {
    throw invalidRoutingError(getErrorMessage(thrown));
  }
  if (parsed.success) return parsed.data as readonly RouteRule[];
  const problems = parsed.error.issues.slice(0, 8).map(({ path, message }) => {
    const [index, ...keys] = path;
    const place = index === undefined ? "rules" : [`rule ${Number(index) + 1}`, ...keys.map(String)].join(".");
    return `${place}: ${clip(message, 200)}`;
  });
  throw invalidRoutingError(problems.join("; "));
}

const invalidRoutingError = (problem: string, hint?: string): QmError =>
  new QmError("invalid_config", `routing: ${problem}`, hint === undefined ? {} : { hint });
