import { Console } from "node:console";
import { createInterface } from "node:readline/promises";
import { Readable, Writable } from "node:stream";
import { raceAbort } from "../core/async.ts";
import { QmError } from "../core/errors.ts";
import { quoteName } from "../core/names.ts";
import type { Io, TextStream } from "./context.ts";

/** Shows on a terminal how long something has been running. Returns a function that clears the line. */
export function showProgress(stderr: TextStream, what: string): () => void {
  if (!stderr.isTTY) return () => {};
  const started = performance.now();
  let isShown = false;
  const timer = setInterval(() => {
    isShown = true;
    const seconds = Math.round((performance.now() - started) / 1000);
    stderr.write(`\r\u001B[K${what} has been running for ${seconds} s. Ctrl-C cancels it.`);
  }, 1000);
  return () => {
    clearInterval(timer);
    if (isShown) stderr.write("\r\u001B[K");
  };
}

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

export function toWritable(stream: TextStream): Writable {
  return new Writable({
    decodeStrings: false,
    write(chunk: string | Buffer, _encoding, done) {
      stream.write(chunk.toString());
      done();
    },
  });
}

const CONSOLE_METHODS = ["log", "info", "debug", "dir", "table"] as const;

/** Runs `work` with the global console writing to stderr: stdout is for the answer of the command. */
export async function withConsoleOnStderr<T>({ stderr }: Pick<Io, "stderr">, work: () => Promise<T>): Promise<T> {
  const sink = toWritable(stderr);
  const redirected = new Console({ stdout: sink, stderr: sink });
  const originals = CONSOLE_METHODS.map((name) => [name, console[name]] as const);
  for (const name of CONSOLE_METHODS) console[name] = redirected[name].bind(redirected);
  try {
    return await work();
  } finally {
    for (const [name, method] of originals) console[name] = method;
  }
}

/** The user pressed Ctrl-C. In raw mode the terminal sends a key instead of a signal. */
export class InterruptedError extends QmError {
  constructor(message = "interrupted before anything was entered") {
    super("cancelled", message);
  }
}

type PromptIo = Pick<Io, "stdin" | "stderr" | "signal">;

export function isTerminal(stdin: Io["stdin"]): boolean {
  return "isTTY" in stdin && stdin.isTTY === true;
}

/** Asks the person at the terminal for a yes. Without a terminal, or with any other answer, the result is false. */
export async function confirmAtTerminal(io: PromptIo, question: string): Promise<boolean> {
  return isTerminal(io.stdin) && /^y(?:es)?$/i.test((await readLine(io, `${question} [y/N] `, false)).trim());
}

/** Waits until the person at the terminal has read a page. False: they do not want the next one. */
export async function continueAtTerminal(io: PromptIo, question: string): Promise<boolean> {
  return (await readLine(io, question, false)).trim() === "";
}

/** Asks the person at the terminal to choose. Without a terminal, or with an empty answer, the first choice counts. */
export async function chooseAtTerminal<T extends string>(
  io: PromptIo,
  question: string,
  choices: readonly [T, ...T[]],
) {
  if (!isTerminal(io.stdin)) return choices[0];
  const typed = (await readLine(io, `${question} [${choices.join("/")}, default ${choices[0]}] `, false)).trim();
  const chosen = typed === "" ? choices[0] : choices.find((choice) => choice === typed.toLowerCase());
  if (chosen !== undefined) return chosen;
  throw new QmError("invalid_arguments", `${quoteName(typed)} is not one of ${choices.join(", ")}`, {
    hint: "Nothing was changed. Try again.",
  });
}

/** Reads a secret: typed without echo at a terminal, otherwise all of stdin without the last line break. */
export async function readSecret(io: PromptIo, name: string): Promise<string> {
  if (isTerminal(io.stdin))
    return readLine(io, `Value of ${name} (not shown): `, true).finally(() => io.stderr.write("\n"));
  let text = "";
  for await (const chunk of readChunks(io)) text += Buffer.from(chunk).toString("utf8");
  return text.replace(/\r?\n$/, "");
}

/** Reads stdin until it ends. Throws an `InterruptedError` on Ctrl-C. */
export async function* readChunks({ stdin, signal }: Pick<Io, "stdin" | "signal">, interruptMessage?: string) {
  // Not `for await`: leaving such a loop would wait for the input to be closed.
  const chunks = stdin[Symbol.asyncIterator]();
  for (;;) {
    const next = await raceAbort(chunks.next(), signal).catch((thrown: unknown) => {
      throw signal.aborted ? new InterruptedError(interruptMessage) : thrown;
    });
    if (next.done) return;
    yield next.value;
  }
}

/** One typed line. Empty at the end of the input. */
async function readLine({ stdin, stderr, signal }: PromptIo, prompt: string, isHidden: boolean): Promise<string> {
  const lines = createInterface({
    input: stdin instanceof Readable ? stdin : Readable.from(stdin),
    // Without an output the terminal itself echoes what is typed. With one, readline echoes: here into nothing.
    ...(isHidden ? { output: new Writable({ write: (_chunk, _encoding, done) => done() }) } : {}),
    terminal: isHidden,
    historySize: 0,
  });
  stderr.write(prompt);
  try {
    return await new Promise<string>((resolve, reject) => {
      lines.once("SIGINT", () => reject(new InterruptedError()));
      // Later than the last line, which readline passes on in the same turn.
      lines.once("close", () => setImmediate(resolve, ""));
      lines.question("", { signal }).then(resolve, () => {
        if (signal.aborted) reject(new InterruptedError());
        else resolve("");
      });
    });
  } finally {
    lines.close();
  }
}
