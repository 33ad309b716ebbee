import { z } from "zod";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { type Condition, compileCondition, ROUTE_VARIABLES } from "../core/expression.ts";
import { clip } from "../core/json.ts";
import { matchesGlob } from "../core/name-patterns.ts";
import { WORK_LIMIT } from "../core/work-budget.ts";
import { TOOL_CALL, TOOL_RESULT } from "./event.ts";

/** Which events, and what becomes of them. Rules are asked in order; the first that fits is the only one that counts. */
export interface RouteRule {
  /** What the ledger and messages call it. Absent: `rule <place>`. */
  readonly name?: string;
  /** A glob. Absent: any source. */
  readonly source?: string;
  /** A glob on the type. Absent: any. */
  readonly event?: string;
  /** CEL over `event` (`source`, `type`, `data`), `tool`, `actor` and `ctx`. Where it fails the rule does not fit. */
  readonly when?: string;
  /** The handler that gets it. For events of the host's only: what was decided on is what runs. */
  readonly to?: string;
  /** For all tries together. */
  readonly deadlineMs?: number;
  readonly retry?: RetryPolicy;
}

export interface RetryPolicy {
  /** All tries, the first one too: 1 to 10. */
  readonly attempts: number;
  /** The pause after the first try; it doubles with each further one, up to 30 seconds. Absent: 200. */
  readonly backoffMs?: number;
}

export type RouteFacts = Readonly<Record<(typeof ROUTE_VARIABLES)[number], unknown>>;

export interface CompiledRoute extends Pick<RouteRule, "to" | "deadlineMs" | "retry"> {
  readonly label: string;
}

/** A set of rules in force. */
export interface RouteTable {
  readonly labels: readonly string[];
  /** The first rule that fits. `facts` is asked at most once, and only where a rule has a condition. */
  first(source: string, type: string, facts: () => RouteFacts): CompiledRoute | undefined;
  /** The first rule that fits a call, without its `to`. */
  firstForCall(source: string, type: string, facts: () => RouteFacts): CompiledRoute | undefined;
}

const RULE_LIMIT = 1000;
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
  .max(RULE_LIMIT);

/** All or nothing. Throws `invalid_config`, or `invalid_expression` for a condition. `say` is told a fault once a rule. */
export function compileRoutes(given: readonly RouteRule[], say: (problem: string) => void): RouteTable {
  const rules = parseRules(given).map((rule, index) => compileRule(rule, rule.name ?? `rule ${index + 1}`));
  const labels = rules.map(({ label }) => label);
  const twice = labels.find((label, index) => labels.indexOf(label) !== index);
  if (twice !== undefined) throw invalidRoutingError(`two rules are called ${JSON.stringify(twice)}`);
  const told = new Set<string>();
  const sayOnce = (label: string, problem: string): void => {
    if (told.has(label)) return;
    told.add(label);
    say(`routing ${label}: ${problem}`);
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
        sayOnce(rule.label, `it does not fit ${type}, because its condition fails there: ${getErrorMessage(thrown)}`);
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
      sayOnce(rule.label, `its "to" does not count for ${type}: no rule can say what a call runs`);
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
    throw invalidRoutingError(
      `${label}: no rule is asked about ${TOOL_RESULT} events`,
      "Use subscribe() to be told of results.",
    );
  }
  if (event.startsWith(TOOL_CALL) && to !== undefined) {
    throw invalidRoutingError(
      `${label}: a call runs what was decided on, so a rule about ${TOOL_CALL} events cannot have "to"`,
      "Leave it out, and use subscribe() to be told of calls.",
    );
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

function invalidRoutingError(problem: string, hint?: string): QmError {
  return new QmError("invalid_config", `routing: ${problem}`, hint === undefined ? {} : { hint });
}
