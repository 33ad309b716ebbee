import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import { hasReference, type ReferringText, wordsOf } from "./referring-text.ts";

// Words of a variable's name that say its value is a secret, unless the last one says that it is only about one.
const SECRET_WORDS =
  /^(?:apikey|auth|authorization|cookie|credentials?|pass|passphrase|passwd|password|pat|pwd|secrets?|token|bearer)$/;
const SECRET_PAIRS =
  /(?:^|_)(?:access|account|api|auth|encryption|private|signing|service|secret|client)_?keys?(?:_|$)/;
const ABOUT =
  /^(?:at|budget|count|dir|disabled|domain|enabled|endpoint|expiry|file|folder|format|host|id|length|limit|max|method|min|mode|name|path|port|provider|region|required|scopes?|size|source|ttl|type|url|uri|user|username|version)$/;

/** Whether a variable or a header of this name holds a secret, as far as its name tells. */
export function looksSecretName(name: string): boolean {
  const words = name
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== "");
  if (ABOUT.test(words.at(-1) ?? "")) return false;
  return words.some((word) => SECRET_WORDS.test(word)) || SECRET_PAIRS.test(words.join("_"));
}

// How keys of well-known services begin, and what is only ever a key.
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

/** Whether a text holds what can only be a secret, wherever it stands. */
function looksSecretText(text: string): boolean {
  return SECRET_TEXTS.some((pattern) => pattern.test(text));
}

// What may stand beside a reference in a secret: `Bearer `, `token=`.
const AROUND = /^[A-Za-z-]{0,20}[ :=]{0,2}$/;

/** Throws `invalid_arguments` when a secret was given as it is. The message does not hold it. */
export function requireReference(text: ReferringText, key: string, isSecret: boolean): void {
  const words = wordsOf(text);
  if (isSecret && !(hasReference(text) && AROUND.test(words)) && words !== "") throw plainSecret(key);
  if (looksSecretText(words)) throw plainSecret(key);
}

/** What a stored secret for an input is called: like the input, with the server's name where that says too little. */
export function secretNameFor(key: string, server: string): string {
  const name = upper(key);
  return /^(?:X_)?(?:(?:API|ACCESS|APP|AUTH|BEARER|CLIENT|MCP|PRIVATE|SECRET|USER|DB|DATABASE|ADMIN)_?)*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PAT|AUTHORIZATION|AUTH|CREDENTIALS?|ID|URL|URI)$/.test(
    name,
  )
    ? `${upper(server)}_${name}`
    : name;
}

function upper(text: string): string {
  const name = text
    .replace(/[^A-Za-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "")
    .toUpperCase();
  return /^[A-Z]/.test(name) ? name : `_${name}`;
}

function plainSecret(key: string): QmError {
  return new QmError("invalid_arguments", `${quoted(key)} looks like a secret and was given as plain text`, {
    hint: `Nothing was kept of it. Let a person store it with \`qm secrets set NAME\` and give \${secret:NAME}; whoever saw it should replace it.`,
  });
}
