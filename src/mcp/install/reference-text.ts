import type { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { createInputError } from "./input-error.ts";

/** Text in which references are kept apart, so that plain text can never become a reference. */
export type ReferenceText = readonly (string | TextReference)[];

/** `env:NAME` or `secret:NAME`. */
type TextReference = { readonly reference: string };

// The same syntax as in the configuration: an escape, a reference, or a stray `${`.
const TOKEN = /\$\$\{|\$\{((?:env|secret):[A-Za-z_][A-Za-z0-9_]*)\}|\$\{/g;

/** Parses input in which `${env:NAME}` and `${secret:NAME}` are references. */
export function parseReferenceText(text: string, key: string): ReferenceText {
  const parts: (string | TextReference)[] = [];
  let end = 0;
  for (const token of text.matchAll(TOKEN)) {
    parts.push(text.slice(end, token.index));
    end = token.index + token[0].length;
    if (token[1] !== undefined) parts.push({ reference: token[1] });
    else if (token[0] === "$${") parts.push("${");
    else {
      const hint = `Write \${secret:NAME} or \${env:NAME}, or "$\${" for the text itself.`;
      throw createInputError(`${key}: a "\${" is not a reference`, hint);
    }
  }
  return [...parts, text.slice(end)];
}

/** Text of a publisher, which must not contain references. */
export const createLiteralText = (text: string): ReferenceText => [text];

/** Replaces `{name}` by the result of `lookUp`. Undefined keeps it. */
export function fillTemplate(
  template: string,
  lookUp: (name: string) => ReferenceText | undefined,
  pattern = CURLY,
): ReferenceText {
  const parts: (string | TextReference)[] = [];
  let end = 0;
  for (const token of template.matchAll(pattern)) {
    const value = lookUp(token[1] ?? "");
    if (value === undefined) continue;
    parts.push(template.slice(end, token.index), ...value);
    end = token.index + token[0].length;
  }
  return [...parts, template.slice(end)];
}

const CURLY = /\{([^{}]{1,100})\}/g;

/** Formats it for the configuration: references as they are, every other `${` escaped. */
export function formatReferenceText(text: ReferenceText, key: string): string {
  const parts: (string | TextReference)[] = [];
  for (const part of text) {
    const last = parts.at(-1);
    if (typeof part === "string" && typeof last === "string") parts[parts.length - 1] = last + part;
    else parts.push(part);
  }
  return parts
    .map((part, at) => {
      if (typeof part !== "string") return `\${${part.reference}}`;
      if (part.endsWith("$") && at < parts.length - 1) throw createDollarError(key);
      return part.replaceAll("${", () => "$${");
    })
    .join("");
}

/** The text without its references. */
export const getLiteralText = (text: ReferenceText): string => text.filter((part) => typeof part === "string").join("");

export const hasReference = (text: ReferenceText): boolean => text.some((part) => typeof part !== "string");

function createDollarError(key: string): QmError {
  const hint = "This is not supported. Store the whole value, including the $, as one secret.";
  return createInputError(`${quoteName(key)}: a $ stands directly before a reference`, hint);
}

// Words in a variable name that indicate a secret, unless the last word says otherwise.
const SECRET_WORDS =
  /^(?:apikey|auth|authorization|cookie|credentials?|pass|passphrase|passwd|password|pat|pwd|secrets?|token|bearer)$/;
const SECRET_PAIRS =
  /(?:^|_)(?:access|account|api|auth|encryption|private|signing|service|secret|client)_?keys?(?:_|$)/;
const HARMLESS_ENDINGS =
  /^(?:at|budget|count|dir|disabled|domain|enabled|endpoint|expiry|file|folder|format|host|id|length|limit|max|method|min|mode|name|path|port|provider|region|required|scopes?|size|source|ttl|type|url|uri|user|username|version)$/;

/** Whether the name of a variable or header indicates a secret. */
export function isLikelySecretName(name: string): boolean {
  const words = name
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== "");
  if (HARMLESS_ENDINGS.test(words.at(-1) ?? "")) return false;
  return words.some((word) => SECRET_WORDS.test(word)) || SECRET_PAIRS.test(words.join("_"));
}

// Prefixes of well-known API keys.
const SECRET_TEXTS: readonly RegExp[] = [
  /\b(?:sk|pk|rk)[-_](?:[a-z]{1,12}[-_]){0,4}[A-Za-z0-9]{16,}/,
  /\bgh[pousr]_[A-Za-z0-9]{20,}/,
  /\bgithub_pat_[A-Za-z0-9_]{20,}/,
  /\bglpat-[A-Za-z0-9_-]{16,}/,
  /\bxox[abeoprs]-[A-Za-z0-9-]{10,}/,
  /\b(?:AKIA|ASIA)[A-Z0-9]{16}\b/,
  /\bAIza[A-Za-z0-9_-]{30,}/,
  /\bpat[A-Za-z0-9]{10,}\.[a-f0-9]{32,}/,
  /\bnpm_[A-Za-z0-9]{30,}/,
  /\bhf_[A-Za-z0-9]{20,}/,
  /\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}/,
  /-----BEGIN [A-Z ]*PRIVATE KEY-----/,
  /\b[a-z][a-z0-9+.-]{0,30}:\/\/[^\s/:@]{1,200}:[^\s/@]{1,500}@/,
  /--?(?:api-?key|token|password|secret|auth)=\S{6,}/i,
];

/** Whether a text contains something that can only be a secret. */
const isLikelySecretText = (text: string): boolean => SECRET_TEXTS.some((pattern) => pattern.test(text));

// Text that may surround a reference in a secret: `Bearer `, `token=`.
const AROUND_REFERENCE = /^[A-Za-z-]{0,20}[ :=]{0,2}$/;

/** Throws `invalid_arguments` for a secret in plain text, without quoting it. */
export function requireReference(text: ReferenceText, key: string, isSecret: boolean): void {
  const words = getLiteralText(text);
  if (isSecret && !(hasReference(text) && AROUND_REFERENCE.test(words)) && words !== "")
    throw createPlainSecretError(key);
  if (isLikelySecretText(words)) throw createPlainSecretError(key);
}

/** Names the stored secret after the input, with the server's name if that is too short. */
export function suggestSecretName(key: string, server: string): string {
  const name = toUpperSnake(key);
  const general =
    /^(?:X_)?(?:(?:API|ACCESS|APP|AUTH|BEARER|CLIENT|MCP|PRIVATE|SECRET|USER|DB|DATABASE|ADMIN)_?)*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PAT|AUTHORIZATION|AUTH|CREDENTIALS?|ID|URL|URI)$/;
  return general.test(name) ? `${toUpperSnake(server)}_${name}` : name;
}

function toUpperSnake(text: string): string {
  const snake = text.replace(/[^A-Za-z0-9]+/g, "_").replace(/^_+|_+$/g, "");
  const name = snake.toUpperCase();
  return /^[A-Z]/.test(name) ? name : `_${name}`;
}

function createPlainSecretError(key: string): QmError {
  const store = `Let a person store it in Quartermaster, and pass \${secret:NAME}. Run {qm secrets set NAME}.`;
  const hint = `Nothing of it was stored. ${store} Replace the exposed secret.`;
  return createInputError(`${quoteName(key)} looks like a secret in plain text`, hint);
}
