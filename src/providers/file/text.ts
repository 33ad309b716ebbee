import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";

/** How much of a file's start decides whether it is text. */
export const HEAD_BYTES = 8192;

export const BOM = Buffer.from([0xef, 0xbb, 0xbf]);

export function startsWithBom(bytes: Buffer): boolean {
  return bytes.subarray(0, BOM.length).equals(BOM);
}

/** Whether a file's first bytes are text: valid UTF-8 without NUL. A character cut off by the end of a head is fine. */
export function isText(head: Buffer, isWhole: boolean): boolean {
  if (head.includes(0)) return false;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(head, { stream: !isWhole });
    return true;
  } catch {
    return false;
  }
}

export function notText(shown: string, size: number): QmError {
  return new QmError("unsupported_content", `${quoted(shown)} is not UTF-8 text (${size} bytes)`, {
    details: { bytes: size },
    hint: "Only text can be read or edited here; convert the file first, or hand its path to an action that takes binary files.",
  });
}

/** The bytes of a text. Half a surrogate pair has none and would silently become another character. */
export function encoded(text: string, what: string): Buffer {
  if (/\p{Cs}/u.test(text)) throw new QmError("invalid_arguments", `${what} holds half a character (a lone surrogate)`);
  return Buffer.from(text, "utf8");
}
