import { hash, randomBytes } from "node:crypto";
import { type Caller, isSameCaller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { type Json, omitUndefined } from "../core/json.ts";
import { Lease, LeaseRenewal } from "../core/lease.ts";
import { type ActionName, quoteName } from "../core/names.ts";
import { createFailedOutcome, type Outcome, VALUE_LIMIT } from "../core/outcome.ts";
import type { ProcessInfo, Runtime } from "../core/runtime.ts";
import type { Approvals } from "./approval.ts";
import {
  createTurn,
  type ResumeToken,
  serializeMemo,
  type Turn,
  type TurnEvent,
  type WaitingCallView,
} from "./turn.ts";
import type { WaitingCall } from "./turn-store.ts";
import { type StoredTurn, type TurnQuery, type TurnStore, type TurnView, toTurnView } from "./turn-store.ts";

/** Turns that can wait for people longer than a process lives. */
export interface Turns {
  /** Begins a turn with the caller's turn id, or a new one. Throws `conflict` if the id is taken. */
  begin(caller: Caller, memo?: Json): Promise<Turn>;
  /**
   * Continues a turn once every waiting call has its outcome; before that, changes nothing. Exactly one process gets the
   * turn. If that process dies, the same token resumes the turn as it was. A turn that is suspended again has a new token.
   * Throws `not_found`, also for another caller's turn and for a token that was replaced, and `conflict` if the turn has
   * ended or expired, or another process has it.
   */
  resume(resumeToken: string, options?: ResumeOptions): Promise<ResumedTurn>;
  /** Throws `not_found`. */
  get(id: string): Promise<TurnView>;
  list(query?: TurnQuery): Promise<readonly TurnView[]>;
}

export interface TurnService extends Turns {
  /** The turn as it is stored, or undefined. */
  find(id: string): Promise<StoredTurn | undefined>;
  readMemo(id: string): Promise<Json | undefined>;
  findByToken(resumeToken: string): Promise<StoredTurn | undefined>;
  /** Whether no process can be working on a turn that is not over. */
  isLeft(turn: StoredTurn): boolean;
  /**
   * Continues a turn by its id, and makes its token invalid. Like `resume`, except that an expired turn can be had.
   * `isForced`: also while calls wait. They have no result then.
   */
  resumeById(id: string, options?: { readonly isForced?: boolean }): Promise<ResumedTurn>;
  prune(before: Date): Promise<number>;
  /** Stops renewing leases, so that other processes can soon resume the turns of this one. */
  close(): void;
}

export interface ResumeOptions {
  /** Its actor, tenant and user must be the turn's. */
  readonly caller?: Caller;
  /** Only reports the state, even if all calls have their outcome. */
  readonly partial?: boolean;
}

export type ResumedTurn =
  | {
      readonly state: "suspended";
      readonly turnId: string;
      readonly waiting: readonly WaitingCallView[];
      /** The calls with an outcome. They are returned again when the turn continues. */
      readonly results: readonly TurnCallResult[];
    }
  | {
      readonly state: "running";
      readonly turn: Turn;
      readonly memo: Json;
      readonly results: readonly TurnCallResult[];
    };

/** `repeat`: `outcome` is that of an inner call. Repeat the noted call: it continues with this outcome. */
export type TurnCallResult = { readonly ref: string; readonly outcome: Outcome; readonly repeat?: true };
const LEASE_MS = 15_000;
const TOKEN_BYTES = 32;
const TOKEN_LIMIT = 256;

export function createTurnService(options: {
  readonly store: TurnStore;
  readonly approvals: Pick<Approvals, "outcome" | "look" | "get">;
  readonly runtime: Runtime;
  readonly self: ProcessInfo;
  /** Records an event. Resolves when it survives the process. */
  note(caller: Caller, event: TurnEvent): Promise<void>;
}): TurnService {
  const { store, approvals, runtime, self, note } = options;
  const { now } = runtime;
  const lease = new Lease({ runtime, self, durationMs: LEASE_MS });
  const held = new LeaseRenewal(LEASE_MS / 3, () => store.renew(lease.id, lease.holder().leaseUntil));

  function hold(
    turn: Pick<StoredTurn, "id" | "caller" | "version">,
    resumeToken: string,
    nextToken?: ResumeToken,
  ): Turn {
    const key = Symbol(turn.id);
    held.add(key);
    const parts = { store, now, holder: () => lease.holder(), letGo: () => held.delete(key), showArguments, note };
    return createTurn({ ...turn, resumeToken, ...omitUndefined({ nextToken }), ...parts });
  }

  const isLeft = ({ holder }: StoredTurn): boolean => holder === undefined || lease.hasEnded(holder);

  /** Throws `conflict` if the turn has ended or another process has it. */
  function requireOpen(seen: StoredTurn): StoredTurn {
    if (seen.state !== "suspended" && seen.state !== "running")
      throw new QmError("conflict", `the turn has ended: it is ${seen.state}`, { hint: "Begin another turn." });
    if (!isLeft(seen)) throw createHeldError();
    return seen;
  }

  async function findByToken(token: string): Promise<StoredTurn | undefined> {
    const isToken = typeof token === "string" && token.length <= TOKEN_LIMIT;
    return isToken ? store.byToken(hashToken(token)) : undefined;
  }

  async function findResumable(token: string, caller: Caller | undefined): Promise<StoredTurn> {
    const seen = await findByToken(token);
    // The secret token stands for the session, so another session may continue.
    const isOwn = !caller || !seen || isSameCaller({ ...caller, session: seen.caller.session }, seen.caller);
    if (seen === undefined || !isOwn) {
      const hint =
        "Use the token from the last time the turn was suspended: each can be used once. The turn may also belong to another caller, or have been removed.";
      throw new QmError("not_found", "there is no turn to resume with this token", { hint });
    }
    if (hasExpired(seen, now())) {
      const message = `the turn could be resumed until ${seen.expiresAt}`;
      throw new QmError("conflict", message, { hint: "Begin another turn. Calls that were approved have run." });
    }
    return requireOpen(seen);
  }

  /** Continues a turn as it was read. `isForced`: also while calls wait, which have no result then. */
  async function resumeSeen(
    seen: StoredTurn,
    { token, partial = false, isForced = false }: { token?: string; partial?: boolean; isForced?: boolean },
  ): Promise<ResumedTurn> {
    const { id, caller, calls } = seen;
    const outcomes = await Promise.all(calls.map((call) => readOutcome(call, caller)));
    const waiting = calls.filter((_, at) => outcomes[at]?.status === "waiting");
    const results = calls
      .map(({ ref, inner }, at) => {
        const outcome = outcomes[at] as Outcome;
        return inner === undefined ? { ref, outcome } : { ref, outcome, repeat: true as const };
      })
      .filter(({ outcome }) => outcome.status !== "waiting");
    if ((waiting.length > 0 && !isForced) || partial)
      return { state: "suspended", turnId: id, waiting: await showArguments(waiting), results };
    const own = token === undefined ? createToken() : undefined;
    const text = await store.claim(seen, lease.holder(), now(), own?.hash);
    if (text === undefined) throw createHeldError();
    const version = seen.version + 1;
    const memo = parseMemo(text);
    if (memo === undefined) {
      // Puts the turn back unchanged, so that every attempt fails with the same reason.
      const { expiresAt } = seen;
      const change = { state: "suspended", calls, memo: text, ...omitUndefined({ expiresAt }), at: now() } as const;
      await store.write({ id, holderId: lease.id, version }, change);
      throw new QmError("store_failed", `turn ${quoteName(id)} is damaged in the store: its memo cannot be read`, {
        hint: "Another program has changed the store. Restore it from a backup, or begin another turn.",
      });
    }
    await note(caller, { type: "turn.resumed", data: { turnId: id, calls: calls.map(({ callId }) => callId) } });
    const turn = hold({ id, caller, version }, own?.token ?? token ?? "", createToken());
    return { state: "running", turn, memo, results };
  }

  /** With the arguments of each call. An approval that is no longer stored has none. */
  function showArguments(calls: readonly WaitingCall[]): Promise<readonly WaitingCallView[]> {
    const show = async (call: WaitingCall): Promise<WaitingCallView> => {
      const { args = null, masked = [] } = await approvals.get(call.approvalId).catch(ignoreNotFound);
      return { ...call, args, masked };
    };
    return Promise.all(calls.map(show));
  }

  /** The outcome of an inner call. One that was made for another actor is not shown, only that it has ended. */
  async function lookAtInner(approvalId: string, caller: Caller): Promise<Outcome> {
    const seen = await approvals.look(approvalId, { caller, timeoutMs: 0 }).catch(ignoreNotFound);
    if (isOutcome(seen)) return seen;
    const foreign = await approvals.look(approvalId, { timeoutMs: 0 });
    if (foreign.status !== "done") return foreign;
    const { status, callId, action, durationMs } = foreign;
    return { status, callId, action, durationMs, data: null, value: "it has ended" };
  }

  /** The outcome of a call. A lost one counts as failed, because the turn could never continue otherwise. */
  async function readOutcome(call: WaitingCall, caller: Caller): Promise<Outcome> {
    const { approvalId, callId, action, inner } = call;
    try {
      // The outcome of an inner call is left to the outer call, which gets it when it is repeated.
      if (inner !== undefined) return await lookAtInner(approvalId, caller);
      const outcome = await approvals.outcome(approvalId, { caller, timeoutMs: 0 });
      // An approved call may wait for an inner call in turn.
      const isInner = outcome.status === "waiting" && outcome.approval.id !== approvalId;
      return isInner ? await readOutcome({ ...call, approvalId: outcome.approval.id }, caller) : outcome;
    } catch (thrown) {
      ignoreNotFound(thrown);
      const lost = new QmError("not_found", `the outcome of this call of ${action} is no longer stored`, {
        hint: "It may have run: check before you try again.",
        details: { approval_id: approvalId },
      });
      return createFailedOutcome(
        { callId, action: action as ActionName, durationMs: 0, valueLimit: VALUE_LIMIT },
        lost,
      );
    }
  }

  return {
    async begin(asker, memo = null) {
      const id = asker.turn ?? runtime.newId();
      const caller = { ...asker, turn: id };
      const { token, hash: tokenHash } = createToken();
      const stored = { id, tokenHash, caller, memo: serializeMemo(memo) };
      if (await store.add({ ...stored, holder: lease.holder(), at: now() }))
        return hold({ id, caller, version: 1 }, token);
      const hint = "Use a new id for every turn, or none: the turn then gets one.";
      throw new QmError("conflict", "a turn with this id already exists", { hint });
    },
    resume: async (token, { caller, partial = false } = {}) =>
      resumeSeen(await findResumable(token, caller), { token, partial }),
    find: (id) => store.get(id),
    findByToken,
    readMemo: async (id) => parseMemo((await store.readMemo(id)) ?? ""),
    isLeft,
    async resumeById(id, options = {}) {
      const seen = await store.get(id);
      if (seen === undefined) throw createUnknownTurnError();
      return resumeSeen(requireOpen(seen), options);
    },
    async get(id) {
      const turn = await store.get(id);
      if (turn !== undefined) return toTurnView(turn);
      throw createUnknownTurnError();
    },
    list: async (query = {}) => (await store.list(query)).map(toTurnView),
    prune: (before) => store.prune(before),
    close: () => held.close(),
  };
}

const isOutcome = (found: Outcome | Record<string, never>): found is Outcome => "status" in found;

/** Throws any other error again. */
function ignoreNotFound(thrown: unknown): Record<string, never> {
  if (!(thrown instanceof QmError) || thrown.code !== "not_found") throw thrown;
  return {};
}

const createUnknownTurnError = () =>
  new QmError("not_found", "there is no turn with this id", { hint: "It may have been removed after its end." });

/** Whether a suspended turn can no longer be resumed with its token. */
export const hasExpired = ({ state, expiresAt }: StoredTurn, now: Date): boolean =>
  state === "suspended" && expiresAt !== undefined && now.toISOString() >= expiresAt;

function createToken(): ResumeToken {
  const token = randomBytes(TOKEN_BYTES).toString("base64url");
  return { token, hash: hashToken(token) };
}

const hashToken = (token: string): string => hash("sha256", token);

function parseMemo(text: string): Json | undefined {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function createHeldError(): QmError {
  const hint = "Do nothing here. If that process dies, the same token resumes the turn again.";
  return new QmError("conflict", "another process has continued this turn", { hint });
}
