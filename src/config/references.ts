import { QmError } from "../core/errors.ts";
import { getOwn } from "../core/json.ts";
import { quoteName } from "../core/names.ts";

/**
 * What references are filled from: variables by their names, as in `process.env`, and stored secrets as `secret:NAME`.
 */
export type Environment = { readonly [variable: string]: string | undefined };

/**
 * Fills every `${env:NAME}` and `${secret:NAME}` in a configured text. The configuration keeps the text unfilled, so that showing it shows
 * no secret: call this at the point of use and keep the answer out of anything printed.
 *
 * `$${` stands for a plain `${`. What a variable holds is not looked at again. Throws `invalid_config`, naming `key`
 * and what is missing, when one is unset or empty, and when the text holds anything else in `${...}`.
 */
export function resolveReference(text: string, env: Environment, key: string): string {
  const parts = parseParts(text);
  if ("problem" in parts) throw new QmError("invalid_config", `${key}: ${parts.problem}`);
  return parts.parts
    .map((part) => {
      if (typeof part === "string") return part;
      const value = getOwn(env, part.variable);
      if (value === undefined || value === "")
        throw new QmError("invalid_config", `${key}: ${describeMissing(part.variable)}`);
      return value;
    })
    .join("");
}

/** The variables a text refers to, in order. A text with a broken reference refers to none. */
export function listVariables(text: string): readonly string[] {
  const parts = parseParts(text);
  return "problem" in parts ? [] : parts.parts.flatMap((part) => (typeof part === "string" ? [] : [part.variable]));
}

/** What is wrong with the references in a text, or undefined. */
export function findReferenceProblem(text: string): string | undefined {
  const parts = parseParts(text);
  return "problem" in parts ? parts.problem : undefined;
}

/** Whether a text holds what its writer may believe is a reference: `${word:`, not escaped. */
export function hasReferenceSyntax(text: string): boolean {
  return /(?<!\$)\$\{\s*\w+:/.test(text);
}

export function describeMissing(variable: string): string {
  if (!variable.startsWith(SECRET_PREFIX)) return `the environment variable ${variable} is not set, or is empty`;
  const name = variable.slice(SECRET_PREFIX.length);
  return `the secret ${name} is not there; \`qm secrets set ${name}\` stores it`;
}

/** What a stored secret is called among the variables; no variable of a process can be called that. */
export const SECRET_PREFIX = "secret:";

type Part = string | { readonly variable: string };

// An escape, a closed `${...}`, or a `${` that nothing closes.
const REFERENCE_TOKEN = /\$\$\{|\$\{([^}]*)\}|\$\{/g;
const REFERENCE_BODY = /^(?:env:|(?=secret:))((?:secret:)?[A-Za-z_][A-Za-z0-9_]*)$/;

function parseParts(text: string): { readonly parts: readonly Part[] } | { readonly problem: string } {
  const parts: Part[] = [];
  let end = 0;
  for (const token of text.matchAll(REFERENCE_TOKEN)) {
    parts.push(text.slice(end, token.index));
    end = token.index + token[0].length;
    const body = token[1];
    if (token[0] === "$${") parts.push("${");
    else if (body === undefined) return { problem: `a "\${" is never closed; write "$\${" for the text itself` };
    else {
      const variable = REFERENCE_BODY.exec(body)?.[1];
      if (variable === undefined) return { problem: describeBadReference(body) };
      parts.push({ variable });
    }
  }
  parts.push(text.slice(end));
  return { parts };
}

function describeBadReference(body: string): string {
  const scheme = /^([^:]*):/.exec(body)?.[1];
  const known = `there are \${env:NAME} and \${secret:NAME}; write "$\${" for the text itself`;
  if (scheme === undefined) return `${quoteName(`\${${body}}`)} is not a reference; ${known}`;
  if (scheme !== "env" && scheme !== "secret") return `unknown kind of reference ${quoteName(scheme)}; ${known}`;
  const what = scheme === "env" ? "an environment variable" : "a secret";
  return `${quoteName(body.slice(scheme.length + 1))} is not the name of ${what}; use letters, digits and _`;
}
