import { z } from "zod";
import { looksReferring, referenceProblem } from "./references.ts";

/** How documentation writes a reference. */
export const REFERENCE = `\`\${env:NAME}\` or \`\${secret:NAME}\``;

export function whole(from: number, to = Number.MAX_SAFE_INTEGER) {
  const range = to === Number.MAX_SAFE_INTEGER ? `of at least ${from}` : `from ${from} to ${to}`;
  const expected = `expected a whole number ${range}`;
  return z.int(expected).min(from, expected).max(to, expected);
}

/** Text that nothing is filled into: a reference in it would silently stay one, so it is refused. */
export function text(what: string) {
  return z
    .string(`expected ${what}`)
    .min(1, `expected ${what}`)
    .refine((value) => !looksReferring(value), "a reference cannot be used here");
}

/** Text that is passed to `resolveReference` where it is used. */
export function referring(what: string) {
  return z
    .string(`expected ${what}`)
    .min(1, `expected ${what}`)
    .superRefine((value, context) => {
      const problem = referenceProblem(value);
      if (problem !== undefined) context.addIssue(problem);
    });
}

/** Text that is a reference and nothing else: a secret has no place in the file. */
export function secret() {
  return z
    .string()
    .regex(/^\$\{(?:env|secret):[A-Za-z_][A-Za-z0-9_]*\}$/, `expected ${REFERENCE}, not the secret itself`);
}

export function pattern() {
  return text("the name of an action, or a glob like file__*").regex(/^\S+$/, "expected a name without spaces");
}
