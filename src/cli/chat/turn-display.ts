import type { ActorEnvelope, ActorEvent, AnswerPart, CallEndedEvent } from "../../actor/envelope.ts";
import { isRespond, readResponse } from "../../actor/respond.ts";
import { escapeUnsafe, toOneLine } from "../../core/display-text.ts";
import { clip, type Json } from "../../core/json.ts";
import type { ModelMessage } from "../../core/model.ts";
import { createEventRedactor } from "../../ledger/redact.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import type { TextStream } from "../context.ts";
import type { CommandOutput } from "../output.ts";
import { fitToWidth, measureWidth, safeJson } from "../terminal-text.ts";

export interface TurnDisplay {
  /** Shows what happens. With a stream for texts, also what the actor says while it works. */
  readonly onEvent: (event: ActorEvent) => void;
  /** Prints the parts of the answer that no event has shown. */
  end(envelope: Pick<ActorEnvelope, "parts">): void;
}

export interface TurnDisplayOptions {
  readonly actor: string;
  /** For tool calls and progress. */
  readonly notes: TextStream;
  /** For what the actor says. Absent: only `end` shows it. */
  readonly texts?: TextStream;
  readonly out: Pick<CommandOutput, "dim" | "good" | "warn" | "bad">;
  /** Removes secrets from arguments. */
  redact(value: unknown): Json;
}

/** Removes secrets as the ledger does: by the names of fields, by shape and by value. */
export function createArgumentRedactor({ config, listSecrets }: Workspace): TurnDisplayOptions["redact"] {
  return createEventRedactor({ names: config.ledger.redact, secrets: listSecrets });
}

const LABEL_LIMIT = 200;
const REASON_LIMIT = 200;
const PROGRESS_MS = 1_000;

/** Prints one turn: the text as it comes, a line for each call, and the parts of the answer. All of it is untrusted. */
export function createTurnDisplay(options: TurnDisplayOptions): TurnDisplay {
  const { notes, texts, out } = options;
  const started = new Map<string, string>();
  const shown = new Set<string>();
  const progress = createProgressLine(notes, options.actor);
  let isLineOpen = false;
  let answer = "";
  let held = "";

  function endLine(): void {
    progress.clear();
    if (isLineOpen) texts?.write("\n");
    isLineOpen = false;
  }

  function showText(piece: string): void {
    if (texts === undefined) return;
    // Half a character cannot be checked or written, so it waits for the other half.
    const text = held + piece;
    held = /[\uD800-\uDBFF]$/.exec(text)?.[0] ?? "";
    const whole = text.slice(0, text.length - held.length);
    if (whole === "") return;
    progress.end();
    answer += whole;
    texts.write(escapeUnsafe(whole));
    isLineOpen = !whole.endsWith("\n");
  }

  function endText(): void {
    endLine();
    if (answer.trim() !== "") shown.add(answer.trim());
    answer = "";
    held = "";
  }

  function showCall({ id, tool, problem }: CallEndedEvent): void {
    const label = started.get(id) ?? toOneLine(tool);
    started.delete(id);
    endText();
    // On a terminal, the line is as long as there is room. What the call was comes before why it failed.
    const width = notes.isTTY ? (notes.columns || 80) - 5 : Number.POSITIVE_INFINITY;
    const state = fitToWidth(describeState(problem), Math.max(20, Math.floor(width / 2)));
    const paint = problem === undefined ? out.good : problem.status === "waiting" ? out.warn : out.bad;
    notes.write(`  ${out.dim(fitToWidth(label, width - measureWidth(state)))}  ${paint(state)}\n`);
    progress.working(describeWork(started));
  }

  function showPart(part: AnswerPart): void {
    endText();
    const text = formatPart(part);
    if (texts === undefined || text === "" || shown.has(text)) return;
    shown.add(text);
    texts.write(`${escapeUnsafe(text)}\n`);
  }

  return {
    onEvent(event) {
      switch (event.type) {
        case "step":
          endText();
          return progress.working("is thinking");
        case "text":
          return showText(event.text);
        case "part":
          return showPart(event.part);
        case "call-started": {
          const args = safeJson(options.redact(event.args));
          started.set(event.id, clip(`${toOneLine(event.tool)} ${toOneLine(args)}`, LABEL_LIMIT));
          endText();
          return progress.working(describeWork(started));
        }
        case "call-ended":
          return showCall(event);
      }
    },
    end({ parts }) {
      for (const part of parts) if (part.partType !== "approval-request") showPart(part);
      endText();
      progress.end();
    },
  };
}

function describeState(problem: CallEndedEvent["problem"]): string {
  if (problem === undefined) return "done";
  if (problem.status === "waiting") return "waits for approval";
  return `${problem.status}: ${clip(toOneLine(problem.reason), REASON_LIMIT)}`;
}

const describeWork = (calls: ReadonlyMap<string, string>): string => {
  const [first] = calls.values();
  const tool = first?.split(" ", 1)[0] ?? "";
  return calls.size === 0 ? "is thinking" : calls.size === 1 ? `runs ${tool}` : `runs ${calls.size} calls`;
};

/** The text of a part, and its data as JSON. The error of a turn is printed with its hint, not here. */
export function formatPart({ partType, text = "", data }: AnswerPart): string {
  if (partType === "error") return "";
  return [text.trim(), data === undefined ? "" : safeJson(data, 2)].filter((each) => each !== "").join("\n");
}

/** The text of a message, and what its `respond` says. Empty: it has only calls or results. */
export function getSpokenText(message: ModelMessage): string {
  if (message.role === "tool") return "";
  const responses = message.role === "user" ? [] : message.toolCalls.flatMap(readResponseParts);
  return [message.text.trim(), ...responses.map(formatPart)].filter((each) => each !== "").join("\n");
}

/** The parts of a call of `respond`. Empty: it is another call, or the model has written it wrongly. */
export function readResponseParts({
  name,
  args,
}: {
  readonly name: string;
  readonly args: unknown;
}): readonly AnswerPart[] {
  try {
    if (!isRespond({ name })) return [];
    return readResponse(args).parts;
  } catch {
    return [];
  }
}

/** A line on the terminal that shows what is going on once it takes longer than a second. */
function createProgressLine(notes: TextStream, actor: string) {
  let since = performance.now();
  let what = "is thinking";
  let isShown = false;
  const clear = (): void => {
    if (isShown) notes.write("\r\u001B[K");
    isShown = false;
  };
  const tick = (): void => {
    const seconds = Math.round((performance.now() - since) / 1000);
    isShown = true;
    const line = `${toOneLine(actor)} ${what}: ${seconds} s. Ctrl-C interrupts it.`;
    notes.write(`\r\u001B[K${fitToWidth(line, (notes.columns || 80) - 1)}`);
  };
  let timer: NodeJS.Timeout | undefined;
  const stop = (): void => {
    clearInterval(timer);
    clear();
  };
  return {
    clear,
    working(now: string): void {
      stop();
      what = now;
      since = performance.now();
      if (notes.isTTY) timer = setInterval(tick, PROGRESS_MS);
    },
    end: stop,
  };
}
