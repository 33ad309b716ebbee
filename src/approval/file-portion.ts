import { yieldToEventLoop } from "../core/async.ts";
import { decodeUtf8 } from "../core/decode-text.ts";
import { formatCount, toVisibleLine, toVisibleText } from "../core/display-text.ts";
import { QmError } from "../core/errors.ts";
import type { FileDigest } from "../core/file-digest.ts";
import type { Json } from "../core/json.ts";
import type { MaskedSecret, MaskedValue } from "../core/known-secret.ts";
import { quoteName } from "../core/names.ts";
import { listWarnings } from "./text-warnings.ts";

/** A part of the files that a call would use, as much as a channel shows at once. */
export interface FilePortion {
  readonly parts: readonly FilePart[];
  /** Give it as `after` to get the next portion. Absent: this is the last one. */
  readonly next?: string;
}

/** A file, or the part of a long one that fits into a portion. The texts of all its parts, joined, are its whole text. */
export interface FilePart extends FileDigest {
  /** The position of `text` in the file, in characters. */
  readonly offset: number;
  /** Absent: it is not text, and stands for itself by its size and digest. */
  readonly text?: string;
  /** Known secrets shown as `[secret NAME]` in the whole file. */
  readonly masked: readonly MaskedSecret[];
  /** Easily overlooked in `text`: invisible characters, look-alikes, text that looks like a mask. */
  readonly warnings: readonly string[];
}

export interface FilePortionOptions {
  readonly after?: string | undefined;
  /** The longest portion. Default: 64,000. */
  readonly characters?: number;
}

const DEFAULT_CHARACTERS = 64_000;
const PARTS_LIMIT = 200;

export async function readFilePortion(
  files: readonly FileDigest[],
  read: (file: FileDigest) => Promise<Uint8Array | undefined>,
  mask: (value: Json) => MaskedValue,
  { after = "0.0", characters = DEFAULT_CHARACTERS }: FilePortionOptions = {},
): Promise<FilePortion> {
  const parts: FilePart[] = [];
  let [at, offset] = parsePosition(after);
  let left = characters;
  for (let file = files[at]; file !== undefined; file = files[at]) {
    if (left <= 0 || parts.length === PARTS_LIMIT) return { parts, next: `${at}.${offset}` };
    const bytes = await read(file);
    if (bytes === undefined) throw createMissingError(file);
    const exact = decodeShown(file.path, bytes);
    // A long file takes long to decode and to mask, so other work runs in between.
    await yieldToEventLoop();
    const { value, masked } = mask(exact ?? "");
    const whole = String(value);
    const end = findCut(whole, offset, left);
    const text = whole.slice(offset, end);
    if (exact === undefined) parts.push({ ...file, offset, masked, warnings: [] });
    else parts.push({ ...file, offset, text, masked, warnings: listWarnings(exact, text) });
    left -= text.length;
    if (end < whole.length) return { parts, next: `${at}.${end}` };
    at++;
    offset = 0;
  }
  return { parts };
}

/** The name, size and digest of a file and its text, indented, so that none of its lines can be taken for one of ours. */
export function formatFilePart({ path, size, digest, offset, text }: FilePart): readonly string[] {
  const what = text === undefined ? ", not text" : offset > 0 ? ", continued" : "";
  const title = `${toVisibleLine(path)}, ${formatCount(size, "byte")}, SHA-256 ${digest}${what}`;
  return text === undefined || text === "" ? [title] : [title, `  ${toVisibleText(text).replaceAll("\n", "\n  ")}`];
}

/** Interpreters run such a file even if some of its bytes are not UTF-8, so it is shown as they read it. */
const PROGRAM = /\.(?:[cm]?[jt]s|json|py)$/i;

const decodeShown = (path: string, bytes: Uint8Array): string | undefined =>
  decodeUtf8(bytes, true) ??
  (PROGRAM.test(path) ? new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes) : undefined);

/** The end of a part: at most `length` characters, after a line break if there is one, and never inside a character. */
function findCut(text: string, offset: number, length: number): number {
  const most = offset + Math.max(2, length);
  if (most >= text.length) return text.length;
  const line = text.lastIndexOf("\n", most - 1) + 1;
  if (line > offset) return line;
  return /[\uD800-\uDBFF]/.test(text.charAt(most - 1)) ? most - 1 : most;
}

function parsePosition(after: string): [number, number] {
  const [, at, offset] = /^(\d{1,9})\.(\d{1,9})$/.exec(after) ?? [];
  if (at === undefined || offset === undefined)
    throw new QmError("invalid_arguments", `unknown position ${quoteName(after)}`, {
      hint: "Give `next` of the portion before it.",
    });
  return [Number(at), Number(offset)];
}

function createMissingError({ path }: FileDigest): QmError {
  const hint = "Do not approve what you cannot read. Deny it; its caller can ask again.";
  return new QmError("not_found", `the file ${quoteName(path)} of this question is not in the store`, { hint });
}
