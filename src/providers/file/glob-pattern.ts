import { QmError } from "../../core/errors.ts";
import { DOTALL, LinearPattern } from "../../core/linear-pattern.ts";
import { quoted } from "../../core/names.ts";
import { WORK_LIMIT } from "../../core/work.ts";

/** A compiled pattern over paths relative to where it is applied. */
export interface GlobPattern {
  matches(path: string): boolean;
  /** Whether something below this folder may match. May say yes in vain, never no in vain. */
  mayEnter(path: string): boolean;
  /** Whether the pattern has this name as a whole part, letter for letter. */
  names(name: string): boolean;
}

const ALTERNATIVES = 256;
const PART = "[^/]+";

/**
 * Compiles `*` and `?` (within a part), `**` (any number of parts), `[a-z]`, `[!a]`, `{a,b}` and `\` before a
 * character that stands for itself. Hidden files match like others. Matching takes time linear in the path.
 */
export function compileGlob(pattern: string): GlobPattern {
  const expanded = expandBraces(pattern).map(partsOf);
  const regex = LinearPattern.compile(`(?:${expanded.map(regexOf).join("|")})`, DOTALL);
  if (typeof regex === "string") {
    throw new QmError("invalid_arguments", `the pattern ${quoted(pattern)} is too large`, {
      hint: "Use a shorter pattern with fewer alternatives.",
    });
  }
  return {
    matches: (path) => regex.testWhole(path, { left: WORK_LIMIT }),
    mayEnter: (path) => expanded.some((parts) => mayEnter(parts, path.split("/"))),
    names: (name) => expanded.some((parts) => parts.includes(name)),
  };
}

function partsOf(pattern: string): readonly string[] {
  if (pattern.startsWith("/")) {
    throw new QmError("path_refused", `the pattern ${quoted(pattern)} is absolute`, {
      hint: "Give the folder as path and a pattern relative to it.",
    });
  }
  const parts = pattern.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw new QmError("path_refused", `the pattern ${quoted(pattern)} holds ..`);
  return parts;
}

/** `a{b,c}` → `ab`, `ac`, nested ones too. A brace without a comma or an end stands for itself, as in a shell. */
export function expandBraces(pattern: string): readonly string[] {
  const done: string[] = [];
  const open: { text: string; from: number }[] = [{ text: pattern, from: 0 }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { text } = next;
    const group = firstGroup(text, next.from);
    if (group === undefined) done.push(text);
    else {
      const { start, end, alternatives } = group;
      for (const one of alternatives.toReversed())
        open.push({ text: text.slice(0, start) + one + text.slice(end), from: start });
    }
    if (done.length + open.length > ALTERNATIVES) {
      throw new QmError(
        "invalid_arguments",
        `the pattern ${quoted(pattern)} has more than ${ALTERNATIVES} alternatives`,
      );
    }
  }
  return done;
}

interface Group {
  readonly start: number;
  readonly end: number;
  readonly alternatives: readonly string[];
}

function firstGroup(text: string, from: number): Group | undefined {
  const open: { start: number; commas: number[] }[] = [];
  let found: Group | undefined;
  for (let at = from; at < text.length; at++) {
    const character = text[at];
    if (character === "\\") at++;
    else if (character === "{") open.push({ start: at, commas: [] });
    else if (character === ",") open.at(-1)?.commas.push(at);
    else if (character === "}") {
      const group = open.pop();
      if (group === undefined || group.commas.length === 0) continue;
      const cuts = [group.start, ...group.commas, at];
      const alternatives = cuts.slice(1).map((cut, index) => text.slice((cuts[index] ?? 0) + 1, cut));
      // The outermost closed group is expanded first; what closes later around it replaces it.
      if (found === undefined || group.start < found.start) found = { start: group.start, end: at + 1, alternatives };
      if (open.length === 0) return found;
    }
  }
  return found;
}

function regexOf(parts: readonly string[]): string {
  let regex = "";
  let needsSlash = false;
  for (const [index, part] of parts.entries()) {
    if (needsSlash) regex += "/";
    const isLast = index === parts.length - 1;
    needsSlash = part !== "**";
    if (part !== "**") regex += partRegex(part);
    else regex += isLast ? `${PART}(?:/${PART})*` : `(?:${PART}/)*`;
  }
  return regex;
}

function partRegex(part: string): string {
  let regex = "";
  const characters = [...part];
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at] ?? "";
    const set = character === "[" ? characterSet(characters, at) : undefined;
    if (set !== undefined) {
      regex += set.regex;
      at = set.end;
    } else if (character === "*") regex += "[^/]*";
    else if (character === "?") regex += "[^/]";
    else if (character === "\\" && at + 1 < characters.length) regex += literal(characters[++at] ?? "");
    else regex += literal(character);
  }
  return regex;
}

/** The set that begins at `[`, or undefined when it has no end and the bracket stands for itself. */
function characterSet(characters: readonly string[], start: number): { regex: string; end: number } | undefined {
  const isNegated = characters[start + 1] === "!" || characters[start + 1] === "^";
  const first = start + (isNegated ? 2 : 1);
  const end = characters.indexOf("]", first + 1);
  if (end === -1) return undefined;
  const ranges: string[] = isNegated ? ["/"] : [];
  for (let at = first; at < end; at++) {
    const low = characters[at] ?? "";
    const isRange = characters[at + 1] === "-" && at + 2 < end;
    const high = isRange ? (characters[at + 2] ?? "") : low;
    ranges.push(...withoutSlash(low, high));
    if (isRange) at += 2;
  }
  return { regex: ranges.length === 0 ? NOTHING : `[${isNegated ? "^" : ""}${ranges.join("")}]`, end };
}

const NOTHING = "[^\\x00-\\x{10FFFF}]";

/** A range such as `+-9` runs over the slash, which no set may match. */
function withoutSlash(low: string, high: string): readonly string[] {
  const [from, to] = [codeOf(low), codeOf(high)];
  if (from > to) return [];
  if (from > SLASH || to < SLASH) return [low === high ? literal(low) : `${literal(low)}-${literal(high)}`];
  return [...(from < SLASH ? [`${literal(low)}-\\.`] : []), ...(to > SLASH ? [`0-${literal(high)}`] : [])];
}

const SLASH = codeOf("/");

function codeOf(character: string): number {
  return character.codePointAt(0) ?? 0;
}

function literal(character: string): string {
  return /[\\.+*?()|[\]{}^$\-&~]/.test(character) ? `\\${character}` : character;
}

function mayEnter(parts: readonly string[], folders: readonly string[]): boolean {
  for (const [index, folder] of folders.entries()) {
    const part = parts[index];
    if (part === "**") return true;
    if (part === undefined || index === parts.length - 1) return false;
    if (!/[*?[\\]/.test(part) && part !== folder) return false;
  }
  return true;
}
