import type { Launch } from "../server-spec.ts";

/**
 * A launch on one line for a person: every argument and every value in full, secrets as the references they are. What
 * cannot be seen, or could be taken for something else, is written as `\u{...}`.
 */
export function commandLine(launch: Launch): string {
  if (launch.kind === "http") {
    const headers = Object.entries(launch.headers).map(([name, value]) => `${shown(name)}: ${shown(value)}`);
    return [shown(launch.url), ...(headers.length === 0 ? [] : [`with ${headers.join(", ")}`])].join(" ");
  }
  const env = Object.entries(launch.env).map(([name, value]) => `${shown(name)}=${word(value)}`);
  const where = launch.cwd === undefined ? [] : [`(in ${word(launch.cwd)})`];
  return [...env, ...[launch.command, ...launch.args].map(word), ...where].join(" ");
}

/** Whether a text holds characters that most people could not type, or could not tell from others. */
export function hasOddCharacters(text: string): boolean {
  return /[^\t\n -~]/u.test(text);
}

// Nothing in it that a reader could take for the end of the argument. `${`, as in a reference, is no such thing.
const BARE = /^[\p{L}\p{N}_@%+=:,./~^?#!${}[\]-]+$/u;

function word(text: string): string {
  return BARE.test(text) && shown(text) === text ? text : `"${shown(text.replace(/["\\]/g, "\\$&"))}"`;
}

/** Letters and digits of every script can be seen, but for a few that are blank; of other characters only ASCII ones. */
function shown(text: string): string {
  return text.replace(INVISIBLE, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);
}

const INVISIBLE =
  /\u034F|[\uFE00-\uFE0F]|[\u{E0100}-\u{E01EF}]|[\u115F\u1160\u17B4\u17B5\u3164\uFFA0]|[^\p{L}\p{N}\p{M} -~]/gu;
