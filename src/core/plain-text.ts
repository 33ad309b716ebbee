/**
 * What could rewrite the line it is shown on, or hide in it: control characters, marks that turn the direction of
 * writing, line separators, and characters without a shape. The joiners of emoji and of some scripts may stay.
 */
export const UNSAFE = /[\p{Cc}\u061C\u200B\u200E\u200F\u2028-\u202E\u2060-\u2069\uFEFF\u{E0000}-\u{E007F}]/gu;

/** Text from outside on one line, with nothing left in it that a terminal would act on or that nobody would see. */
export function oneLine(text: string): string {
  return plain(text.replace(/\s+/gu, " ").trim());
}

/** Text from outside with its lines and tabs, and with nothing else left in it that a terminal would act on. */
export function plain(text: string): string {
  return text.replace(UNSAFE, (character) =>
    character === "\n" || character === "\t" ? character : `\\u{${character.codePointAt(0)?.toString(16)}}`,
  );
}

/** `1 event`, `2 events`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** A word as it is typed into a POSIX shell. */
export function shellQuoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
