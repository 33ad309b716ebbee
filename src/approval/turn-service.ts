import { hash, randomBytes } from "node:crypto";
import { type Caller, isSameCaller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import { Lease, LeaseRenewal } from "../core/lease.ts";
import { type ActionName, quoteName } from "../core/names.ts";
import { createFailedOutcome, type Outcome, VALUE_LIMIT } from "../core/outcome.ts";
import type { ProcessInfo, Runtime } from "../core/runtime.ts";
import type { Approvals } from "./approval.ts";
import { createTurn, serializeMemo, type Turn, type TurnEvent } from "./turn.ts";
import type { StoredTurn, TurnQuery, TurnState, TurnStore, WaitingCall } from "./turn-store.ts";
import { type TurnView, toTurnView } from "./turn-store.ts";

/** Turns that can wait for people longer than a process lives. */
export interface Turns {
  /** Begins a turn of the caller's id for it, or of a new one. Throws `conflict` where there was one of that id. */
  begin(caller: Caller, memo?: Json): Promise<Turn>;
  /**
   * Goes on with a turn once every call that waited has its outcome; before that, nothing is changed. Exactly one process
   * gets it. One that dies with it leaves it as it was, for the same token. Throws `not_found`, also for another caller's,
   * and `conflict` where the turn has ended or another process has it.
   */
  resume(resumeToken: string, options?: ResumeOptions): Promise<ResumedTurn>;
  /** Throws `not_found`. */
  get(id: string): Promise<TurnView>;
  /** The last changed first. */
  list(query?: TurnQuery): Promise<readonly TurnView[]>;
}

/** Turns, for whoever opened them. */
export interface TurnService extends Turns {
  /** Removes what ended before that. Answers how many. */
  prune(before: Date): Promise<number>;
  /** Renews no lease any more: what this process has is soon another's to resume. */
  close(): void;
}

export interface ResumeOptions {
  /** Who asks. Actor, tenant and user must be the turn's. */
  readonly caller?: Caller;
  /** Only says how far it is, also where nobody is waited for any more. */
  readonly partial?: boolean;
}

export type ResumedTurn =
  | {
      readonly state: "suspended";
      readonly turnId: string;
      /** Those that have no outcome yet. */
      readonly waiting: readonly WaitingCall[];
      /** Those that have. They are told again when the turn goes on. */
      readonly results: readonly TurnCallResult[];
    }
  | {
      readonly state: "running";
      readonly turn: Turn;
      /** As it was last kept. */
      readonly memo: Json;
      /** Every call that waited then, in the order they were noted. */
      readonly results: readonly TurnCallResult[];
    };

export interface TurnCallResult {
  readonly ref: string;
  readonly outcome: Outcome;
}

export interface TurnServiceOptions {
  readonly store: TurnStore;
  readonly approvals: Pick<Approvals, "outcome">;
  readonly runtime: Runtime;
  readonly self: ProcessInfo;
  /** Resolves when it outlives the process. */
  note(caller: Caller, event: TurnEvent): Promise<void>;
}

const LEASE_MS = 15_000;
const TOKEN_BYTES = 32;
const TOKEN_LIMIT = 256;

export function createTurnService({ store, approvals, runtime, self, note }: TurnServiceOptions): TurnService {
  const { now } = runtime;
  const lease = new Lease({ runtime, self, durationMs: LEASE_MS });
  const held = new LeaseRenewal(LEASE_MS / 3, () => store.renew(lease.id, lease.holder().leaseUntil));

  function hold(turn: Pick<StoredTurn, "id" | "caller" | "version">, resumeToken: string): Turn {
    const key = Symbol(turn.id);
    held.add(key);
    const letGo = () => held.delete(key);
    return createTurn({ ...turn, resumeToken, store, now, holder: () => lease.holder(), letGo, note });
  }

  async function findResumable(token: string, caller: Caller | undefined): Promise<StoredTurn> {
    const isToken = typeof token === "string" && token.length <= TOKEN_LIMIT;
    const seen = isToken ? await store.byToken(hashToken(token)) : undefined;
    // The token, which is a secret, stands for the session: another one may go on.
    const asker = caller && seen && { ...caller, session: seen.caller.session };
    if (seen === undefined || (asker !== undefined && !isSameCaller(asker, seen.caller)))
      throw createUnknownTokenError();
    if (seen.state === "suspended") return seen;
    if (seen.state !== "running") throw createEndedError(seen.state);
    if (seen.holder !== undefined && !lease.hasEnded(seen.holder)) throw createHeldError();
    return seen;
  }

  async function readOutcome(call: WaitingCall, caller: Caller): Promise<Outcome> {
    try {
      return await approvals.outcome(call.approvalId, { caller, timeoutMs: 0 });
    } catch (thrown) {
      if (!(thrown instanceof QmError) || thrown.code !== "not_found") throw thrown;
      // Or the turn could never go on.
      const { callId } = call;
      const action = call.action as ActionName;
      return createFailedOutcome(
        { callId, action, durationMs: 0, valueLimit: VALUE_LIMIT },
        createLostOutcomeError(call),
      );
    }
  }

  return {
    async begin(asker, memo = null) {
      const id = asker.turn ?? runtime.newId();
      const caller = { ...asker, turn: id };
      const resumeToken = randomBytes(TOKEN_BYTES).toString("base64url");
      const turn = {
        id,
        tokenHash: hashToken(resumeToken),
        caller,
        memo: serializeMemo(memo),
        holder: lease.holder(),
        at: now(),
      };
      if (await store.add(turn)) return hold({ id, caller, version: 1 }, resumeToken);
      throw new QmError("conflict", "there is a turn of that id already", {
        hint: "Give every turn an id of its own, or none: it gets one then.",
      });
    },
    async resume(resumeToken, { caller: asker, partial = false } = {}) {
      const seen = await findResumable(resumeToken, asker);
      const { id, caller, calls } = seen;
      const outcomes = await Promise.all(calls.map((call) => readOutcome(call, caller)));
      const all = calls.map((call, at) => ({ call, outcome: outcomes[at] as Outcome }));
      const waiting = all.filter(({ outcome }) => outcome.status === "waiting").map(({ call }) => call);
      const results = all
        .filter(({ outcome }) => outcome.status !== "waiting")
        .map(({ call: { ref }, outcome }) => ({ ref, outcome }));
      if (waiting.length > 0 || partial) return { state: "suspended", turnId: id, waiting, results };
      const text = await store.claim(seen, lease.holder(), now());
      if (text === undefined) throw createHeldError();
      const version = seen.version + 1;
      const memo = parseMemo(text);
      if (memo === undefined) {
        // As it was: nobody can go on with it, and whoever tries is told why.
        await store.write({ id, holderId: lease.id, version }, { state: "suspended", calls, memo: text, at: now() });
        throw createDamagedMemoError(id);
      }
      await note(caller, { type: "turn.resumed", data: { turnId: id, calls: calls.map(({ callId }) => callId) } });
      return { state: "running", turn: hold({ id, caller, version }, resumeToken), memo, results };
    },
    async get(id) {
      const turn = await store.get(id);
      if (turn !== undefined) return toTurnView(turn);
      throw new QmError("not_found", "there is no turn of that id", {
        hint: "It may have been removed since it ended.",
      });
    },
    async list(query = {}) {
      return (await store.list(query)).map(toTurnView);
    },
    prune: (before) => store.prune(before),
    close() {
      held.close();
    },
  };
}

function hashToken(token: string): string {
  return hash("sha256", token);
}

function parseMemo(text: string): Json | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function createDamagedMemoError(id: string): QmError {
  return new QmError("store_failed", `turn ${quoteName(id)} is damaged in the store: its memo cannot be read`, {
    hint: "Something else has written to the store. Restore it from a backup, or begin another turn.",
  });
}

function createUnknownTokenError(): QmError {
  return new QmError("not_found", "there is no turn to resume with this token", {
    hint: "Give the token as it was told when the turn was suspended; it may be another caller's, or long over.",
  });
}

function createEndedError(state: TurnState): QmError {
  return new QmError("conflict", `the turn has ended: it is ${state}`, { hint: "Begin another." });
}

function createHeldError(): QmError {
  return new QmError("conflict", "another process goes on with this turn", {
    hint: "Nothing is to be done here. Should that process die, the same token resumes the turn again.",
  });
}

function createLostOutcomeError({ approvalId, action }: WaitingCall): QmError {
  return new QmError("not_found", `what became of this call of ${action} is not kept any more`, {
    hint: "It may have run: look before anything is tried again.",
    details: { approval_id: approvalId },
  });
}
