import { z } from "zod";
import { findReferenceProblem, hasReferenceSyntax } from "./references.ts";

/** How documentation writes a reference. */
export const REFERENCE_FORMS = `\`\${env:NAME}\` or \`\${secret:NAME}\``;

export function boundedInteger(from: number, to = Number.MAX_SAFE_INTEGER) {
  const range = to === Number.MAX_SAFE_INTEGER ? `of at least ${from}` : `from ${from} to ${to}`;
  const expected = `expected a whole number ${range}`;
  return z.int(expected).min(from, expected).max(to, expected);
}

/** Text that nothing is filled into: a reference in it would silently stay one, so it is refused. */
export function plainText(what: string) {
  return z
    .string(`expected ${what}`)
    .min(1, `expected ${what}`)
    .refine((value) => !hasReferenceSyntax(value), "a reference cannot be used here");
}

/** Text that is passed to `resolveReference` where it is used. */
export function referenceText(what: string) {
  return z
    .string(`expected ${what}`)
    .min(1, `expected ${what}`)
    .superRefine((value, context) => {
      const problem = findReferenceProblem(value);
      if (problem !== undefined) context.addIssue(problem);
    });
}

/** Text that is a reference and nothing else: a secret has no place in the file. */
export function secretReference() {
  return z
    .string()
    .regex(/^\$\{(?:env|secret):[A-Za-z_][A-Za-z0-9_]*\}$/, `expected ${REFERENCE_FORMS}, not the secret itself`);
}

export function actionPattern() {
  return plainText("the name of an action, or a glob like file__*").regex(/^\S+$/, "expected a name without spaces");
}
