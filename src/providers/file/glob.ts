import { z } from "zod";
import type { Action } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { DOTALL, LinearPattern } from "../../core/linear-pattern.ts";
import { quoteName } from "../../core/names.ts";
import { WORK_LIMIT } from "../../core/work-budget.ts";
import { defineFileAction } from "./file-action.ts";
import { type FileRoot, resolveFilePath } from "./file-root.ts";
import { type FolderEntry, FolderWalker, joinRelative, skippedFolders } from "./folder-walker.ts";
import { type OpenFolder, pathNotFoundError, withFolder } from "./open-file.ts";

interface GlobPattern {
  matches(path: string): boolean;
  /** Whether an entry below this folder may match. */
  mayEnter(path: string): boolean;
  /** Whether the pattern has this name literally as a whole part. */
  names(name: string): boolean;
}

const MAX_ALTERNATIVES = 256;
const PART = "[^/]+";

/**
 * Compiles `*` and `?` (within a part), `**` (any number of parts), `[a-z]`, `[!a]`, `{a,b}` and `\` before a literal
 * character. Hidden files match like others. Patterns come from models, so matching must be linear: picomatch compiles to
 * a backtracking RegExp, which a pattern such as `*a*a*a*a*a*b` blocks for seconds on one name.
 */
export function compileGlob(pattern: string): GlobPattern {
  const expanded = expandBraces(pattern).map(splitPattern);
  const regex = LinearPattern.compile(`(?:${expanded.map(toRegex).join("|")})`, DOTALL);
  if (typeof regex === "string") {
    const hint = "Use a shorter pattern with fewer alternatives.";
    throw new QmError("invalid_arguments", `the pattern ${quoteName(pattern)} is too large`, { hint });
  }
  return {
    matches: (path) => regex.testWhole(path, { left: WORK_LIMIT }),
    mayEnter: (path) => expanded.some((parts) => mayEnter(parts, path.split("/"))),
    names: (name) => expanded.some((parts) => parts.includes(name)),
  };
}

function splitPattern(pattern: string): readonly string[] {
  if (pattern.startsWith("/")) {
    const hint = "Pass the folder as path, and a pattern relative to it.";
    throw new QmError("path_refused", `the pattern ${quoteName(pattern)} is absolute`, { hint });
  }
  const parts = pattern.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw new QmError("path_refused", `the pattern ${quoteName(pattern)} contains ..`);
  return parts;
}

/** `a{b,c}` → `ab`, `ac`, also nested. A brace without a comma or an end is literal, as in a shell. */
export function expandBraces(pattern: string): readonly string[] {
  const done: string[] = [];
  const open: { text: string; from: number }[] = [{ text: pattern, from: 0 }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { text } = next;
    const group = findFirstGroup(text, next.from);
    if (group === undefined) done.push(text);
    else {
      const { start, end, alternatives } = group;
      const expanded = alternatives.map((each) => ({
        text: text.slice(0, start) + each + text.slice(end),
        from: start,
      }));
      open.push(...expanded.reverse());
    }
    if (done.length + open.length > MAX_ALTERNATIVES) {
      const message = `the pattern ${quoteName(pattern)} has more than ${MAX_ALTERNATIVES} alternatives`;
      throw new QmError("invalid_arguments", message);
    }
  }
  return done;
}

type Group = { readonly start: number; readonly end: number; readonly alternatives: readonly string[] };

function findFirstGroup(text: string, from: number): Group | undefined {
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
      // The outermost closed group is expanded first.
      if (found === undefined || group.start < found.start) found = { start: group.start, end: at + 1, alternatives };
      if (open.length === 0) return found;
    }
  }
  return found;
}

function toRegex(parts: readonly string[]): string {
  let regex = "";
  let needsSlash = false;
  for (const [index, part] of parts.entries()) {
    if (needsSlash) regex += "/";
    const isLast = index === parts.length - 1;
    needsSlash = part !== "**";
    if (part !== "**") regex += partToRegex(part);
    else regex += isLast ? `${PART}(?:/${PART})*` : `(?:${PART}/)*`;
  }
  return regex;
}

function partToRegex(part: string): string {
  let regex = "";
  const characters = [...part];
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at] ?? "";
    const set = character === "[" ? parseCharacterSet(characters, at) : undefined;
    if (set !== undefined) {
      regex += set.regex;
      at = set.end;
    } else if (character === "*") regex += "[^/]*";
    else if (character === "?") regex += "[^/]";
    else if (character === "\\" && at + 1 < characters.length) regex += escapeLiteral(characters[++at] ?? "");
    else regex += escapeLiteral(character);
  }
  return regex;
}

/** Parses the set that begins at `[`. Undefined: it has no end, so the bracket is literal. */
function parseCharacterSet(characters: readonly string[], start: number): { regex: string; end: number } | undefined {
  const isNegated = characters[start + 1] === "!" || characters[start + 1] === "^";
  const first = start + (isNegated ? 2 : 1);
  const end = characters.indexOf("]", first + 1);
  if (end === -1) return undefined;
  const ranges: string[] = isNegated ? ["/"] : [];
  for (let at = first; at < end; at++) {
    const low = characters[at] ?? "";
    const isRange = characters[at + 1] === "-" && at + 2 < end;
    const high = isRange ? (characters[at + 2] ?? "") : low;
    ranges.push(...excludeSlash(low, high));
    if (isRange) at += 2;
  }
  return { regex: ranges.length === 0 ? NOTHING : `[${isNegated ? "^" : ""}${ranges.join("")}]`, end };
}

const NOTHING = "[^\\x00-\\x{10FFFF}]";

/** A range such as `+-9` includes the slash, which no set may match. */
function excludeSlash(low: string, high: string): readonly string[] {
  const [from, to] = [toCodePoint(low), toCodePoint(high)];
  if (from > to) return [];
  if (from > SLASH || to < SLASH)
    return [low === high ? escapeLiteral(low) : `${escapeLiteral(low)}-${escapeLiteral(high)}`];
  return [...(from < SLASH ? [`${escapeLiteral(low)}-\\.`] : []), ...(to > SLASH ? [`0-${escapeLiteral(high)}`] : [])];
}

const SLASH = toCodePoint("/");

function toCodePoint(character: string): number {
  return character.codePointAt(0) ?? 0;
}

const escapeLiteral = (character: string): string =>
  /[\\.+*?()|[\]{}^$\-&~]/.test(character) ? `\\${character}` : character;

function mayEnter(parts: readonly string[], folders: readonly string[]): boolean {
  for (const [index, folder] of folders.entries()) {
    const part = parts[index];
    if (part === "**") return true;
    if (part === undefined || index === parts.length - 1) return false;
    if (!/[*?[\\]/.test(part) && part !== folder) return false;
  }
  return true;
}

const input = z.lazy(() =>
  z.strictObject({
    pattern: z.string().min(1).max(1000).describe("Such as src/**/*.{ts,tsx}. ** crosses folders, * does not."),
    path: z.string().min(1).default(".").describe("Folder to search, relative to the root."),
    limit: z.int().min(1).max(5000).default(200).describe("Maximum number of paths."),
  }),
);

export const globAction = (root: FileRoot): Action =>
  defineFileAction(root, {
    entry: "glob",
    description:
      "Find files by name pattern. .git and node_modules are skipped unless the pattern names them. To find files by content, use grep.",
    effect: "read",
    input,
    examples: [{ args: { pattern: "**/*.md" } }, { args: { pattern: "*.{test,spec}.ts", path: "src/core" } }],
    run: (args, { signal }) => glob(root, args, signal),
  });

async function glob(root: FileRoot, { pattern, path, limit }: z.output<typeof input>, signal: AbortSignal) {
  const compiled = compileGlob(pattern);
  const place = await resolveFilePath(root, path);
  if (place.missing.length > 0) throw await pathNotFoundError(place);
  return withFolder(place, async (folder) => {
    const walk = walkMatching(folder, compiled, root, signal);
    const paths: string[] = [];
    let truncated = false;
    for await (const entry of walk.entries()) {
      if (entry.kind === "folder" || entry.kind === "other" || !compiled.matches(entry.path)) continue;
      truncated = paths.length === limit;
      if (truncated) break;
      paths.push(joinRelative(place.path, entry.path));
    }
    return { paths, truncated, ...(walk.isIncomplete ? { incomplete: true } : {}) };
  });
}

export function walkMatching(folder: OpenFolder, pattern: GlobPattern, { limits }: FileRoot, signal: AbortSignal) {
  const enter = ({ name, path }: FolderEntry): boolean =>
    (!skippedFolders.has(name) || pattern.names(name)) && pattern.mayEnter(path);
  return new FolderWalker(folder, { signal, maxVisited: limits.maxVisited, enter });
}
