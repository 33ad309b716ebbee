import { PassThrough } from "node:stream";
import { expect, onTestFinished, test, vi } from "vitest";
import { openChatInput } from "./chat-input.ts";

const CTRL_C = "\u0003";
const CTRL_D = "\u0004";
const UP = "\u001B[A";
const ENTER = "\r";

/** An input at a terminal, with what it has drawn. */
function openAtTerminal(history: readonly string[] = []) {
  const stdin = Object.assign(new PassThrough(), { isTTY: true, setRawMode: () => {} });
  const drawn: string[] = [];
  const stdout = { write: (text: string) => void drawn.push(text), isTTY: true, columns: 80 };
  const input = openChatInput({ stdin, stdout }, history);
  onTestFinished(() => input.close());
  return { input, type: (text: string) => void stdin.write(text), getDrawn: () => drawn.join("") };
}

const text = (value: string) => ({ kind: "text", text: value });

test("reads a line, and joins lines at a trailing backslash", async () => {
  const { input, type, getDrawn } = openAtTerminal();

  const read = input.read("you> ");
  type(`one\\${ENTER}two\\\\${ENTER}`);

  expect(await read).toEqual(text("one\ntwo\\\\"));
  expect(getDrawn()).toContain("you> ");
  expect(getDrawn()).toContain("... ");
});

test("keeps pasted lines together until Enter", async () => {
  const { input, type } = openAtTerminal();

  const read = input.read("> ");
  type(`\u001B[200~a\rb\u001B[201~`);
  type(`c${ENTER}`);

  expect(await read).toEqual(text("a\nbc"));
});

test("keeps what is typed while nothing is read, without drawing it", async () => {
  const { input, type, getDrawn } = openAtTerminal();
  const listener = vi.fn();
  input.onInterrupt(listener);
  type(`ahead${ENTER}half${CTRL_C}`);
  // Readline has seen everything once the interrupt arrives.
  await vi.waitFor(() => expect(listener).toHaveBeenCalled());
  expect(getDrawn()).not.toContain("ahead");

  expect(await input.read("> ")).toEqual(text("ahead"));
  expect(getDrawn()).toContain("> ahead\n");
  const read = input.read("> ");
  type(`!${ENTER}`);
  expect(await read).toEqual(text("half!"));
});

test("takes nothing typed before a question for its answer", async () => {
  const { input, type, getDrawn } = openAtTerminal();
  type(`y${ENTER}y${ENTER}half a`);
  const asked = input.ask("Run it? ");
  await vi.waitFor(() => expect(getDrawn()).toContain("Run it? "));
  type(`n${ENTER}`);

  expect(await asked).toEqual(text("n"));
  const read = input.read("> ");
  type(`${UP}${ENTER}`);

  // The answer is not in the history either.
  expect(await read).toEqual(text("y"));
});

test("takes no pasted line for an answer", async () => {
  const { input, type, getDrawn } = openAtTerminal();
  const asked = input.ask("Run it? ");
  await vi.waitFor(() => expect(getDrawn()).toContain("Run it? "));
  type("\u001B[200~y\r\u001B[201~");
  type(`n${ENTER}`);

  expect(await asked).toEqual(text("n"));
});

test("Ctrl-C clears a line, and is an interrupt on an empty one", async () => {
  const { input, type } = openAtTerminal();
  const first = input.read("> ");
  type(`abc${CTRL_C}`);
  expect(await first).toEqual(text(""));

  const second = input.read("> ");
  type(CTRL_C);
  expect(await second).toEqual({ kind: "interrupt" });
});

test("Ctrl-C while nothing is read calls the listeners, until they stop listening", async () => {
  const { input, type } = openAtTerminal();
  const listener = vi.fn();
  const stop = input.onInterrupt(listener);
  type(CTRL_C);
  await vi.waitFor(() => expect(listener).toHaveBeenCalledTimes(1));
  stop();
  type(CTRL_C);
  const read = input.read("> ");
  type(`x${ENTER}`);

  expect(await read).toEqual(text("x"));
  expect(listener).toHaveBeenCalledTimes(1);
});

test("Ctrl-D ends it, also for the next read", async () => {
  const { input, type } = openAtTerminal();
  const read = input.read("> ");
  type(CTRL_D);

  expect(await read).toEqual({ kind: "end" });
  expect(await input.read("> ")).toEqual({ kind: "end" });
  expect(await input.ask("? ")).toEqual({ kind: "end" });
});

test("offers earlier messages", async () => {
  const { input, type } = openAtTerminal(["newest", "older"]);
  const read = input.read("> ");
  type(`${UP}${UP}${ENTER}`);

  expect(await read).toEqual(text("older"));
});

test("without a terminal reads lines and draws nothing", async () => {
  const written: string[] = [];
  const stdout = { write: (part: string) => void written.push(part), isTTY: false };
  async function* lines() {
    yield "one\\\ntwo\nthr";
    yield "ee\\";
  }
  const input = openChatInput({ stdin: lines(), stdout }, []);
  const interrupted = vi.fn();
  input.onInterrupt(interrupted);

  expect(await input.read("> ")).toEqual(text("one\ntwo"));
  expect(await input.read("> ")).toEqual(text("three"));
  expect(await input.read("> ")).toEqual({ kind: "end" });
  expect(input.isInteractive).toBe(false);
  expect(written).toEqual([]);
  expect(interrupted).not.toHaveBeenCalled();
  input.close();
});
