import { join } from "node:path";
import { z } from "zod";
import type { Action } from "../../core/action.ts";
import { QmError, toErrorDetails } from "../../core/errors.ts";
import { clip } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { replaceFileContent } from "./atomic-write.ts";
import { defineFileAction } from "./file-action.ts";
import { type FileRoot, resolveFilePath } from "./file-root.ts";
import { withFile, withParentFolder } from "./open-file.ts";
import { BOM, encodeText, isText, notTextError, startsWithBom } from "./text-content.ts";
import { requireFits, requireWritable, sha256 } from "./write.ts";

/** Finds `needle` (not empty), also overlapping, in linear time (KMP): `indexOf` takes minutes on hostile texts. */
export function* findOccurrences(text: string, needle: string): Generator<number> {
  const borders = computeBorders(needle);
  let matched = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    while (matched > 0 && code !== needle.charCodeAt(matched)) matched = borders[matched - 1] ?? 0;
    if (code === needle.charCodeAt(matched)) matched++;
    if (matched === needle.length) {
      yield at - matched + 1;
      matched = borders[matched - 1] ?? 0;
    }
  }
}

/** For each prefix, the length of its longest proper prefix that is also its suffix. */
function computeBorders(needle: string): Int32Array {
  const borders = new Int32Array(needle.length);
  let length = 0;
  for (let at = 1; at < needle.length; at++) {
    while (length > 0 && needle.charCodeAt(at) !== needle.charCodeAt(length)) length = borders[length - 1] ?? 0;
    if (needle.charCodeAt(at) === needle.charCodeAt(length)) length++;
    borders[at] = length;
  }
  return borders;
}

// A hint does not need a comparison of the whole file.
const COMPARED_CHARACTERS = 100_000;
const COMPARED_LINE = 400;
const MIN_SIMILARITY = 0.4;

/** The line of `text`, counted from 0, that is most similar to the first non-blank line of `wanted`. */
export function findClosestLine(text: string, wanted: string) {
  const pairs = splitLetterPairs(wanted.split("\n").find((line) => line.trim().length > 2) ?? wanted);
  let best: { readonly line: number; readonly text: string } | undefined;
  let bestScore = MIN_SIMILARITY;
  for (const [line, candidate] of text.slice(0, COMPARED_CHARACTERS).split("\n").entries()) {
    const score = compareLetterPairs(pairs, splitLetterPairs(candidate));
    if (score <= bestScore) continue;
    best = { line, text: candidate };
    bestScore = score;
  }
  return best;
}

function splitLetterPairs(line: string): ReadonlySet<string> {
  const letters = line.slice(0, COMPARED_LINE).replace(/\s+/g, "").toLowerCase();
  const pairs = new Set<string>();
  for (let at = 0; at + 1 < letters.length; at++) pairs.add(letters.slice(at, at + 2));
  return pairs;
}

function compareLetterPairs(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  if (a.size === 0 || b.size === 0) return 0;
  let shared = 0;
  for (const pair of a) if (b.has(pair)) shared++;
  return (2 * shared) / (a.size + b.size);
}

const input = z.lazy(() =>
  z.strictObject({
    path: z.string().min(1).describe("File, relative to the root."),
    old_string: z.string().min(1).describe("Text to replace, exactly as in the file. Must occur once."),
    new_string: z.string().describe("The new text. Empty deletes the old one."),
    replace_all: z.boolean().default(false).describe("Replace every occurrence."),
  }),
);

export const editAction = (root: FileRoot): Action =>
  defineFileAction(root, {
    entry: "edit",
    description:
      "Change part of a file: replace one piece of text by another. Include enough surrounding lines that the piece occurs once. To create a file or replace all of one, use write.",
    effect: "write",
    input,
    examples: [{ args: { path: "src/config.ts", old_string: "retries: 3,", new_string: "retries: 5," } }],
    run: (args, { signal }) => edit(root, args, signal),
  });

async function edit(root: FileRoot, args: z.output<typeof input>, signal: AbortSignal) {
  if (args.old_string === args.new_string) {
    throw new QmError("invalid_arguments", "old_string and new_string are the same");
  }
  const { real, missing } = await resolveFilePath(root, args.path);
  return root.runExclusive(join(real, ...missing), async () => {
    const place = await resolveFilePath(root, args.path);
    const { before, bytes } = await withFile(place, async ({ handle, stats }) => {
      requireFits(stats.size, root);
      return { before: stats, bytes: await handle.readFile() };
    });
    if (!isText(bytes, true)) throw notTextError(place.path, bytes.length);

    const shown = place.path;
    const mark = startsWithBom(bytes) ? BOM : Buffer.alloc(0);
    const content = bytes.toString("utf8", mark.length);
    const { text, replaced } = replaceText(content, args, shown, root.limits.maxWriteBytes);
    const changed = Buffer.concat([mark, encodeText(text, "new_string")]);
    requireFits(changed.length, root);
    await withParentFolder(place, async (folder, name) => {
      await requireWritable(folder, name, before, shown);
      await replaceFileContent(folder, name, { bytes: changed, before, onlyIfUnchanged: true, shown }, signal);
    });
    return { path: shown, replaced, bytes: changed.length, sha256: sha256(changed) };
  });
}

type EditStrings = Pick<z.output<typeof input>, "old_string" | "new_string" | "replace_all">;

/** Replaces the old text. Throws if it does not occur, or occurs more than once without `replace_all`. */
export function replaceText(text: string, strings: EditStrings, shown: string, maxLength: number) {
  const spelling = matchLineEnds(text, strings);
  if (spelling === undefined) throw textNotFoundError(text, strings.old_string, shown);
  const [old, replacement] = spelling;
  const found = findOccurrences(text, old);
  const starts = strings.replace_all ? dropOverlaps(found, old.length) : [...found];
  if (starts.length > 1 && !strings.replace_all) throw ambiguousError(text, starts, shown);
  const length = text.length + starts.length * (replacement.length - old.length);
  if (length > maxLength) {
    throw new QmError("too_large", `${quoteName(shown)} would have ${length} characters, more than the limit`);
  }

  const pieces: string[] = [];
  let from = 0;
  for (const start of starts) {
    pieces.push(text.slice(from, start), replacement);
    from = start + old.length;
  }
  pieces.push(text.slice(from));
  return { text: pieces.join(""), replaced: starts.length };
}

/** Adapts both strings to the line ends of the file: models write LF. Undefined: the old one does not occur. */
function matchLineEnds(text: string, { old_string, new_string }: EditStrings): readonly [string, string] | undefined {
  const withLineEnd = (end: string) => [old_string.replace(/\r?\n/g, end), new_string.replace(/\r?\n/g, end)] as const;
  const isAllCrlf = text.includes("\r\n") && !/(?:^|[^\r])\n/.test(text);
  const unchanged = [old_string, new_string] as const;
  const order = isAllCrlf ? [withLineEnd("\r\n"), unchanged] : [unchanged, withLineEnd("\r\n"), withLineEnd("\n")];
  return order.find(([old]) => !findOccurrences(text, old).next().done);
}

function dropOverlaps(starts: Iterable<number>, length: number): number[] {
  const separate: number[] = [];
  let end = 0;
  for (const start of starts) {
    if (start < end) continue;
    separate.push(start);
    end = start + length;
  }
  return separate;
}

function textNotFoundError(text: string, old: string, shown: string): QmError {
  const closest = findClosestLine(text, old);
  return new QmError("not_found", `old_string is not in ${quoteName(shown)}; nothing was changed`, {
    details: toErrorDetails({ closest: closest && { line: closest.line, text: clip(closest.text, 300) } }),
    hint: closest
      ? `The most similar line is ${closest.line} (counted from 0). Copy the text exactly, with its spaces and indentation.`
      : "Read the file and copy the text exactly, with its spaces and indentation.",
  });
}

function ambiguousError(text: string, starts: readonly number[], shown: string): QmError {
  const count = starts.length;
  return new QmError("conflict", `old_string occurs ${count} times in ${quoteName(shown)}; nothing was changed`, {
    details: { count, lines: starts.slice(0, 8).map((start) => findLineNumber(text, start)) },
    hint: "Add surrounding lines to old_string until it occurs once, or set replace_all.",
  });
}

function findLineNumber(text: string, position: number): number {
  let line = 0;
  for (let at = text.indexOf("\n"); at !== -1 && at < position; at = text.indexOf("\n", at + 1)) line++;
  return line;
}
