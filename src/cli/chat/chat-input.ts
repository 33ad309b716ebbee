import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import { yieldToEventLoop } from "../../core/async.ts";
import type { Io } from "../context.ts";
import { isTerminal } from "../terminal.ts";

/** `interrupt`: Ctrl-C on an empty line. `end`: Ctrl-D, or the end of a file. */
export type Typed =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "interrupt" }
  | { readonly kind: "end" };

export interface ChatInput {
  readonly isInteractive: boolean;
  /** Reads a message: a line, and the next one after a trailing backslash. Between reads nothing is echoed. */
  read(prompt: string): Promise<Typed>;
  /** Reads the answer to a question. What was typed before it was asked does not count. */
  ask(question: string): Promise<Typed>;
  /** Calls back on Ctrl-C and Ctrl-D while nothing is read. Returns a function that stops it. */
  onInterrupt(listener: () => void): () => void;
  close(): void;
}

const CONTINUED = "... ";
const HISTORY_SIZE = 200;
const BRACKETED_PASTE = { on: "\u001B[?2004h", off: "\u001B[?2004l" };
const ENDS_WITH_BACKSLASH = /(?<!\\)(?:\\\\)*\\$/;

/** `history`: earlier messages, the newest first. */
export function openChatInput({ stdin, stdout }: Pick<Io, "stdin" | "stdout">, history: readonly string[]): ChatInput {
  const isInteractive = isTerminal(stdin) && stdout.isTTY;
  const input = stdin instanceof Readable ? stdin : Readable.from(stdin);
  const screen = createScreen(stdout);
  const lines = createInterface({
    input,
    ...(isInteractive ? { output: screen.stream } : {}),
    terminal: isInteractive,
    history: history.slice(0, HISTORY_SIZE),
    historySize: HISTORY_SIZE,
    removeHistoryDuplicates: true,
  });
  const complete: string[] = [];
  let pending: readonly string[] = [];
  let isPasting = false;
  let isAsking = false;
  let isEnded = false;
  let reader: ((typed: Typed) => void) | undefined;
  const interrupts = new Set<() => void>();

  lines.on("line", (line) => {
    // Pasted text is no answer to a question.
    if (isAsking && isPasting) return lines.prompt();
    if (!isAsking && (isPasting || ENDS_WITH_BACKSLASH.test(line))) {
      pending = [...pending, isPasting ? line : line.slice(0, -1)];
      return showPrompt(CONTINUED);
    }
    const text = [...pending, line].join("\n");
    pending = [];
    if (reader === undefined) complete.push(text);
    else deliver({ kind: "text", text });
  });
  lines.on("close", () => {
    isEnded = true;
    const rest = pending.join("\n");
    pending = [];
    if (rest !== "") complete.push(rest);
    if (reader !== undefined) {
      if (isInteractive) stdout.write("\n");
      readComplete();
    }
    // A file ends long before its last message is answered.
    else if (isInteractive) notifyInterrupts();
  });
  lines.on("SIGINT", () => {
    if (reader === undefined) return notifyInterrupts();
    const isEmpty = lines.line === "" && pending.length === 0;
    pending = [];
    stdout.write("^C\n");
    screen.mute();
    clearLine();
    deliver(isEmpty ? { kind: "interrupt" } : { kind: "text", text: "" });
  });
  // An answer to a question is not a message.
  lines.on("history", (entries) => {
    if (isAsking) entries.shift();
  });
  if (isInteractive) {
    input.on("keypress", (_text, key: { readonly name?: string } | undefined) => {
      if (key?.name === "paste-start") isPasting = true;
      if (key?.name === "paste-end") isPasting = false;
    });
    stdout.write(BRACKETED_PASTE.on);
  }

  function deliver(typed: Typed): void {
    const settle = reader;
    reader = undefined;
    screen.mute();
    settle?.(typed);
  }

  function notifyInterrupts(): void {
    for (const listener of interrupts) listener();
  }

  /** Only while muted: readline would draw the line. */
  function clearLine(): void {
    lines.write(null, { ctrl: true, name: "e" });
    lines.write(null, { ctrl: true, name: "u" });
  }

  function showPrompt(prompt: string): void {
    if (!isInteractive) return;
    lines.setPrompt(prompt);
    lines.prompt(true);
  }

  function readComplete(): boolean {
    const text = complete.shift();
    if (text !== undefined) deliver({ kind: "text", text });
    else if (isEnded) deliver({ kind: "end" });
    else return false;
    return true;
  }

  function next(prompt: string): Promise<Typed> {
    return new Promise((resolve) => {
      reader = resolve;
      screen.unmute();
      const [ahead] = complete;
      if (ahead !== undefined && isInteractive) stdout.write(`${prompt}${ahead.replaceAll("\n", `\n${CONTINUED}`)}\n`);
      if (!readComplete()) showPrompt(prompt);
    });
  }

  return {
    isInteractive,
    read: next,
    async ask(question) {
      // Lets readline take what was typed while the process was busy.
      await yieldToEventLoop();
      complete.length = 0;
      pending = [];
      isAsking = true;
      if (!isEnded) clearLine();
      return next(question).finally(() => {
        isAsking = false;
      });
    },
    onInterrupt(listener) {
      interrupts.add(listener);
      return () => interrupts.delete(listener);
    },
    close() {
      if (isInteractive) stdout.write(BRACKETED_PASTE.off);
      isEnded = true;
      lines.close();
      screen.close();
    },
  };
}

/** The stream that readline draws on. Muted while a turn runs, so that typing ahead does not mix with the answer. */
function createScreen(stdout: Io["stdout"]) {
  let isMuted = true;
  const stream = new Writable({
    decodeStrings: false,
    write(chunk: string | Buffer, _encoding, done) {
      if (!isMuted) stdout.write(chunk.toString());
      done();
    },
  });
  Object.defineProperty(stream, "columns", { get: () => stdout.columns || 80 });
  // Readline draws a long line anew when the size of the terminal changes.
  const onResize = () => stream.emit("resize");
  if (stdout instanceof Writable) stdout.on("resize", onResize);
  return {
    stream,
    mute() {
      isMuted = true;
    },
    unmute() {
      isMuted = false;
    },
    close() {
      if (stdout instanceof Writable) stdout.off("resize", onResize);
    },
  };
}
