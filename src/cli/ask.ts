import { QmError } from "../core/errors.ts";
import type { Io } from "./io.ts";

/** A terminal's input, where there is one. */
interface Terminal extends AsyncIterable<Uint8Array | string> {
  readonly isTTY: true;
  setRawMode?(raw: boolean): unknown;
  pause?(): unknown;
}

/** Ctrl-C in place of an answer. Where the terminal is read key by key, no signal says so. */
export class Interrupted extends QmError {
  constructor() {
    super("cancelled", "nothing was entered");
  }
}

type Asking = Pick<Io, "stdin" | "stderr" | "signal">;

const ENTER = /[\r\n]/;
const CTRL_C = "\u0003";
const BACKSPACE: ReadonlySet<string> = new Set(["\b", "\u007F"]);

export function isTerminal(stdin: Io["stdin"]): stdin is Terminal {
  return "isTTY" in stdin && stdin.isTTY === true;
}

/** Asks a person at the terminal for a yes. Without a terminal, or with any other answer, it is no. */
export async function confirmed({ stdin, stderr, signal }: Asking, question: string): Promise<boolean> {
  if (!isTerminal(stdin)) return false;
  stderr.write(`${question} [y/N] `);
  return /^y(?:es)?$/i.test((await line(stdin, signal)).trim());
}

/** A secret: typed unseen at a terminal, or all of stdin without the last line's end. */
export async function secretInput({ stdin, stderr, signal }: Asking, name: string): Promise<string> {
  if (!isTerminal(stdin)) {
    let text = "";
    const chunks = stdin[Symbol.asyncIterator]();
    for (let next = await read(chunks, signal); !next.done; next = await read(chunks, signal))
      text += Buffer.from(next.value).toString("utf8");
    return text.replace(/\r?\n$/, "");
  }
  stderr.write(`Value of ${name} (not shown): `);
  stdin.setRawMode?.(true);
  try {
    return await line(stdin, signal);
  } finally {
    stdin.setRawMode?.(false);
    stderr.write("\n");
  }
}

/** What is typed up to the end of the line. */
async function line(stdin: Terminal, signal: AbortSignal): Promise<string> {
  let typed = "";
  // Not `for await`: leaving such a loop would close the terminal's input for good.
  const chunks = stdin[Symbol.asyncIterator]();
  for (let next = await read(chunks, signal); !next.done; next = await read(chunks, signal)) {
    for (const character of Buffer.from(next.value).toString("utf8")) {
      if (ENTER.test(character)) {
        stdin.pause?.();
        return typed;
      }
      if (character === CTRL_C) throw new Interrupted();
      typed = BACKSPACE.has(character) ? typed.slice(0, -1) : typed + character;
    }
  }
  return typed;
}

/** The next of what is typed, unless Ctrl-C comes first. */
async function read<T>(chunks: AsyncIterator<T>, signal: AbortSignal): Promise<IteratorResult<T>> {
  if (signal.aborted) throw new Interrupted();
  let stop = () => {};
  const interrupted = new Promise<never>((_, reject) => {
    stop = () => reject(new Interrupted());
  });
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([chunks.next(), interrupted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
