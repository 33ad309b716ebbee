import { QmError } from "../core/errors.ts";
import { getOwn } from "../core/json.ts";
import { quoteName } from "../core/names.ts";

/** Values for references: variables by name, as in `process.env`, and stored secrets as `secret:NAME`. */
export type Environment = { readonly [variable: string]: string | undefined };

/**
 * Fills every `${env:NAME}` and `${secret:NAME}` in a configured text. `$${` is a plain `${`. Values are not filled again.
 * Throws `invalid_config` if a value is missing or empty, or if there is another `${...}`. The configuration holds the
 * unfilled text, so that showing it reveals no secret: fill a text where it is used, and never print the result.
 */
export function resolveReference(text: string, env: Environment, key: string): string {
  const parts = parseParts(text);
  if ("problem" in parts) throw new QmError("invalid_config", `${key}: ${parts.problem}`);
  return parts.parts
    .map((part) => {
      if (typeof part === "string") return part;
      const value = getOwn(env, part.variable);
      if (value === undefined || value === "")
        throw new QmError("invalid_config", `${key}: ${describeMissing(part.variable)}`, hintMissing(part.variable));
      return value;
    })
    .join("");
}

/** The variables in a text, in order. Empty if a reference is malformed. */
export function listVariables(text: string): readonly string[] {
  const parts = parseParts(text);
  return "problem" in parts ? [] : parts.parts.flatMap((part) => (typeof part === "string" ? [] : [part.variable]));
}

export function findReferenceProblem(text: string): string | undefined {
  const parts = parseParts(text);
  return "problem" in parts ? parts.problem : undefined;
}

/** Whether a text looks as if it had a reference: an unescaped `${word:`. */
export const hasReferenceSyntax = (text: string): boolean => /(?<!\$)\$\{\s*\w+:/.test(text);

export function describeMissing(variable: string): string {
  if (!variable.startsWith(SECRET_PREFIX)) return `the environment variable ${variable} is not set, or is empty`;
  return `the secret ${variable.slice(SECRET_PREFIX.length)} is missing`;
}

const hintMissing = (variable: string): { readonly hint?: string } =>
  variable.startsWith(SECRET_PREFIX)
    ? { hint: `{qm secrets set ${variable.slice(SECRET_PREFIX.length)}} stores it.` }
    : {};

/** Begins the names of stored secrets. A reference to an environment variable cannot have such a name. */
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
