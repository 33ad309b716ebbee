import { expect, onTestFinished, test, vi } from "vitest";
import type { ActorEvent, AnswerPart } from "../../actor/envelope.ts";
import { createEventRedactor } from "../../ledger/redact.ts";
import { measureWidth } from "../terminal-text.ts";
import { createTurnDisplay } from "./turn-display.ts";

const plain = (text: string) => text;

/** What a display prints. With `columns`, on a terminal. */
function show(
  events: readonly ActorEvent[],
  parts: readonly AnswerPart[] = [],
  { columns, isQuiet = false }: { columns?: number; isQuiet?: boolean } = {},
) {
  const texts: string[] = [];
  const notes: string[] = [];
  const isTTY = columns !== undefined;
  const display = createTurnDisplay({
    actor: "editor",
    notes: { write: (text) => void notes.push(text), isTTY, columns },
    ...(isQuiet ? {} : { texts: { write: (text) => void texts.push(text), isTTY, columns } }),
    out: { dim: plain, good: plain, warn: plain, bad: plain },
    redact: createEventRedactor(),
  });
  for (const event of events) display.onEvent(event);
  display.end({ parts });
  return { texts: texts.join(""), notes: notes.join("") };
}

const piece = (text: string): ActorEvent => ({ type: "text", text });
const step: ActorEvent = { type: "step", step: 1, of: 20 };
const part = (text: string, more: Partial<AnswerPart> = {}): AnswerPart => ({ partType: "response", text, ...more });
const call = (
  tool: string,
  args: unknown,
  problem?: Extract<ActorEvent, { type: "call-ended" }>["problem"],
): readonly ActorEvent[] => [
  { type: "call-started", id: "1", tool, args },
  { type: "call-ended", id: "1", tool, ok: problem === undefined, text: "", ...(problem && { problem }) },
];

test("shows a text once, although it is also a part of the answer", () => {
  const answer = part("It is done.");

  expect(show([step, piece("It is "), piece("done."), { type: "part", part: answer }], [answer]).texts).toBe(
    "It is done.\n",
  );
  expect(show([step, { type: "part", part: answer }], [answer, part("And more.")]).texts).toBe(
    "It is done.\nAnd more.\n",
  );
});

test("shows the data of a part as JSON, and leaves the error to its own message", () => {
  const { texts } = show([], [part("Found:", { data: { n: 1 } }), { partType: "error", text: "no" }]);

  expect(texts).toBe('Found:\n{\n  "n": 1\n}\n');
});

test("escapes what a terminal would act on, also in pieces, arguments and reasons", () => {
  const { texts, notes } = show([
    piece("\u001B[2J\uDB40"),
    piece("\uDC41 \uD83D"),
    piece("\uDE00"),
    ...call("a\u001Bb", { x: "\u001B]0;title\u0007\u202E" }, { status: "failed", reason: "bad\r\u001B[A\nworse" }),
  ]);

  expect(texts).toBe("\\u{1b}[2J\\u{e0041} \u{1F600}\n");
  expect(notes).toBe('  a\\u{1b}b {"x":"\\u001b]0;title\\u0007\\u202e"}  failed: bad \\u{1b}[A worse\n');
});

test("shows one line for each call, with its state and without secrets", () => {
  const { texts, notes } = show([
    piece("Let me look."),
    ...call("file__read", { path: "a.txt", password: "hunter2" }),
    ...call("file__edit", {}, { status: "waiting", reason: "Ask first." }),
    ...call("file__delete", {}, { status: "refused", reason: "Nothing is deleted here." }),
  ]);

  expect(texts).toBe("Let me look.\n");
  expect(notes.split("\n")).toEqual([
    '  file__read {"path":"a.txt","password":"[redacted]"}  done',
    "  file__edit {}  waits for approval",
    "  file__delete {}  refused: Nothing is deleted here.",
    "",
  ]);
});

test("fits the line of a call to the terminal", () => {
  const { notes } = show(
    [...call("file__read", { path: "x".repeat(300) }, { status: "failed", reason: "y".repeat(300) })],
    [],
    { columns: 60 },
  );
  const [line = ""] = notes.split("\n");

  expect(measureWidth(line)).toBeLessThanOrEqual(60);
  expect(line).toMatch(/^ {2}file__read .*… {2}failed: y+…$/);
});

test("shows on a terminal what takes longer than a second, and clears it", () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const written: string[] = [];
  const getNotes = () => written.join("");
  const display = createTurnDisplay({
    actor: "editor",
    notes: { write: (text) => void written.push(text), isTTY: true, columns: 80 },
    out: { dim: plain, good: plain, warn: plain, bad: plain },
    redact: createEventRedactor(),
  });

  display.onEvent(step);
  vi.advanceTimersByTime(2_000);
  expect(getNotes()).toContain("editor is thinking: 2 s. Ctrl-C interrupts it.");
  display.onEvent({ type: "call-started", id: "1", tool: "file__read", args: {} });
  vi.advanceTimersByTime(1_000);
  expect(getNotes()).toContain("editor runs file__read: 1 s.");
  display.end({ parts: [] });
  expect(getNotes().endsWith("\r\u001B[K")).toBe(true);
  const before = getNotes();
  vi.advanceTimersByTime(5_000);
  expect(getNotes()).toBe(before);
});

test("without a stream for texts shows the calls alone", () => {
  expect(show([piece("thinking"), ...call("file__read", {})], [part("x")], { isQuiet: true })).toEqual({
    texts: "",
    notes: "  file__read {}  done\n",
  });
});
