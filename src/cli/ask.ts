import { QmError } from "../core/errors.ts";
import type { Io } from "./io.ts";

/** A terminal's input, where there is one. */
interface Terminal extends AsyncIterable<Uint8Array | string> {
  readonly isTTY: true;
  setRawMode?(raw: boolean): unknown;
  pause?(): unknown;
}

const ENTER = /[\r\n]/;
const CTRL_C = "\u0003";
const BACKSPACE: ReadonlySet<string> = new Set(["\b", "\u007F"]);

export function isTerminal(stdin: Io["stdin"]): stdin is Terminal {
  return "isTTY" in stdin && stdin.isTTY === true;
}

/** Asks a person at the terminal for a yes. Without a terminal, or with any other answer, it is no. */
export async function confirmed({ stdin, stderr }: Pick<Io, "stdin" | "stderr">, question: string): Promise<boolean> {
  if (!isTerminal(stdin)) return false;
  stderr.write(`${question} [y/N] `);
  return /^y(?:es)?$/i.test((await line(stdin)).trim());
}

/** A secret: typed unseen at a terminal, or all of stdin without the last line's end. */
export async function secretInput({ stdin, stderr }: Pick<Io, "stdin" | "stderr">, name: string): Promise<string> {
  if (!isTerminal(stdin)) {
    let text = "";
    for await (const chunk of stdin) text += Buffer.from(chunk).toString("utf8");
    return text.replace(/\r?\n$/, "");
  }
  stderr.write(`Value of ${name} (not shown): `);
  stdin.setRawMode?.(true);
  try {
    return await line(stdin);
  } finally {
    stdin.setRawMode?.(false);
    stderr.write("\n");
  }
}

/** What is typed up to the end of the line. */
async function line(stdin: Terminal): Promise<string> {
  let typed = "";
  // Not `for await`: leaving such a loop would close the terminal's input for good.
  const chunks = stdin[Symbol.asyncIterator]();
  for (let next = await chunks.next(); !next.done; next = await chunks.next()) {
    for (const character of Buffer.from(next.value).toString("utf8")) {
      if (ENTER.test(character)) {
        stdin.pause?.();
        return typed;
      }
      if (character === CTRL_C) throw new QmError("cancelled", "nothing was entered");
      typed = BACKSPACE.has(character) ? typed.slice(0, -1) : typed + character;
    }
  }
  return typed;
}
