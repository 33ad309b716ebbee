import { EventEmitter, setMaxListeners } from "node:events";
import { raceAbort, repeatEvery, settlesWithin } from "../core/async.ts";
import { type Caller, type Dialogue, SAY_LOGGER } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { clip, type JsonObject } from "../core/json.ts";
import { Lease, LeaseRenewal } from "../core/lease.ts";
import type { Outcome } from "../core/outcome.ts";
import type { ProcessInfo, Runtime } from "../core/runtime.ts";
import {
  hasTaskEnded,
  type PeerTask,
  type PeerTaskPage,
  type PeerTaskQuery,
  type PeerTaskStore,
  type TaskMessage,
} from "./peer-task.ts";
import { toTaskEnd } from "./task-end.ts";

/** A message of a client, and the call that answers it. */
export interface TaskRequest {
  readonly client: string;
  readonly context: string;
  readonly message: TaskMessage;
  readonly action: string;
  readonly args: JsonObject;
  readonly caller: Caller;
  /** The task that asked for this message. */
  readonly task?: string | undefined;
}

/** A change of a task. `progress`: what its call tells while it runs, which is not stored. */
export type TaskUpdate = { readonly task: PeerTask; readonly progress?: string };

/** Tasks that other agents gave us. A client sees its own only. */
export interface PeerTasks {
  /** Starts a task, or continues the one that asked. A message that was sent before only returns its task. */
  send(request: TaskRequest): Promise<PeerTask>;
  /** Throws `not_found`. */
  get(client: string, id: string): Promise<PeerTask>;
  list(query: PeerTaskQuery): Promise<PeerTaskPage>;
  count(query: Omit<PeerTaskQuery, "after" | "limit">): Promise<number>;
  /** Throws `not_found`, and `conflict` if it has ended. */
  cancel(client: string, id: string): Promise<PeerTask>;
  /** The task as it is, then its changes, until it has ended or asks the client. Rejects when the signal aborts. */
  updates(client: string, id: string, signal: AbortSignal): AsyncGenerator<TaskUpdate, void, undefined>;
  /** Begins to continue the tasks of earlier processes: those that wait for a person, and those that were interrupted. */
  start(): void;
  close(): Promise<void>;
}

const LEASE_MS = 20_000;
const OPEN_LIMIT = 64;
const SCAN_LIMIT = 10_000;
const MESSAGE_LIMIT = 100;
const HISTORY_CHARS = 4 * 1024 * 1024;
/** Updates that wait for a slow client. Progress beyond is not told. */
const QUEUE_LIMIT = 100;
/** Another process may change a task. */
const POLL_MS = 1_000;
const CLOSE_MS = 2_000;
const PROGRESS_CHARS = 500;
const INTERRUPTED = {
  state: "failed",
  status: "Its process ended while it ran. It may have had its effect.",
} as const;

export function createPeerTasks(parts: {
  readonly store: PeerTaskStore;
  readonly runtime: Runtime;
  readonly self: ProcessInfo;
  /** Never rejects. */
  invoke(task: PeerTask, signal: AbortSignal, dialogue: Dialogue): Promise<Outcome>;
  /** Finds a call by its id, after a crash. `approvalId`: it asked a person. `end`: it has ended. */
  findCall(
    callId: string,
  ): Promise<{ readonly hasBegun: boolean; readonly approvalId?: string; readonly end?: object }>;
  /** Whether a call that had begun can be made again: it only reads, or continues where it was. */
  canRepeat(action: string, hasEnded: boolean): boolean;
  /** Resolves when an approval has ended. */
  waitForApproval(id: string, signal: AbortSignal): Promise<unknown>;
  /** The outcome of an approved call, for its caller. */
  takeOutcome(task: PeerTask, approvalId: string): Promise<Outcome>;
  /** Withdraws a question to a person, if it is still open. */
  withdraw(approvalId: string): Promise<void>;
  readonly onProblem: (problem: string) => void;
}): PeerTasks {
  const { store, runtime, self, onProblem } = parts;
  const lease = new Lease({ runtime, self, durationMs: LEASE_MS });
  const running = new Map<string, AbortController>();
  const renewal = new LeaseRenewal(LEASE_MS / 4, async () => {
    const held = new Set(await store.renew(lease.id, lease.holder().leaseUntil));
    // Another process has cancelled the others.
    for (const [id, controller] of running) if (!held.has(id)) controller.abort();
  });
  const changes = new EventEmitter().setMaxListeners(0);
  const closing = new AbortController();
  // Each task that waits for a person listens to it.
  setMaxListeners(0, closing.signal);
  const work = new Set<Promise<void>>();
  const followed = new Set<string>();

  async function change(seen: PeerTask, to: Omit<Parameters<PeerTaskStore["change"]>[1], "at">) {
    const task = await store.change(seen, { ...to, at: runtime.now() });
    if (task !== undefined) changes.emit(task.id, { task } satisfies TaskUpdate);
    return task;
  }

  async function getTask(client: string, id: string): Promise<PeerTask> {
    const task = await store.get(client, id);
    if (task !== undefined) return task;
    throw new QmError("not_found", "there is no such task", { hint: "It may belong to another client." });
  }

  /** Works on a task in the background. Errors are reported. */
  function run(task: PeerTask, what: () => Promise<void>): void {
    const done = what()
      .catch((thrown: unknown) => {
        if (!closing.signal.aborted) onProblem(`the task ${task.id} of ${task.client}: ${getErrorMessage(thrown)}`);
      })
      .finally(() => work.delete(done));
    work.add(done);
  }

  /** Runs the action of a task that this process holds, and stores how it ended. */
  async function execute(task: PeerTask, obtain?: () => Promise<Outcome>): Promise<void> {
    const controller = new AbortController();
    running.set(task.id, controller);
    renewal.add(task.id);
    try {
      const dialogue = createProgressDialogue(task, (progress) => changes.emit(task.id, { task, progress }));
      const outcome = await (obtain?.() ?? parts.invoke(task, controller.signal, dialogue));
      // The next process recovers a task whose call was stopped by closing this one.
      if (closing.signal.aborted && outcome.status === "failed" && outcome.error.code === "cancelled") return;
      const stored = await change(task, toTaskEnd(outcome));
      if (stored !== undefined) follow(stored);
    } finally {
      running.delete(task.id);
      renewal.delete(task.id);
    }
  }

  /** Continues a task that waits for a person, once that person has answered. */
  function follow(task: PeerTask): void {
    const { id, approval } = task;
    if (task.state !== "auth_required" || approval === undefined || followed.has(id)) return;
    followed.add(id);
    run(task, async () => {
      await parts.waitForApproval(approval.id, closing.signal).finally(() => followed.delete(id));
      const claimed = await claim(task);
      if (claimed === undefined) return;
      // The outer call gets the result of its inner call by being repeated.
      await execute(claimed, approval.inner ? undefined : () => parts.takeOutcome(claimed, approval.id));
    });
  }

  /** Takes a task for this process and a new call. Undefined: another process was first. */
  const claim = (task: PeerTask, more: Partial<Pick<PeerTask, "messages" | "args" | "caller">> = {}) =>
    change(task, { ...more, state: "working", holder: lease.holder(), callId: runtime.newId() });

  /** Goes on with a task whose process died. A call that may have had its effect is not made again. */
  async function recover(task: PeerTask): Promise<void> {
    const { hasBegun, approvalId, end } = await parts.findCall(task.callId);
    if (approvalId !== undefined) {
      const approval = { id: approvalId, inner: false };
      const waiting = await change(task, {
        state: "auth_required",
        status: "A person must approve it first.",
        approval,
      });
      if (waiting !== undefined) follow(waiting);
    } else if (hasBegun && !parts.canRepeat(task.action, end !== undefined)) await change(task, INTERRUPTED);
    else {
      const claimed = await claim(task);
      if (claimed !== undefined) run(claimed, () => execute(claimed));
    }
  }

  /** Continues tasks whose approval was answered, and ends those whose process died. */
  async function scan(): Promise<void> {
    try {
      for (const task of await store.listOpen(SCAN_LIMIT)) {
        if (task.state === "auth_required") follow(task);
        else if (task.holder === undefined || lease.hasEnded(task.holder)) await recover(task);
      }
    } catch (thrown) {
      onProblem(`the tasks of peers could not be continued: ${getErrorMessage(thrown)}`);
    }
  }
  const scanning = repeatEvery(LEASE_MS, scan);

  async function goOn({ client, message, args, caller, task: id = "" }: TaskRequest): Promise<PeerTask> {
    const task = await getTask(client, id);
    if (task.messages.some((known) => known.id === message.id)) return task;
    if (task.state !== "input_required")
      throw new QmError("conflict", `the task is ${task.state} and takes no message`, { hint: "Start another task." });
    if (task.messages.length >= MESSAGE_LIMIT)
      throw new QmError("conflict", "the task has too many messages", { hint: "Start another task." });
    const question: TaskMessage = { id: runtime.newId(), role: "agent", parts: [{ text: task.status ?? "" }] };
    const messages = [...task.messages, question, message];
    if (JSON.stringify(messages).length > HISTORY_CHARS)
      throw new QmError("conflict", "the messages of the task are too long together", { hint: "Start another task." });
    const next = await claim(task, { messages, args, caller });
    if (next === undefined) throw new QmError("conflict", "the task was changed at the same time");
    run(next, () => execute(next));
    return next;
  }

  return {
    async send(request) {
      if (request.task !== undefined) return goOn(request);
      const { task: _, ...rest } = request;
      const added = await store.add(
        { ...rest, id: runtime.newId(), callId: runtime.newId(), holder: lease.holder(), at: runtime.now() },
        OPEN_LIMIT,
      );
      if (added === undefined) {
        const hint = "Wait for some of them, or cancel them.";
        throw new QmError("overloaded", `the client has more than ${OPEN_LIMIT} open tasks`, { hint });
      }
      const { task, isNew } = added;
      if (isNew) run(task, () => execute(task));
      return task;
    },
    get: getTask,
    list: store.list,
    count: store.count,
    async cancel(client, id) {
      for (;;) {
        const task = await getTask(client, id);
        if (task.state === "cancelled") return task;
        if (hasTaskEnded(task)) throw new QmError("conflict", `the task is ${task.state}`);
        const cancelled = await change(task, { state: "cancelled", status: "The client cancelled it." });
        if (cancelled === undefined) continue;
        running.get(id)?.abort();
        if (task.approval !== undefined) await parts.withdraw(task.approval.id);
        return cancelled;
      }
    },
    async *updates(client, id, signal) {
      const queue: TaskUpdate[] = [];
      let wake = (): void => {};
      const listener = (update: TaskUpdate): void => {
        // A client that reads slowly misses progress, never a change.
        if (update.progress !== undefined && queue.length >= QUEUE_LIMIT) return;
        queue.push(update);
        wake();
      };
      changes.on(id, listener);
      const over = AbortSignal.any([signal, closing.signal]);
      try {
        let last = await getTask(client, id);
        yield { task: last };
        while (!hasTaskEnded(last) && last.state !== "input_required") {
          const next = queue.shift();
          if (next === undefined) {
            const woken = new Promise<void>((resolve) => {
              wake = resolve;
            });
            if (await raceAbort(settlesWithin(woken, POLL_MS), over)) continue;
            queue.push({ task: await getTask(client, id) });
          } else if (next.progress !== undefined || next.task.version > last.version) {
            last = next.task;
            yield next;
          }
        }
      } finally {
        changes.off(id, listener);
      }
    },
    start: scanning.start,
    async close() {
      closing.abort();
      await scanning.close();
      renewal.close();
      await settlesWithin(Promise.all(work), CLOSE_MS);
    },
  };
}

/** Passes on what a call tells while it runs. The client cannot be asked in between. */
function createProgressDialogue(task: PeerTask, tell: (text: string) => void): Dialogue {
  const say = (text: string): void => tell(clip(text, PROGRESS_CHARS));
  return {
    owner: `a2a:${task.id}`,
    capabilities: {},
    progress: ({ message }) => message === undefined || say(message),
    log({ logger, data }) {
      if (logger === SAY_LOGGER && typeof data === "string") say(data);
    },
    ask: () => Promise.reject(new QmError("conflict", "the client of this call cannot be asked")),
  };
}
