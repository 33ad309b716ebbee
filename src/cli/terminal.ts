import { Console } from "node:console";
import { Writable } from "node:stream";
import { QmError } from "../core/errors.ts";
import type { Io, TextStream } from "./context.ts";

const QUIET_MS = 1000;

/** A line that says how long something has been running, on a terminal only. Call the answer to wipe it away. */
export function showProgress(stderr: TextStream, what: string): () => void {
  if (!stderr.isTTY) return () => {};
  const started = performance.now();
  let isShown = false;
  const timer = setInterval(() => {
    isShown = true;
    const seconds = Math.round((performance.now() - started) / 1000);
    stderr.write(`\r\u001B[K${what} has been running for ${seconds} s. Ctrl-C cancels it.`);
  }, QUIET_MS);
  return () => {
    clearInterval(timer);
    if (isShown) stderr.write("\r\u001B[K");
  };
}

/** A line that says how many of how many are done, on a terminal only. */
export function showCount(stderr: TextStream, what: string) {
  let isShown = false;
  return {
    at({ done, total }: { readonly done: number; readonly total: number }): void {
      if (!stderr.isTTY) return;
      isShown = true;
      stderr.write(`\r\u001B[K${done} of ${total} ${what}. Ctrl-C stops it.`);
    },
    end(): void {
      if (isShown) stderr.write("\r\u001B[K");
    },
  };
}

const CONSOLE_METHODS = ["log", "info", "debug", "dir", "table"] as const;

/** Whatever a subject says while it works is about the answer, not the answer. */
export async function withConsoleOnStderr<T>({ stderr }: Pick<Io, "stderr">, work: () => Promise<T>): Promise<T> {
  const sink = new Writable({
    decodeStrings: false,
    write(text, _encoding, done) {
      stderr.write(String(text));
      done();
    },
  });
  const aside = new Console({ stdout: sink, stderr: sink });
  const before = CONSOLE_METHODS.map((name) => [name, console[name]] as const);
  for (const name of CONSOLE_METHODS) console[name] = aside[name].bind(aside);
  try {
    return await work();
  } finally {
    for (const [name, say] of before) console[name] = say;
  }
}

/** A terminal's input, where there is one. */
interface Terminal extends AsyncIterable<Uint8Array | string> {
  readonly isTTY: true;
  setRawMode?(raw: boolean): unknown;
  pause?(): unknown;
}

/** Ctrl-C in place of an answer. Where the terminal is read key by key, no signal says so. */
export class InterruptedError extends QmError {
  constructor() {
    super("cancelled", "nothing was entered");
  }
}

type PromptIo = Pick<Io, "stdin" | "stderr" | "signal">;

const ENTER = /[\r\n]/;
const CTRL_C = "\u0003";
const BACKSPACE: ReadonlySet<string> = new Set(["\b", "\u007F"]);

export function isTerminal(stdin: Io["stdin"]): stdin is Terminal {
  return "isTTY" in stdin && stdin.isTTY === true;
}

/** Asks a person at the terminal for a yes. Without a terminal, or with any other answer, it is no. */
export async function confirmAtTerminal({ stdin, stderr, signal }: PromptIo, question: string): Promise<boolean> {
  if (!isTerminal(stdin)) return false;
  stderr.write(`${question} [y/N] `);
  return /^y(?:es)?$/i.test((await readLine(stdin, signal)).trim());
}

/** A secret: typed unseen at a terminal, or all of stdin without the last line's end. */
export async function readSecret({ stdin, stderr, signal }: PromptIo, name: string): Promise<string> {
  if (!isTerminal(stdin)) {
    let text = "";
    const chunks = stdin[Symbol.asyncIterator]();
    for (let next = await readChunk(chunks, signal); !next.done; next = await readChunk(chunks, signal))
      text += Buffer.from(next.value).toString("utf8");
    return text.replace(/\r?\n$/, "");
  }
  stderr.write(`Value of ${name} (not shown): `);
  stdin.setRawMode?.(true);
  try {
    return await readLine(stdin, signal);
  } finally {
    stdin.setRawMode?.(false);
    stderr.write("\n");
  }
}

/** What is typed up to the end of the line. */
async function readLine(stdin: Terminal, signal: AbortSignal): Promise<string> {
  let typed = "";
  // Not `for await`: leaving such a loop would close the terminal's input for good.
  const chunks = stdin[Symbol.asyncIterator]();
  for (let next = await readChunk(chunks, signal); !next.done; next = await readChunk(chunks, signal)) {
    for (const character of Buffer.from(next.value).toString("utf8")) {
      if (ENTER.test(character)) {
        stdin.pause?.();
        return typed;
      }
      if (character === CTRL_C) throw new InterruptedError();
      typed = BACKSPACE.has(character) ? typed.slice(0, -1) : typed + character;
    }
  }
  return typed;
}

/** The next of what is typed, unless Ctrl-C comes first. */
async function readChunk<T>(chunks: AsyncIterator<T>, signal: AbortSignal): Promise<IteratorResult<T>> {
  if (signal.aborted) throw new InterruptedError();
  let stop = () => {};
  const interrupted = new Promise<never>((_, reject) => {
    stop = () => reject(new InterruptedError());
  });
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([chunks.next(), interrupted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
