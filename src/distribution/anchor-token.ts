import { hash } from "node:crypto";
import type { Runtime } from "../core/runtime.ts";

// Models copy this without errors: a word, a colon, and eight letters and digits that do not look alike.
const LABEL = "[A-Za-z][A-Za-z0-9_]{0,23}";
const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const ID = `[${ALPHABET}]`;
const ID_LENGTH = 8;
/** Some models write a space inside the braces. */
const TOKEN = new RegExp(`\\{\\{ ?(${LABEL}:${ID}{${ID_LENGTH}}) ?\\}\\}`, "g");
const WHOLE_TOKEN = new RegExp(`^${TOKEN.source}$`);
const PARTIAL_TOKEN = new RegExp(
  `\\{(?:\\{ ?(?:${LABEL}(?::(?:${ID}{0,${ID_LENGTH - 1}}|${ID}{${ID_LENGTH}} ?\\}?))?)?)?$`,
);
const LONGEST_TOKEN = 24 + ID_LENGTH + "{{ : }}".length;
const FALLBACK_LABEL = "value";

/** Creates a random token of 40 bits, without its braces. */
export function createAnchorToken(label: string, newId: Runtime["newId"]): string {
  const random = hash("sha256", newId(), "buffer");
  const id = Array.from(random.subarray(0, ID_LENGTH), (byte) => ALPHABET[byte % ALPHABET.length]).join("");
  return `${toPlainLabel(label)}:${id}`;
}

export const wrapToken = (token: string): string => `{{${token}}}`;
export const canHoldTokens = (text: string): boolean => text.includes("{{");
export const findTokens = (text: string): readonly string[] =>
  canHoldTokens(text) ? Array.from(text.matchAll(TOKEN), ([, token = ""]) => token) : [];
export const parseWholeToken = (text: string): string | undefined => WHOLE_TOKEN.exec(text)?.[1];
/** Replaces tokens. A token for which `fill` returns undefined stays. */
export const replaceTokens = (text: string, fill: (token: string) => string | undefined): string =>
  text.replace(TOKEN, (written, token: string) => fill(token) ?? written);
export const measurePartialToken = (text: string): number =>
  PARTIAL_TOKEN.exec(text.slice(-LONGEST_TOKEN))?.[0].length ?? 0;

function toPlainLabel(label: string): string {
  const words = label.normalize("NFKD").replace(/[^A-Za-z0-9]+/g, "_");
  return /^[^A-Za-z]*(.{0,24})/.exec(words)?.[1]?.replace(/_+$/, "") || FALLBACK_LABEL;
}
