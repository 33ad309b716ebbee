import { hash } from "node:crypto";
import type { Runtime } from "../core/runtime.ts";

// What a model copies without a slip: a word, a colon, eight letters and digits of which none looks like another.
const LABEL = "[A-Za-z][A-Za-z0-9_]{0,23}";
const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const ID = `[${ALPHABET}]`;
const ID_LENGTH = 8;

/** A token as models write it, some with a space inside the braces. */
const TOKEN = new RegExp(`\\{\\{ ?(${LABEL}:${ID}{${ID_LENGTH}}) ?\\}\\}`, "g");
const WHOLE_TOKEN = new RegExp(`^${TOKEN.source}$`);
const BEGUN_TOKEN = new RegExp(
  `\\{(?:\\{ ?(?:${LABEL}(?::(?:${ID}{0,${ID_LENGTH - 1}}|${ID}{${ID_LENGTH}} ?\\}?))?)?)?$`,
);
const LONGEST_TOKEN = 24 + ID_LENGTH + "{{ : }}".length;

const FALLBACK_LABEL = "value";

/** A new token, without its braces. Two are never the same but by a chance of one in 2^40. */
export function createAnchorToken(label: string, newId: Runtime["newId"]): string {
  const random = hash("sha256", newId(), "buffer");
  const id = Array.from(random.subarray(0, ID_LENGTH), (byte) => ALPHABET[byte % ALPHABET.length]).join("");
  return `${toPlainLabel(label)}:${id}`;
}

/** As the model is shown it. */
export function wrapToken(token: string): string {
  return `{{${token}}}`;
}

export function canHoldTokens(text: string): boolean {
  return text.includes("{{");
}

/** Every token in a text, without braces. */
export function findTokens(text: string): readonly string[] {
  return canHoldTokens(text) ? Array.from(text.matchAll(TOKEN), ([, token = ""]) => token) : [];
}

/** The token that a text is, and nothing beside. */
export function parseWholeToken(text: string): string | undefined {
  return WHOLE_TOKEN.exec(text)?.[1];
}

/** The text with something in place of its tokens; what is answered undefined stays as it is written. */
export function replaceTokens(text: string, fill: (token: string) => string | undefined): string {
  return text.replace(TOKEN, (written, token: string) => fill(token) ?? written);
}

/** How many characters at the end of a text may be a token that has only begun. */
export function measurePartialToken(text: string): number {
  return BEGUN_TOKEN.exec(text.slice(-LONGEST_TOKEN))?.[0].length ?? 0;
}

function toPlainLabel(label: string): string {
  const words = label.normalize("NFKD").replace(/[^A-Za-z0-9]+/g, "_");
  return /^[^A-Za-z]*(.{0,24})/.exec(words)?.[1]?.replace(/_+$/, "") || FALLBACK_LABEL;
}
