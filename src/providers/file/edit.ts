import { join } from "node:path";
import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import type { Action } from "../../core/action.ts";
import { facts, QmError } from "../../core/errors.ts";
import { clip } from "../../core/json.ts";
import { quoted } from "../../core/names.ts";
import { replaceFile } from "./atomic.ts";
import { locate, normalPath } from "./confine.ts";
import { closestLine, occurrences } from "./find-text.ts";
import { inFolderOf } from "./folder.ts";
import { withFile } from "./open-file.ts";
import type { Root } from "./root.ts";
import { BOM, encoded, isText, notText, startsWithBom } from "./text.ts";
import { requireFits, requireWritable, sha256 } from "./write.ts";

const input = z.strictObject({
  path: z.string().min(1).describe("File, relative to the root."),
  old_string: z.string().min(1).describe("Text to replace, exactly as in the file; must occur once."),
  new_string: z.string().describe("Text to put in its place; empty deletes."),
  replace_all: z.boolean().default(false).describe("Replace every occurrence."),
});

export function editAction(root: Root): Action {
  return defineAction("file", {
    entry: "edit",
    description:
      "Change part of a file: replace one piece of text by another. Give enough of the surrounding lines that the piece occurs once. To make a new file or replace all of one, write it instead.",
    effect: "write",
    tags: ["file", "write"],
    input,
    normalize: { path: (path) => normalPath(root, path) },
    examples: [{ args: { path: "src/config.ts", old_string: "retries: 3,", new_string: "retries: 5," } }],
    run: (args, { signal }) => edit(root, args, signal),
  });
}

async function edit(root: Root, args: z.output<typeof input>, signal: AbortSignal) {
  if (args.old_string === args.new_string) {
    throw new QmError("invalid_arguments", "old_string and new_string are the same: there is nothing to change");
  }
  const { real, missing } = await locate(root, args.path);
  return root.inTurn(join(real, ...missing), async () => {
    const place = await locate(root, args.path);
    const { before, bytes } = await withFile(place, async ({ handle, stats }) => {
      requireFits(stats.size, root);
      return { before: stats, bytes: await handle.readFile() };
    });
    if (!isText(bytes, true)) throw notText(place.path, bytes.length);

    const mark = startsWithBom(bytes) ? BOM : Buffer.alloc(0);
    const { text, replaced } = replaceText(
      bytes.toString("utf8", mark.length),
      args,
      place.path,
      root.limits.maxWriteBytes,
    );
    const changed = Buffer.concat([mark, encoded(text, "new_string")]);
    requireFits(changed.length, root);
    await inFolderOf(place, async (folder, name) => {
      await requireWritable(folder, name, before, place.path);
      await replaceFile(folder, name, { bytes: changed, before, onlyIfUnchanged: true, shown: place.path }, signal);
    });
    return { path: place.path, replaced, bytes: changed.length, sha256: sha256(changed) };
  });
}

type Strings = Pick<z.output<typeof input>, "old_string" | "new_string" | "replace_all">;

/** The text with the piece replaced. Throws when the piece is not there, or there more than once without being asked. */
export function replaceText(
  text: string,
  asked: Strings,
  shown: string,
  maxLength: number,
): { text: string; replaced: number } {
  const spelling = spellingIn(text, asked);
  if (spelling === undefined) throw notThere(text, asked.old_string, shown);
  const [old, replacement] = spelling;
  const starts = asked.replace_all ? apart(occurrences(text, old), old.length) : [...occurrences(text, old)];
  if (starts.length > 1 && !asked.replace_all) throw ambiguous(text, starts, shown);
  const length = text.length + starts.length * (replacement.length - old.length);
  if (length > maxLength)
    throw new QmError("too_large", `${quoted(shown)} would have ${length} characters, more than may be written here`);

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
function spellingIn(text: string, { old_string, new_string }: Strings): readonly [string, string] | undefined {
  const asGiven = [old_string, new_string] as const;
  const asCrlf = [crlf(old_string), crlf(new_string)] as const;
  const asLf = [lf(old_string), lf(new_string)] as const;
  const order = isAllCrlf(text) ? [asCrlf, asGiven] : [asGiven, asCrlf, asLf];
  return order.find(([old]) => !occurrences(text, old).next().done);
}

function isAllCrlf(text: string): boolean {
  return text.includes("\r\n") && !/(?:^|[^\r])\n/.test(text);
}

function crlf(text: string): string {
  return text.replace(/\r?\n/g, "\r\n");
}

function lf(text: string): string {
  return text.replace(/\r\n/g, "\n");
}

function apart(starts: Iterable<number>, length: number): number[] {
  const kept: number[] = [];
  let free = 0;
  for (const start of starts) {
    if (start < free) continue;
    kept.push(start);
    free = start + length;
  }
  return kept;
}

function notThere(text: string, old: string, shown: string): QmError {
  const closest = closestLine(text, old);
  return new QmError("not_found", `old_string is not in ${quoted(shown)}; nothing was changed`, {
    details: facts({ closest: closest && { line: closest.line, text: clip(closest.text, 300) } }),
    hint: closest
      ? `The most similar line is ${closest.line} (counted from 0). Copy the text exactly, with its spaces and indentation.`
      : "Read the file and copy the text exactly, with its spaces and indentation.",
  });
}

function ambiguous(text: string, starts: readonly number[], shown: string): QmError {
  return new QmError("conflict", `old_string occurs ${starts.length} times in ${quoted(shown)}; nothing was changed`, {
    details: { count: starts.length, lines: starts.slice(0, 8).map((start) => lineAt(text, start)) },
    hint: "Add surrounding lines to old_string until it occurs once, or set replace_all.",
  });
}

function lineAt(text: string, position: number): number {
  let line = 0;
  for (let at = text.indexOf("\n"); at !== -1 && at < position; at = text.indexOf("\n", at + 1)) line++;
  return line;
}
