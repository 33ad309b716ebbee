import { join } from "node:path";
import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import { QmError, toErrorDetails } from "../../core/errors.ts";
import { clip } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { replaceFileContent } from "./atomic-write.ts";
import type { FileRoot } from "./file-root.ts";
import { normalizeFilePath, resolveFilePath } from "./file-root.ts";
import { withFile, withParentFolder } from "./open-file.ts";
import { BOM, encodeText, isText, notTextError, startsWithBom } from "./text-content.ts";
import { requireFits, requireWritable, sha256 } from "./write.ts";

/**
 * Where `needle` begins in `text`, overlapping places included, in linear time whatever both hold (Knuth, Morris and
 * Pratt): `indexOf` takes minutes on texts made to slow it down. `needle` is not empty.
 */
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

/** For each prefix, the length of the longest proper prefix of it that is also its end. */
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

interface ClosestLine {
  /** Counted from 0, as a read counts. */
  readonly line: number;
  readonly text: string;
}

/** How much of a file is compared: it is only for a hint. */
const CHARACTERS_COMPARED = 250_000;
const LINE_COMPARED = 400;
const NEAR_ENOUGH = 0.4;

/** The line of `text` most like the first telling line of `wanted`, or undefined when none is like it. */
export function findClosestLine(text: string, wanted: string): ClosestLine | undefined {
  const telling = wanted.split("\n").find((line) => line.trim().length > 2) ?? wanted;
  const pairs = splitLetterPairs(telling);
  let best: ClosestLine | undefined;
  let bestScore = NEAR_ENOUGH;
  for (const [line, candidate] of text.slice(0, CHARACTERS_COMPARED).split("\n").entries()) {
    const score = compareLetterPairs(pairs, splitLetterPairs(candidate));
    if (score <= bestScore) continue;
    best = { line, text: candidate };
    bestScore = score;
  }
  return best;
}

function splitLetterPairs(line: string): ReadonlySet<string> {
  const letters = line.slice(0, LINE_COMPARED).replace(/\s+/g, "").toLowerCase();
  const pairs = new Set<string>();
  for (let at = 0; at + 1 < letters.length; at++) pairs.add(letters.slice(at, at + 2));
  return pairs;
}

/** Shared pairs of letters, from 0 to 1 (Dice). */
function compareLetterPairs(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  if (a.size === 0 || b.size === 0) return 0;
  let shared = 0;
  for (const pair of a) if (b.has(pair)) shared++;
  return (2 * shared) / (a.size + b.size);
}

const input = z.strictObject({
  path: z.string().min(1).describe("File, relative to the root."),
  old_string: z.string().min(1).describe("Text to replace, exactly as in the file; must occur once."),
  new_string: z.string().describe("Text to put in its place; empty deletes."),
  replace_all: z.boolean().default(false).describe("Replace every occurrence."),
});

export function editAction(root: FileRoot): Action {
  return defineAction("file", {
    entry: "edit",
    description:
      "Change part of a file: replace one piece of text by another. Give enough of the surrounding lines that the piece occurs once. To make a new file or replace all of one, write it instead.",
    effect: "write",
    tags: ["file", "write"],
    input,
    normalize: { path: (path) => normalizeFilePath(root, path) },
    examples: [{ args: { path: "src/config.ts", old_string: "retries: 3,", new_string: "retries: 5," } }],
    run: (args, { signal }) => edit(root, args, signal),
  });
}

async function edit(root: FileRoot, args: z.output<typeof input>, signal: AbortSignal) {
  if (args.old_string === args.new_string) {
    throw new QmError("invalid_arguments", "old_string and new_string are the same: there is nothing to change");
  }
  const { real, missing } = await resolveFilePath(root, args.path);
  return root.runExclusive(join(real, ...missing), async () => {
    const place = await resolveFilePath(root, args.path);
    const { before, bytes } = await withFile(place, async ({ handle, stats }) => {
      requireFits(stats.size, root);
      return { before: stats, bytes: await handle.readFile() };
    });
    if (!isText(bytes, true)) throw notTextError(place.path, bytes.length);

    const mark = startsWithBom(bytes) ? BOM : Buffer.alloc(0);
    const { text, replaced } = replaceText(
      bytes.toString("utf8", mark.length),
      args,
      place.path,
      root.limits.maxWriteBytes,
    );
    const changed = Buffer.concat([mark, encodeText(text, "new_string")]);
    requireFits(changed.length, root);
    await withParentFolder(place, async (folder, name) => {
      await requireWritable(folder, name, before, place.path);
      await replaceFileContent(
        folder,
        name,
        { bytes: changed, before, onlyIfUnchanged: true, shown: place.path },
        signal,
      );
    });
    return { path: place.path, replaced, bytes: changed.length, sha256: sha256(changed) };
  });
}

type EditStrings = Pick<z.output<typeof input>, "old_string" | "new_string" | "replace_all">;

/** The text with the piece replaced. Throws when the piece is not there, or there more than once without being asked. */
export function replaceText(
  text: string,
  asked: EditStrings,
  shown: string,
  maxLength: number,
): { text: string; replaced: number } {
  const spelling = matchLineEnds(text, asked);
  if (spelling === undefined) throw textNotFoundError(text, asked.old_string, shown);
  const [old, replacement] = spelling;
  const starts = asked.replace_all
    ? dropOverlaps(findOccurrences(text, old), old.length)
    : [...findOccurrences(text, old)];
  if (starts.length > 1 && !asked.replace_all) throw ambiguousError(text, starts, shown);
  const length = text.length + starts.length * (replacement.length - old.length);
  if (length > maxLength)
    throw new QmError(
      "too_large",
      `${quoteName(shown)} would have ${length} characters, more than may be written here`,
    );

  const pieces: string[] = [];
  let from = 0;
  for (const start of starts) {
    pieces.push(text.slice(from, start), replacement);
    from = start + old.length;
  }
  pieces.push(text.slice(from));
  return { text: pieces.join(""), replaced: starts.length };
}

/**
 * Both strings with the line ends of the file, or undefined when the old one is not in it. Models write LF: in a file
 * of CRLF that must neither hide a match nor bring in a second kind of line end.
 */
function matchLineEnds(text: string, { old_string, new_string }: EditStrings): readonly [string, string] | undefined {
  const asGiven = [old_string, new_string] as const;
  const asCrlf = [toCrlf(old_string), toCrlf(new_string)] as const;
  const asLf = [toLf(old_string), toLf(new_string)] as const;
  const order = isAllCrlf(text) ? [asCrlf, asGiven] : [asGiven, asCrlf, asLf];
  return order.find(([old]) => !findOccurrences(text, old).next().done);
}

function isAllCrlf(text: string): boolean {
  return text.includes("\r\n") && !/(?:^|[^\r])\n/.test(text);
}

function toCrlf(text: string): string {
  return text.replace(/\r?\n/g, "\r\n");
}

function toLf(text: string): string {
  return text.replace(/\r\n/g, "\n");
}

function dropOverlaps(starts: Iterable<number>, length: number): number[] {
  const kept: number[] = [];
  let free = 0;
  for (const start of starts) {
    if (start < free) continue;
    kept.push(start);
    free = start + length;
  }
  return kept;
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
  return new QmError(
    "conflict",
    `old_string occurs ${starts.length} times in ${quoteName(shown)}; nothing was changed`,
    {
      details: { count: starts.length, lines: starts.slice(0, 8).map((start) => findLineNumber(text, start)) },
      hint: "Add surrounding lines to old_string until it occurs once, or set replace_all.",
    },
  );
}

function findLineNumber(text: string, position: number): number {
  let line = 0;
  for (let at = text.indexOf("\n"); at !== -1 && at < position; at = text.indexOf("\n", at + 1)) line++;
  return line;
}
