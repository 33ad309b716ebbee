import { QmError } from "../../../core/errors.ts";

const SECRET_PARAMETER = /(?:^|[^a-z])(?:api)?(?:key|token|secret|password|passwd|pwd|auth|credentials?)$/i;
const REFERENCE = /^\$\{(?:env|secret):/;

/** A URL is shown, logged and written down: a secret in it is told to everybody. Throws `invalid_arguments`. */
export function requireNoSecret(text: string): void {
  if (!URL.canParse(text)) return;
  const { username, password, searchParams } = new URL(text);
  const parameter = [...searchParams].find(([name, value]) => isSecretName(name) && !REFERENCE.test(value))?.[0];
  if (username === "" && password === "" && parameter === undefined) return;
  const what = parameter === undefined ? "a name or a password" : `a secret, as ${JSON.stringify(parameter)}`;
  throw new QmError("invalid_arguments", `the URL holds ${what}`, {
    hint: `Store it with \`qm secrets set NAME\`, and give --header 'Authorization=Bearer \${secret:NAME}'.`,
  });
}

function isSecretName(name: string): boolean {
  return SECRET_PARAMETER.test(name.replace(/([a-z0-9])([A-Z])/g, "$1_$2"));
}

// Labels that say what a host is for, and suffixes of two labels.
const COMMON = /^(?:mcp|api|www|app|server|remote|gateway)$/;
const SECOND_LEVEL = /^(?:ac|co|com|edu|gov|net|or|org)$/;

/** What a server at that URL is called: `https://mcp.linear.app/sse` → `linear`. Undefined: its host says nothing. */
export function nameOfUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const labels = new URL(text).hostname.split(".");
  const last = labels.pop() ?? "";
  // An address of numbers, or one name alone, as localhost.
  if (!/^[a-z]/.test(last) || labels.length === 0) return undefined;
  if (last.length === 2 && labels.length > 1 && SECOND_LEVEL.test(labels.at(-1) ?? "")) labels.pop();
  const name = labels.findLast((label) => !COMMON.test(label)) ?? labels.at(-1);
  return name !== undefined && /^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name) ? name.slice(0, 40) : undefined;
}
