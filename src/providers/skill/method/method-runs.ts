import { fingerprint } from "../../../core/action.ts";
import { settlesWithin } from "../../../core/async.ts";
import { type Caller, type FlatCaller, flattenCaller } from "../../../core/caller.ts";
import { QmError } from "../../../core/errors.ts";
import type { UnstampedEvent } from "../../../core/events.ts";
import { type JsonObject, omitUndefined } from "../../../core/json.ts";
import { Lease, LeaseRenewal } from "../../../core/lease.ts";
import { quoteName } from "../../../core/names.ts";
import type { ProcessInfo, Runtime } from "../../../core/runtime.ts";
import {
  isOpenRun,
  type MethodProgress,
  type MethodResult,
  type MethodRun,
  type MethodRunQuery,
  type MethodRunStore,
  type MethodRunSummary,
  startProgress,
} from "./method-run.ts";

/** A run as people see it. */
export type MethodRunView = Omit<MethodRunSummary, "caller" | "holder"> &
  FlatCaller & {
    /** An open run that no process works on and no person has to answer. A gateway or the same call continues it. */
    readonly canContinue?: true;
  };

/** Runs of methods, for a program that shows and stops them. */
export interface Methods {
  /** Newest first. */
  list(query?: MethodRunQuery): Promise<readonly MethodRunView[]>;
  /** Stops a run, and withdraws the call that waits for a person. Throws `not_found`, and `conflict` if it has ended. */
  cancel(id: string): Promise<MethodRunView>;
}

/** A run that this process has. Every change throws if another process has taken the run, or it was cancelled. */
export interface HeldRun {
  readonly id: string;
  readonly digest: string;
  readonly isNew: boolean;
  /** As it was stored last. */
  readonly progress: MethodProgress;
  /** Aborts when the run is cancelled in this process. */
  readonly signal: AbortSignal;
  save(progress: MethodProgress): Promise<void>;
  /** Gives the run up until the approval has ended. */
  suspend(progress: MethodProgress, approvalId: string): Promise<void>;
  /** Gives the run up, so that another call can continue it. */
  release(): Promise<void>;
  end(result: MethodResult): Promise<void>;
  cancel(): Promise<void>;
}

export type OpenedRun =
  | { readonly kind: "held"; readonly run: HeldRun }
  /** It ended while its caller was away. */
  | { readonly kind: "ended"; readonly result: MethodResult };

export interface RunStart {
  readonly action: string;
  readonly digest: string;
  readonly steps: number;
  readonly args: JsonObject;
  readonly caller: Caller;
  readonly callId: string;
}

export type MethodRuns = ReturnType<typeof createMethodRuns>;
const LEASE_MS = 20_000;
const CLOSE_LIMIT_MS = 2_000;

export function createMethodRuns(options: {
  readonly store: MethodRunStore;
  readonly runtime: Runtime;
  readonly self: ProcessInfo;
  /** Whether an approval no longer waits: its call ran, was denied or has expired. */
  isAnswered(approvalId: string): Promise<boolean>;
  /** Withdraws a question to a person, if it is still open. */
  withdraw(approvalId: string): Promise<void>;
  /** Resolves when the event survives the process. */
  record(caller: Caller, event: UnstampedEvent): Promise<void>;
}) {
  const { store, runtime, self, withdraw } = options;
  const lease = new Lease({ runtime, self, durationMs: LEASE_MS });
  const renewal = new LeaseRenewal(LEASE_MS / 4, () => store.renew(lease.id, lease.holder().leaseUntil));
  const held = new Map<string, AbortController>();
  const leaving = new Set<Promise<void>>();

  /** Whether no process works on it: it waits, was released, or its process is gone. */
  function isFree({ id, holder }: MethodRunSummary): boolean {
    if (holder === undefined) return true;
    return holder.id === lease.id ? !held.has(id) : lease.hasEnded(holder);
  }

  async function canContinue(run: MethodRunSummary): Promise<boolean> {
    if (!isOpenRun(run.state) || !isFree(run)) return false;
    return run.state !== "waiting" || run.approvalId === undefined || options.isAnswered(run.approvalId);
  }

  async function recordEnd(
    run: MethodRun,
    callId: string,
    progress: MethodProgress,
    result: MethodResult | undefined,
  ): Promise<void> {
    const { id, action, caller } = run;
    const { step, requests, exports } = progress;
    const end = result === undefined ? { outcome: "cancelled" } : describeEnd(result);
    const facts = { callId, run: id, skill: action.slice("skill__".length), step, requests };
    await options.record(caller, { type: "method.ended", data: { ...facts, exports: Object.keys(exports), ...end } });
  }

  function hold(run: MethodRun, callId: string, isNew: boolean): HeldRun {
    const { id, digest, progress } = run;
    const controller = new AbortController();
    held.set(id, controller);
    renewal.add(id);
    let last = progress;
    let letGo = (): void => {};
    const left = new Promise<void>((resolve) => {
      letGo = () => {
        held.delete(id);
        renewal.delete(id);
        leaving.delete(left);
        resolve();
      };
    });
    leaving.add(left);
    const write = async (change: Pick<MethodRun, "state" | "approvalId" | "result">, next: MethodProgress) => {
      const isKept = change.state === "running";
      const holder = isKept ? { holder: lease.holder() } : {};
      let isWritten = false;
      try {
        isWritten = await store.write(id, lease.id, { ...change, ...holder, progress: next, at: runtime.now() });
      } finally {
        if (!isKept || !isWritten) letGo();
      }
      if (!isWritten) throw await createLostError(id);
      last = next;
    };
    return {
      id,
      digest,
      isNew,
      get progress() {
        return last;
      },
      signal: controller.signal,
      save: (next) => write({ state: "running" }, next),
      suspend: (next, approvalId) => write({ state: "waiting", approvalId }, next),
      async release() {
        await store.write(id, lease.id, { state: "running", progress: last, at: runtime.now() }).finally(letGo);
      },
      async end(result) {
        await write({ state: "error" in result ? "failed" : "done", result }, last);
        await recordEnd(run, callId, last, result);
      },
      async cancel() {
        if (await store.cancel(id, runtime.now()).finally(letGo)) await recordEnd(run, callId, last, undefined);
        const { approvalId } = last.pending ?? {};
        if (approvalId !== undefined) await withdraw(approvalId);
      },
    };
  }

  async function createLostError(id: string): Promise<QmError> {
    const run = await store.get(id);
    if (run?.state === "cancelled") return new QmError("cancelled", "the run of this method was cancelled");
    const hint = "Nothing else was run here. Repeat the call later to get its outcome.";
    return new QmError("conflict", "another process has continued this run of the method", { hint });
  }

  async function getRun(id: string): Promise<MethodRun> {
    const run = await store.get(id);
    if (run !== undefined) return run;
    const hint = "It may have been removed long after its end.";
    throw new QmError("not_found", `there is no run ${quoteName(id)} of a method`, { hint });
  }

  return {
    /** Starts a run, continues the open one of the same call, or answers the result of one that ended meanwhile. */
    async open({
      action,
      digest,
      steps,
      args,
      caller,
      callId,
    }: RunStart): Promise<OpenedRun & { readonly id: string }> {
      const key = hashKey(action, args, caller);
      const started = {
        id: runtime.newId(),
        key,
        action,
        digest,
        caller,
        args,
        callId,
        steps,
        progress: startProgress,
      };
      const { run, isNew } = await store.start({ ...started, holder: lease.holder(), at: runtime.now() });
      if (isNew) return { kind: "held", id: run.id, run: hold(run, callId, true) };
      if (run.result !== undefined) return { kind: "ended", id: run.id, result: run.result };
      const by = { holder: lease.holder(), callId, at: runtime.now() };
      if (isFree(run) && (await store.claim(run, by)))
        return { kind: "held", id: run.id, run: hold(run, callId, false) };
      throw new QmError("conflict", `${action} is already running with these arguments`, {
        hint: "Wait, then repeat this call to get its outcome.",
        details: { run: run.id },
      });
    },
    get: getRun,
    deliver: (id: string) => store.deliver(id),
    /** The open runs that no process works on, oldest first. */
    async listFree(): Promise<readonly MethodRunSummary[]> {
      return (await store.list({ isOpen: true, limit: Number.MAX_SAFE_INTEGER })).filter(isFree).reverse();
    },
    /** Ends a run that cannot be continued. */
    async fail(seen: MethodRunSummary, result: MethodResult): Promise<void> {
      const run = await getRun(seen.id);
      if (run.changedAt !== seen.changedAt) return;
      const by = { holder: lease.holder(), callId: run.callId, at: runtime.now() };
      if (isFree(run) && (await store.claim(run, by))) await hold(run, run.callId, false).end(result);
    },
    async list(query: MethodRunQuery = {}): Promise<readonly MethodRunView[]> {
      const views: MethodRunView[] = [];
      for (const run of await store.list(query)) {
        const view = toMethodRunView(run);
        views.push((await canContinue(run)) ? { ...view, canContinue: true } : view);
      }
      return views;
    },
    async cancel(id: string): Promise<MethodRunView> {
      const run = await getRun(id);
      if (!(await store.cancel(id, runtime.now()))) {
        const { state } = await getRun(id);
        throw new QmError("conflict", `the run has ended: it is ${state}`, { hint: "Nothing was changed." });
      }
      await recordEnd(run, run.callId, run.progress, undefined);
      held.get(id)?.abort(new QmError("cancelled", "the run of this method was cancelled"));
      if (run.approvalId !== undefined) await withdraw(run.approvalId);
      return toMethodRunView(await getRun(id));
    },
    /** Waits until aborted runs are given up. */
    async close(): Promise<void> {
      await settlesWithin(Promise.all(leaving), CLOSE_LIMIT_MS);
      renewal.close();
    },
  };
}

const describeEnd = (result: MethodResult) =>
  "error" in result
    ? { outcome: "failed", code: result.error.code, reason: result.error.message }
    : omitUndefined({ outcome: result.outcome, reason: result.reason });

/** The same for the same call of the same caller. Ignores the turn, and the session of a client that may reconnect. */
function hashKey(action: string, args: JsonObject, caller: Caller): string {
  const { turn: _, session, ...known } = caller;
  return fingerprint([action, args, known.client === undefined ? { ...known, session } : known]);
}

export function toMethodRunView(run: MethodRunSummary): MethodRunView {
  const { id, state, action, step, steps, requests, approvalId, startedAt, changedAt, outcome, reason, caller } = run;
  const facts = { id, state, action, step, steps, requests, startedAt, changedAt, ...flattenCaller(caller) };
  return { ...facts, ...omitUndefined({ outcome, reason, approvalId: isOpenRun(state) ? approvalId : undefined }) };
}
