import { type FilePart, type FilePortion, formatFilePart, readFilePortion } from "../approval/file-portion.ts";
import { decodeUtf8 } from "../core/decode-text.ts";
import { QmError } from "../core/errors.ts";
import { digestFiles, type FileBytes, type FileDigest } from "../core/file-digest.ts";
import { diffLines } from "../core/text-diff.ts";
import type { Context } from "./context.ts";
import { continueAtTerminal, isTerminal } from "./terminal.ts";

/** About four screens of text, after which the person is asked to go on. */
const PAGE_CHARACTERS = 8_000;

export type ReadPortion = (position: {
  readonly after?: string | undefined;
  readonly characters: number;
}) => Promise<FilePortion>;

/**
 * Prints all files, with --json to stderr. `askForMore`: before an approval, the person asks for each further page, and can
 * only approve after the last one. Throws `tool_denied` if they do not.
 */
export async function showFilePages(
  { out }: Pick<Context, "out">,
  read: ReadPortion,
  askForMore: (question: string) => Promise<boolean> = async () => true,
): Promise<void> {
  const line = out.isJson ? out.note : out.line;
  for (let after: string | undefined; ; ) {
    const { parts, next } = await read({ after, characters: PAGE_CHARACTERS });
    for (const part of parts) for (const text of formatPart(part, out)) line(text);
    if (next === undefined) return;
    after = next;
    if (await askForMore("More follows. [Enter to go on, q to stop] ")) continue;
    throw new QmError("tool_denied", "nothing was approved: not all files were shown", {
      hint: "Press Enter for each page to read all of it.",
    });
  }
}

function formatPart(part: FilePart, { bold, warn }: Pick<Context["out"], "bold" | "warn">): readonly string[] {
  const [title = "", ...text] = formatFilePart(part);
  const masked = part.masked.map(({ name }) => `contains the secret ${name}, which is masked`);
  return ["", bold(title), ...[...part.warnings, ...masked].map((text) => warn(`Careful: it ${text}`)), ...text];
}

/** Shows files before an approval at the command line. `yes`: the person has agreed already. */
export const showFilesToApprover = (context: Context, read: ReadPortion, yes = false): Promise<void> =>
  showFilePages(
    context,
    read,
    async (question) => yes || !isTerminal(context.io.stdin) || continueAtTerminal(context.io, question),
  );

/** All files at once, for --json. */
export async function readAllParts(read: ReadPortion): Promise<readonly FilePart[]> {
  const all: FilePart[] = [];
  for (let after: string | undefined; ; ) {
    const { parts, next } = await read({ after, characters: Number.MAX_SAFE_INTEGER });
    all.push(...parts);
    if (next === undefined) return all;
    after = next;
  }
}

/** The pages of files that are compared with those that are trusted: what is trusted already is left out. */
export function comparePages(files: FileBytes, trusted: FileBytes): ReadPortion {
  const changed = digestFiles(files).filter(({ path }) => !isSame(files.get(path), trusted.get(path)));
  const read = async ({ path }: FileDigest) => diffFiles(trusted.get(path), files.get(path));
  return (position) => readFilePortion(changed, read, (value) => ({ value, masked: [] }), position);
}

const isSame = (a: Uint8Array = new Uint8Array(), b?: Uint8Array): boolean =>
  b !== undefined && Buffer.compare(a, b) === 0;

function diffFiles(before: Uint8Array | undefined, after: Uint8Array | undefined): Uint8Array | undefined {
  const [old, now] = [before, after].map((bytes) => bytes && decodeUtf8(bytes, true));
  return old === undefined || now === undefined ? after : Buffer.from(diffLines(old, now).join("\n"));
}
