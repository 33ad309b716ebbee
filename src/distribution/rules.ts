import type { Annotations, FieldAnnotation } from "./annotated-record.ts";
import { type Destination, includesDestination } from "./destination.ts";
import { type FieldPath, parsePath, type Step } from "./field-path.ts";

/** What becomes of a field, the strongest first. */
const treatments = ["hidden", "redacted", "anchored", "validated"] as const;

type Treatment = (typeof treatments)[number];

export interface Rule {
  readonly path: FieldPath;
  readonly treatment: Treatment;
  readonly label?: string | undefined;
}

/** The rules as a tree along the steps of their paths. */
export interface RuleNode {
  /** The strongest for exactly this place. */
  readonly rule?: Rule | undefined;
  readonly next: ReadonlyMap<Step, RuleNode>;
  /** The same without its own rule: what lies in a list need not be written with []. */
  readonly through: RuleNode;
}

/** What a destination is kept from whatever a record's annotations say. */
export interface Withheld {
  readonly hide?: readonly FieldPath[] | undefined;
  readonly redact?: readonly FieldPath[] | undefined;
}

/** The rules of one destination. */
export function rulesFor(
  destination: Destination,
  annotations: Annotations,
  { hide, redact }: Withheld = {},
): RuleNode {
  const annotated = Object.entries(annotations).flatMap(([path, annotation]) => {
    const treatment = treatmentFor(destination, annotation);
    return treatment === undefined ? [] : [{ path, treatment, label: annotation.label }];
  });
  return treeOf([...annotated, ...rulesOf("hidden", hide), ...rulesOf("redacted", redact)]);
}

/** Everything that is not for everybody, whomever it is kept from. */
export function rulesForAnybody(annotations: Annotations, withheld: readonly Withheld[]): RuleNode {
  const paths = Object.entries(annotations)
    .filter(([, { hidden = [], redacted = [], composition }]) => {
      return hidden === true || hidden.length + redacted.length > 0 || composition === "anchored";
    })
    .map(([path]) => path);
  return treeOf(
    rulesOf("hidden", [...paths, ...withheld.flatMap(({ hide = [], redact = [] }) => [...hide, ...redact])]),
  );
}

export function stronger(a: Rule | undefined, b: Rule | undefined): Rule | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return treatments.indexOf(b.treatment) < treatments.indexOf(a.treatment) ? b : a;
}

/** What an annotation means for one destination, alone. */
export function treatmentFor(destination: Destination, annotation: FieldAnnotation): Treatment | undefined {
  const { hidden = [], redacted = [], composition } = annotation;
  if (hidden === true || includesDestination(hidden, destination)) return "hidden";
  if (includesDestination(redacted, destination)) return "redacted";
  // Only a model restates what it is shown.
  return destination === "llm-session" && composition !== "narrative" ? composition : undefined;
}

function rulesOf(treatment: Treatment, paths: readonly FieldPath[] = []): readonly Rule[] {
  return paths.map((path) => ({ path, treatment }));
}

interface GrowingNode extends RuleNode {
  rule: Rule | undefined;
  readonly next: Map<Step, GrowingNode>;
}

function treeOf(rules: readonly Rule[]): RuleNode {
  const root = growingNode();
  for (const rule of rules) {
    let node = root;
    for (const step of parsePath(rule.path) ?? []) {
      const next = node.next.get(step) ?? growingNode();
      node.next.set(step, next);
      node = next;
    }
    node.rule = stronger(node.rule, rule);
  }
  return root;
}

function growingNode(): GrowingNode {
  const next = new Map<Step, GrowingNode>();
  const through: { next: typeof next; through: RuleNode } = { next, through: undefined as never };
  through.through = through;
  return { rule: undefined, next, through };
}
