import { UNSAFE_CHARACTERS } from "../core/display-text.ts";

/** Equal JSON in which every character that a terminal could act on is an escape. */
export function safeJson(value: unknown, indent?: number): string {
  const text = JSON.stringify(value, undefined, indent) ?? "null";
  return text.replace(UNSAFE_CHARACTERS, (character) => (character === "\n" ? character : escapeCharacter(character)));
}

function escapeCharacter(character: string): string {
  const units = Array.from({ length: character.length }, (_, index) => character.charCodeAt(index));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
}

const WIDE =
  /[\u1100-\u115F\u2E80-\u303E\u3041-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6\u{1F300}-\u{1FAFF}\u{20000}-\u{3FFFD}]/u;
const NO_WIDTH = /[\p{M}\u200C\u200D]/u;

/** The number of terminal columns a text takes. An estimate: it depends on the font. */
export function measureWidth(text: string): number {
  let width = 0;
  for (const character of text) width += NO_WIDTH.test(character) ? 0 : WIDE.test(character) ? 2 : 1;
  return width;
}

/** Cuts a text to `width` columns, with an ellipsis if something is missing. */
export function fitToWidth(text: string, width: number): string {
  if (measureWidth(text) <= width) return text;
  let used = 1;
  let cut = "";
  for (const character of text) {
    used += measureWidth(character);
    if (used > width) break;
    cut += character;
  }
  return width < 1 ? "" : `${cut.trimEnd()}…`;
}

const UNITS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000 };

/** Formats a duration in the largest unit of which it has at least two: `45s`, `90m`, `36h`, `3d`. */
export function formatTimeSpan(ms: number): string {
  const [unit, length] = Object.entries(UNITS).find(([, each]) => ms >= 2 * each) ?? ["s", 1_000];
  return `${Math.max(0, Math.floor(ms / length))}${unit}`;
}
