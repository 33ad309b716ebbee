import { QmError } from "../core/errors.ts";
import { clip, isRecord, type Json, omitUndefined } from "../core/json.ts";
import type { ModelAnswer, ModelMessage } from "../core/model.ts";
import type { AnswerPart } from "./envelope.ts";

/** A call of the model that has no result message yet. */
export interface OpenCall {
  /** The id that the model's provider gave it. */
  readonly id: string;
  readonly name: string;
  readonly args: Json;
  /** The id in the ledger, chosen before the call is made. */
  readonly callId: string;
  /** The result for the model. Absent: it has not ended. */
  readonly text?: string;
  readonly ok?: boolean;
  /** Whether it failed only for its name or arguments, or they were corrected. */
  readonly isMalformed?: true;
  /** The approval that it waits or waited for. `isInner`: of a call that this one made. */
  readonly approvalId?: string;
  readonly isInner?: true;
}

/** The state of a turn, stored as its memo. Plain data: another process continues from it. */
export interface TurnProgress {
  readonly message: string;
  /** The conversation of this turn, from the user's message on. */
  readonly messages: readonly ModelMessage[];
  /** Requests that count towards the limit, and all of them. */
  readonly steps: number;
  readonly requests: number;
  /** Requests in a row that did not count, because the model only made mistakes of form. */
  readonly uncounted: number;
  readonly calls: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cost?: number;
  /** The parts that were delivered. */
  readonly parts: readonly AnswerPart[];
  /** The calls of the last message. Absent: the next thing is a request. */
  readonly open?: readonly OpenCall[];
}

export const startTurnProgress = (message: string): TurnProgress => ({
  message,
  messages: [{ role: "user", text: message }],
  steps: 0,
  requests: 0,
  uncounted: 0,
  calls: 0,
  inputTokens: 0,
  outputTokens: 0,
  parts: [],
});

/** Reads a memo. Throws `conflict` for one of a host's own loop. */
export function readProgress(memo: Json): TurnProgress {
  if (isRecord(memo) && Array.isArray(memo.messages) && typeof memo.requests === "number")
    return memo as unknown as TurnProgress;
  throw new QmError("conflict", "this turn does not belong to an actor", { hint: "Use turns.resume." });
}

export const addUse = (progress: TurnProgress, answer: ModelAnswer, cost: number | undefined): TurnProgress => ({
  ...progress,
  inputTokens: progress.inputTokens + answer.inputTokens,
  outputTokens: progress.outputTokens + answer.outputTokens,
  ...(cost === undefined ? {} : { cost: (progress.cost ?? 0) + cost }),
});

/** For the envelope. */
export const countUse = ({ requests, calls, inputTokens, outputTokens, cost }: TurnProgress) => ({
  steps: requests,
  calls,
  usage: { inputTokens, outputTokens, ...omitUndefined({ cost }) },
});

const TITLE_CHARS = 80;

/** The title of a session that begins with this message. */
export const toTitle = (message: string): string => clip(message.trim().split("\n", 1)[0] ?? "", TITLE_CHARS);

/** Adds a result for every open call, so that no call in the history lacks one. */
export function closeOpenCalls(progress: TurnProgress, missing: string): TurnProgress {
  const { open, ...rest } = progress;
  if (open === undefined) return progress;
  const results = open.map(({ id, name, text = missing }) => ({ id, name, text }));
  return { ...rest, messages: [...progress.messages, { role: "tool", results }] };
}
