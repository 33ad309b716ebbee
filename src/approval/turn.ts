import { Mutex } from "../core/async.ts";
import type { Caller } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { EventType, UnstampedEvent } from "../core/events.ts";
import { type Json, omitUndefined } from "../core/json.ts";
import type { LeaseHolder } from "../core/lease.ts";
import type { Outcome, WaitingOutcome } from "../core/outcome.ts";
import type { ApprovalView } from "./approval.ts";
import { type TurnChange, type TurnEnd, type TurnStore, turnStates, type WaitingCall } from "./turn-store.ts";

export interface Turn {
  readonly id: string;
  /** The caller with the turn's id. Make the turn's calls for it. */
  readonly caller: Caller;
  /** A secret that resumes the turn if this process dies. Only its hash is stored. */
  readonly resumeToken: string;
  /** Remembers a waiting call by the host's own name for it, or forgets one that has its outcome. */
  noted(ref: string, outcome: Outcome): void;
  /**
   * Stores the memo and the waiting calls for a process that resumes the turn. The memo must contain the results that
   * `resume` returned, because they are not returned again. Throws `too_large`, and `conflict` if another process has the turn.
   */
  save(memo: Json): Promise<void>;
  /**
   * Gives the turn up until people have answered. A turn that was resumed before gets a new token. Throws as `save` does,
   * and `conflict` if no call waits.
   */
  suspend(memo: Json): Promise<SuspendedTurn>;
  /** Gives the turn up as it was stored last, for example when the process ends. The token resumes it at once. */
  release(): Promise<void>;
  end(state: TurnEnd): Promise<void>;
}

export interface SuspendedTurn {
  readonly state: "suspended";
  readonly turnId: string;
  readonly resumeToken: string;
  /** A day after the last of its approvals expires. The turn cannot be resumed later. */
  readonly expiresAt: string;
  /** One for each waiting call, in the order they were noted. */
  readonly parts: readonly ApprovalRequestPart[];
}

export type ApprovalRequestPart = { readonly partType: "approval-request"; readonly data: WaitingCallView };

/** A waiting call with what would run: the arguments as approvers see them, with known secrets masked. */
export type WaitingCallView = WaitingCall & Pick<ApprovalView, "args" | "masked">;
export type TurnEvent = UnstampedEvent<Extract<EventType, `turn.${string}`>>;

/** A token and the hash that is stored of it. */
export type ResumeToken = { readonly token: string; readonly hash: string };

/** After the last approval has expired, so that an answer at the last moment is not lost. */
const RESUME_GRACE_MS = 24 * 60 * 60 * 1000;

function computeExpiry(calls: readonly WaitingCall[], now: Date): string {
  const ends = calls.map(({ expiresAt }) => Date.parse(expiresAt)).filter(Number.isFinite);
  return new Date(Math.max(now.getTime(), ...ends) + RESUME_GRACE_MS).toISOString();
}

/** In bytes of JSON. */
export const MEMO_LIMIT = 16 * 1024 * 1024;

export function createTurn(options: {
  readonly id: string;
  readonly caller: Caller;
  readonly resumeToken: string;
  /** A new token for the next suspension. Absent: the present one has not been used. */
  readonly nextToken?: ResumeToken;
  /** The stored version when this process got the turn. */
  readonly version: number;
  readonly store: TurnStore;
  readonly now: () => Date;
  readonly holder: () => LeaseHolder;
  readonly letGo: () => void;
  showArguments(calls: readonly WaitingCall[]): Promise<readonly WaitingCallView[]>;
  /** Records an event. Resolves when it survives the process. */
  note(caller: Caller, event: TurnEvent): Promise<void>;
}): Turn {
  const { id, caller, resumeToken, nextToken, store, now, holder, letGo, note } = options;
  const waiting = new Map<string, WaitingCall>();
  /** Orders the writes, because each needs the version of the one before. */
  const mutex = new Mutex();
  let version = options.version;
  let over: string | undefined;
  /** The value of `over` after the write in progress. */
  let leaving: string | undefined;

  function assertHeld(): void {
    const why = over ?? leaving;
    if (why === undefined) return;
    throw new QmError("conflict", `the turn ${why}`, { hint: "Use the turn that resuming returns, or begin another." });
  }

  /** Stores a change. `overBy` gives the turn up afterwards. */
  async function write(change: Omit<TurnChange, "holder" | "at">, overBy?: string): Promise<void> {
    assertHeld();
    leaving = overBy;
    try {
      await mutex.run(async () => {
        if (over !== undefined) return assertHeld();
        const mine = holder();
        const next = overBy === undefined ? { holder: mine } : {};
        const isWritten = await store.write({ id, holderId: mine.id, version }, { ...change, ...next, at: now() });
        version++;
        over = isWritten ? overBy : "has been taken over by another process";
        if (over !== undefined) letGo();
        if (!isWritten) assertHeld();
      });
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
        const hint = "Only a turn with a waiting call can be suspended: note its calls first, or end it.";
        throw new QmError("conflict", "no call of the turn waits for a person", { hint });
      }
      const expiresAt = computeExpiry(calls, now());
      const change = { state: "suspended", calls, memo: serializeMemo(memo), expiresAt } as const;
      await write({ ...change, ...omitUndefined({ tokenHash: nextToken?.hash }) }, "is suspended");
      const approvals = [...new Set(calls.map(({ approvalId }) => approvalId))];
      await note(caller, { type: "turn.suspended", data: { turnId: id, approvals } });
      const parts = (await options.showArguments(calls)).map(
        (data) => ({ partType: "approval-request", data }) as const,
      );
      return { state: "suspended", turnId: id, resumeToken: nextToken?.token ?? resumeToken, expiresAt, parts };
    },
    async release() {
      assertHeld();
      leaving = "was given up";
      await mutex.run(async () => {
        if (over !== undefined) return assertHeld();
        over = leaving;
        letGo();
        await store.release(id, holder().id, now());
      });
    },
    async end(state) {
      const ends: readonly unknown[] = turnStates.filter((each) => each !== "running" && each !== "suspended");
      if (!ends.includes(state))
        throw new QmError("invalid_arguments", `a turn cannot end as ${JSON.stringify(state)}`, {
          hint: `Use one of ${ends.join(", ")}.`,
        });
      await write({ state, calls: [], memo: "null" }, "has ended");
      await note(caller, { type: "turn.ended", data: { turnId: id, state } });
    },
  };
}

function toWaitingCall(ref: string, outcome: WaitingOutcome): WaitingCall {
  const { callId, action, reason, approval } = outcome;
  const { id: approvalId, inner, level, expiresAt, preview } = approval;
  return omitUndefined({ ref, callId, approvalId, action, inner, level, reason, expiresAt, preview });
}

/** The memo as it is stored. Throws `invalid_arguments` if it is not JSON, and `too_large`. */
export function serializeMemo(memo: Json): string {
  const text = toMemoJson(memo);
  const bytes = Buffer.byteLength(text);
  if (bytes <= MEMO_LIMIT) return text;
  const message = `the memo of a turn has ${bytes} bytes of JSON; the limit is ${MEMO_LIMIT}`;
  const hint = "Store long results elsewhere, and keep their names in the memo.";
  throw new QmError("too_large", message, { hint, details: { bytes, limit: MEMO_LIMIT } });
}

function toMemoJson(memo: Json): string {
  let problem = `it is a ${typeof memo}`;
  try {
    const text: string | undefined = JSON.stringify(memo);
    if (text !== undefined) return text;
  } catch (thrown) {
    problem = getErrorMessage(thrown);
  }
  const hint = "Use values that JSON.stringify writes and JSON.parse reads back.";
  throw new QmError("invalid_arguments", `the memo of a turn is not JSON: ${problem}`, { hint });
}
