import type { Caller } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { EventType, UnstampedEvent } from "../core/events.ts";
import type { Json } from "../core/json.ts";
import type { LeaseHolder } from "../core/lease.ts";
import type { Outcome } from "../core/outcome.ts";
import { type TurnChange, type TurnEnd, type TurnStore, turnStates, type WaitingCall } from "./turn-store.ts";

/** One model loop while this process has it. */
export interface Turn {
  readonly id: string;
  /** With the turn's id in it: calls are made for this one. */
  readonly caller: Caller;
  /** Whoever has it can go on with the turn once no process does. A secret: it is told here and kept nowhere. */
  readonly resumeToken: string;
  /** Remembers a call by the host's own name for it. One that has its outcome is not waited for any more. */
  noted(ref: string, outcome: Outcome): void;
  /**
   * Keeps the memo, and with it the calls noted as waiting: a process that goes on with the turn finds it so. What
   * `resume` gave is in the memo by then, and is not given again. Throws `too_large`, and `conflict` where another process
   * has the turn.
   */
  save(memo: Json): Promise<void>;
  /** Gives the turn up until people have answered. Throws as `save` does, and `conflict` where no call waits. */
  suspend(memo: Json): Promise<SuspendedTurn>;
  end(state: TurnEnd): Promise<void>;
}

export interface SuspendedTurn {
  readonly state: "suspended";
  readonly turnId: string;
  readonly resumeToken: string;
  /** One for each call that waits, in the order they were noted. */
  readonly parts: readonly ApprovalRequestPart[];
}

/** What the user is shown of a call that waits for them. */
export interface ApprovalRequestPart {
  readonly partType: "approval-request";
  readonly data: WaitingCall;
}

/** An event about a turn, before it is said when. */
export type TurnEvent = UnstampedEvent<Extract<EventType, `turn.${string}`>>;

export interface HeldTurnOptions {
  readonly id: string;
  readonly caller: Caller;
  readonly resumeToken: string;
  /** As it was when this process got it. */
  readonly version: number;
  readonly store: TurnStore;
  readonly now: () => Date;
  readonly holder: () => LeaseHolder;
  /** This process does not have it any more. */
  readonly letGo: () => void;
  /** Resolves when it outlives the process. */
  note(caller: Caller, event: TurnEvent): Promise<void>;
}

/** In bytes of JSON. */
export const MEMO_LIMIT = 16 * 1024 * 1024;

export function createTurn(parts: HeldTurnOptions): Turn {
  const { id, caller, resumeToken, store, now, holder, letGo, note } = parts;
  const waiting = new Map<string, WaitingCall>();
  let version = parts.version;
  /** Why this process does not have it any more. */
  let over: string | undefined;
  /** What is being written will be the last of it here. */
  let leaving: string | undefined;
  let last: Promise<unknown> = Promise.resolve();

  function assertHeld(): void {
    const why = over ?? leaving;
    if (why === undefined) return;
    throw new QmError("conflict", `the turn ${why}`, {
      hint: "Go on with what resuming it answers, or begin another.",
    });
  }

  async function writeNow(change: Omit<TurnChange, "holder" | "at">, overBy: string | undefined): Promise<void> {
    const mine = holder();
    const keeping = overBy === undefined ? { holder: mine } : {};
    const isWritten = await store.write({ id, holderId: mine.id, version }, { ...change, ...keeping, at: now() });
    version++;
    over = isWritten ? overBy : "has been taken over by another process";
    if (over !== undefined) letGo();
    if (!isWritten) assertHeld();
  }

  /** One write after the other, each in the version that the one before it made. */
  async function write(change: Omit<TurnChange, "holder" | "at">, overBy?: string): Promise<void> {
    assertHeld();
    leaving = overBy;
    const written = last.then(() => (over === undefined ? writeNow(change, overBy) : assertHeld()));
    last = written.catch(() => {});
    try {
      await written;
    } finally {
      if (overBy !== undefined) leaving = undefined;
    }
  }

  return {
    id,
    caller,
    resumeToken,
    noted(ref, outcome) {
      assertHeld();
      if (outcome.status === "waiting") waiting.set(ref, toWaitingCall(ref, outcome));
      else waiting.delete(ref);
    },
    save: async (memo) => write({ state: "running", calls: [...waiting.values()], memo: serializeMemo(memo) }),
    async suspend(memo) {
      assertHeld();
      const calls = [...waiting.values()];
      if (calls.length === 0) {
        throw new QmError("conflict", "the turn waits for nobody", {
          hint: "Only a turn with a waiting call can be suspended: note its calls first, or end it.",
        });
      }
      await write({ state: "suspended", calls, memo: serializeMemo(memo) }, "is suspended");
      const approvals = [...new Set(calls.map(({ approvalId }) => approvalId))];
      await note(caller, { type: "turn.suspended", data: { turnId: id, approvals } });
      return { state: "suspended", turnId: id, resumeToken, parts: calls.map(toRequestPart) };
    },
    async end(state) {
      if (!ends.includes(state)) throw createEndStateError(state);
      await write({ state, calls: [], memo: "null" }, "has ended");
      await note(caller, { type: "turn.ended", data: { turnId: id, state } });
    },
  };
}

const ends: readonly unknown[] = turnStates.filter((state) => state !== "running" && state !== "suspended");

/** Whoever compiles is told the same. */
function createEndStateError(state: unknown): QmError {
  return new QmError("invalid_arguments", `a turn does not end as ${JSON.stringify(state)}`, {
    hint: `It ends as one of ${ends.join(", ")}.`,
  });
}

function toRequestPart(data: WaitingCall): ApprovalRequestPart {
  return { partType: "approval-request", data };
}

function toWaitingCall(ref: string, outcome: Extract<Outcome, { status: "waiting" }>): WaitingCall {
  const { callId, action, reason, approval } = outcome;
  const { id: approvalId, level, expiresAt, preview } = approval;
  const call = { ref, callId, approvalId, action, level, reason, expiresAt };
  return preview === undefined ? call : { ...call, preview };
}

/** A memo as it is kept. Throws `invalid_arguments` on what is no JSON, and `too_large`. */
export function serializeMemo(memo: Json): string {
  const text = toMemoJson(memo);
  const bytes = Buffer.byteLength(text);
  if (bytes <= MEMO_LIMIT) return text;
  throw new QmError("too_large", `the memo of a turn has ${bytes} bytes of JSON, and may have ${MEMO_LIMIT}`, {
    hint: "Keep long results somewhere else, and their names in the memo.",
    details: { bytes, limit: MEMO_LIMIT },
  });
}

function toMemoJson(memo: Json): string {
  try {
    const text: string | undefined = JSON.stringify(memo);
    if (text !== undefined) return text;
  } catch (thrown) {
    throw createNotJsonError(getErrorMessage(thrown));
  }
  throw createNotJsonError(`it is a ${typeof memo}`);
}

function createNotJsonError(why: string): QmError {
  return new QmError("invalid_arguments", `the memo of a turn is not JSON: ${why}`, {
    hint: "Give values that JSON.stringify writes and JSON.parse gives back.",
  });
}
