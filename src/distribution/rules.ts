import { type Annotations, type Destination, type FieldAnnotation, includesDestination } from "./annotated-record.ts";
import { type FieldPath, type FieldPathStep, parseFieldPath } from "./field-path.ts";

/** The strongest first. */
const treatments = ["hidden", "redacted", "anchored", "validated"] as const;

type Treatment = (typeof treatments)[number];

export interface FieldRule {
  readonly path: FieldPath;
  readonly treatment: Treatment;
  readonly label?: string | undefined;
}

export interface RuleNode {
  /** The strongest rule for exactly this path. */
  readonly rule?: FieldRule | undefined;
  readonly next: ReadonlyMap<FieldPathStep, RuleNode>;
  /** The same node without its rule: a path may leave out the [] of a list. */
  readonly through: RuleNode;
}

export interface WithheldFields {
  readonly hide?: readonly FieldPath[] | undefined;
  readonly redact?: readonly FieldPath[] | undefined;
}

export function buildRules(destination: Destination, annotations: Annotations, { hide, redact }: WithheldFields = {}) {
  const annotated = Object.entries(annotations).flatMap(([path, annotation]) => {
    const treatment = resolveTreatment(destination, annotation);
    return treatment === undefined ? [] : [{ path, treatment, label: annotation.label }];
  });
  return createRuleTree([...annotated, ...createRules("hidden", hide), ...createRules("redacted", redact)]);
}

/** Hides every field that is withheld from any destination. */
export function buildPublicRules(annotations: Annotations, withheld: readonly WithheldFields[]): RuleNode {
  const isWithheld = ({ hidden = [], redacted = [], composition }: FieldAnnotation): boolean =>
    hidden === true || hidden.length + redacted.length > 0 || composition === "anchored";
  const annotated = Object.keys(annotations).filter((path) => isWithheld(annotations[path] ?? {}));
  const configured = withheld.flatMap(({ hide = [], redact = [] }) => [...hide, ...redact]);
  return createRuleTree(createRules("hidden", [...annotated, ...configured]));
}

export function pickStrongerRule(a: FieldRule | undefined, b: FieldRule | undefined): FieldRule | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return treatments.indexOf(b.treatment) < treatments.indexOf(a.treatment) ? b : a;
}

export function resolveTreatment(destination: Destination, annotation: FieldAnnotation): Treatment | undefined {
  const { hidden = [], redacted = [], composition } = annotation;
  if (hidden === true || includesDestination(hidden, destination)) return "hidden";
  if (includesDestination(redacted, destination)) return "redacted";
  // Only a model repeats values.
  return destination === "llm-session" && composition !== "narrative" ? composition : undefined;
}

const createRules = (treatment: Treatment, paths: readonly FieldPath[] = []): readonly FieldRule[] =>
  paths.map((path) => ({ path, treatment }));

interface MutableRuleNode extends RuleNode {
  rule: FieldRule | undefined;
  readonly next: Map<FieldPathStep, MutableRuleNode>;
}

function createRuleTree(rules: readonly FieldRule[]): RuleNode {
  const root = createRuleNode();
  for (const rule of rules) {
    let node = root;
    for (const step of parseFieldPath(rule.path) ?? []) {
      const next = node.next.get(step) ?? createRuleNode();
      node.next.set(step, next);
      node = next;
    }
    node.rule = pickStrongerRule(node.rule, rule);
  }
  return root;
}

function createRuleNode(): MutableRuleNode {
  const next = new Map<FieldPathStep, MutableRuleNode>();
  const through: { next: typeof next; through: RuleNode } = { next, through: undefined as never };
  through.through = through;
  return { rule: undefined, next, through };
}
