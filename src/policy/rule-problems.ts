import type { Action, JsonSchema } from "../core/action.ts";
import { analyzeExpression, type ExpressionAnalysis } from "../core/expression-analysis.ts";
import { getOwn, isRecord } from "../core/json.ts";
import { didYouMean } from "../core/nearest.ts";
import { toCallFacts } from "./call-facts.ts";
import type { Policy } from "./policy.ts";

/** `field`: it reads a field that does not exist. `argument`: one that no action has. `always`: it objects to all. */
export type RuleProblem = { readonly kind: "field" | "argument" | "always"; readonly message: string };

/** Finds rules with a mistake. `isComplete`: all actions are known, so that an unknown argument is a mistake. */
export function findRuleProblems(policy: Policy, actions: readonly Action[], isComplete: boolean) {
  const [first] = actions;
  if (first === undefined) return [];
  const situations = listSituations(policy, actions);
  const fields = listKnownFields(policy, first);
  const rules = policy.rules.map(({ label, condition, effect }) => ({
    place: `rule ${JSON.stringify(label)}`,
    text: condition.text,
    objects: effect,
  }));
  const approvals = [...policy.approvals.categories].flatMap(([category, rule]) =>
    typeof rule !== "object"
      ? []
      : [{ place: `approvals.categories.${category}.auto_approve_if`, text: rule.autoApproveIf, objects: undefined }],
  );
  return [...rules, ...approvals].flatMap(({ place, text, objects }): readonly RuleProblem[] => {
    const analysis = analyzeExpression(text);
    const unknown = findUnknownFields(analysis, fields);
    if (unknown.length > 0) return unknown.map((what) => ({ kind: "field", message: `${place} reads ${what}` }));
    const missing = isComplete ? findUnknownArguments(analysis, situations) : [];
    if (missing.length > 0) return missing.map((what) => ({ kind: "argument", message: `${place} reads ${what}` }));
    if (objects === undefined || !situations.every(({ facts }) => isObjection(analysis, facts))) return [];
    return [{ kind: "always", message: `${place} ${EFFECT_VERBS[objects]} every action for every actor` }];
  });
}

const EFFECT_VERBS = { hide: "hides", deny: "denies", ask: "asks about" } as const;

/** Every action for every actor, without `args` and `ctx`: these are known only in a call. */
function listSituations({ actors }: Policy, actions: readonly Action[]) {
  return actions.flatMap((action) =>
    [...actors.values()].map((actor) => {
      const { tool, actor: facts } = toCallFacts(action, { actor: actor.name, session: "" }, actor);
      return { action, facts: { tool, actor: facts } };
    }),
  );
}

type Situation = ReturnType<typeof listSituations>[number];

/** A rule that fails counts as true. */
function isObjection(analysis: ExpressionAnalysis, facts: Situation["facts"]): boolean {
  return ["true", "error"].includes(analysis.answer(facts));
}

function listKnownFields({ actors }: Policy, action: Action): ReadonlyMap<string, readonly string[]> {
  const { tool, ctx } = toCallFacts(action, { actor: "", session: "" }, undefined);
  const actorFields = [...actors.values()].flatMap(({ facts }) => Object.keys(facts));
  return new Map([
    ["tool", Object.keys(tool)],
    ["ctx", Object.keys(ctx)],
    ["actor", [...new Set(["name", "scope", ...actorFields])]],
  ]);
}

function findUnknownFields({ fields }: ExpressionAnalysis, known: ReadonlyMap<string, readonly string[]>) {
  return fields.flatMap(({ variable, field }) => {
    const names = known.get(variable);
    if (names === undefined || names.includes(field)) return [];
    return [`${variable}.${field}, which does not exist${didYouMean(field, names)}`];
  });
}

/** Arguments that no action has to which the rule can apply. */
function findUnknownArguments(analysis: ExpressionAnalysis, situations: readonly Situation[]): readonly string[] {
  const read = analysis.fields.filter(({ variable }) => variable === "args");
  if (read.length === 0) return [];
  const reached = new Set(
    situations.filter(({ facts }) => analysis.answer(facts) !== "false").map(({ action }) => action),
  );
  const schemas = [...reached].map((action) => listArguments(action.inputSchema));
  const names = new Set(schemas.flatMap((schema) => schema.names));
  if (reached.size === 0 || schemas.some(({ isOpen }) => isOpen)) return [];
  return read
    .filter(({ field }) => !names.has(field))
    .map(({ field }) => `args.${field}, which no action it applies to has${didYouMean(field, names)}`);
}

/** `isOpen`: the schema accepts arguments that it does not name. */
function listArguments(schema: JsonSchema): { readonly names: readonly string[]; readonly isOpen: boolean } {
  const parts = ["allOf", "anyOf", "oneOf"].flatMap((keyword) => {
    const listed = getOwn(schema, keyword);
    return Array.isArray(listed) ? listed.filter(isRecord).map((part) => listArguments(part as JsonSchema)) : [];
  });
  const { properties, additionalProperties } = schema;
  const own = isRecord(properties) ? Object.keys(properties) : [];
  const isOpen =
    additionalProperties === true ||
    isRecord(additionalProperties) ||
    Object.hasOwn(schema, "patternProperties") ||
    (properties === undefined && parts.length === 0 && additionalProperties !== false);
  return {
    names: [...own, ...parts.flatMap(({ names }) => names)],
    isOpen: isOpen || Object.hasOwn(schema, "$ref") || parts.some((part) => part.isOpen),
  };
}
