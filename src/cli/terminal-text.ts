import { UNSAFE_CHARACTERS } from "../core/display-text.ts";

export { escapeUnsafe, formatCount, quoteShellWord, toOneLine } from "../core/display-text.ts";

/** JSON that means the same, with the unsafe characters that JSON itself lets through written as escapes. */
export function safeJson(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, undefined, indent) ?? "null";
  return text.replace(UNSAFE_CHARACTERS, (character) => (character === "\n" ? character : escapeCharacter(character)));
}

function escapeCharacter(character: string): string {
  return [...Array(character.length).keys()]
    .map((at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`)
    .join("");
}

const WIDE =
  /[\u1100-\u115F\u2E80-\u303E\u3041-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6\u{1F300}-\u{1FAFF}\u{20000}-\u{3FFFD}]/u;
const NO_WIDTH = /[\p{M}\u200C\u200D]/u;

/** How many columns of a terminal a text takes, as well as that can be told without knowing its font. */
export function measureWidth(text: string): number {
  let width = 0;
  for (const character of text) width += NO_WIDTH.test(character) ? 0 : WIDE.test(character) ? 2 : 1;
  return width;
}

/** As much of a text as fits, with an ellipsis where something is missing. */
export function fitToWidth(text: string, width: number): string {
  if (measureWidth(text) <= width) return text;
  let used = 1;
  let kept = "";
  for (const character of text) {
    used += measureWidth(character);
    if (used > width) break;
    kept += character;
  }
  return width < 1 ? "" : `${kept.trimEnd()}…`;
}
