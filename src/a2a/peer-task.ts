import type { Caller } from "../core/caller.ts";
import type { Json, JsonObject } from "../core/json.ts";
import type { LeaseHolder } from "../core/lease.ts";

export const peerTaskStates = [
  "working",
  "input_required",
  "auth_required",
  "completed",
  "failed",
  "cancelled",
  "rejected",
] as const;

/**
 * - `working`: a process runs its action
 * - `input_required`: the actor has asked the client something
 * - `auth_required`: a person must approve a call first
 * - `completed`, `failed`, `cancelled`: ended
 * - `rejected`: refused by the policy, a budget or a person
 */
export type PeerTaskState = (typeof peerTaskStates)[number];

export type TaskPart = { readonly text: string } | { readonly data: Json };

export interface TaskMessage {
  readonly id: string;
  readonly role: "client" | "agent";
  readonly parts: readonly TaskPart[];
}

/** A message of another agent and what became of it: one call of an exposed action. */
export interface PeerTask {
  readonly id: string;
  /** The name of the client in `a2a.clients`. Only this client can see the task. */
  readonly client: string;
  readonly context: string;
  readonly state: PeerTaskState;
  readonly action: string;
  readonly args: JsonObject;
  readonly caller: Caller;
  /** The id of its last call, chosen before the call was made, so that it can be found after a crash. */
  readonly callId: string;
  /** Oldest first. */
  readonly messages: readonly TaskMessage[];
  /** Explains the state: a question, a reason. */
  readonly status?: string;
  readonly result: readonly TaskPart[];
  /** The approval that an `auth_required` task waits for. `inner`: of a call inside its own. */
  readonly approval?: { readonly id: string; readonly inner: boolean };
  /** The process that runs it. */
  readonly holder?: LeaseHolder;
  /** Rises with every change. */
  readonly version: number;
  readonly startedAt: string;
  readonly changedAt: string;
}

export type NewPeerTask = Pick<PeerTask, "id" | "client" | "context" | "action" | "args" | "caller" | "callId"> & {
  readonly message: TaskMessage;
  readonly holder: LeaseHolder;
  readonly at: Date;
};

/** Fields left out become empty, except the messages, the action, its arguments, caller and call. */
export type TaskChange = Pick<PeerTask, "state" | "status" | "approval" | "holder"> &
  Partial<Pick<PeerTask, "result" | "messages" | "args" | "caller" | "callId">> & { readonly at: Date };

export interface PeerTaskQuery {
  readonly client: string;
  readonly context?: string;
  readonly state?: PeerTaskState;
  /** Changed after this time. */
  readonly since?: string;
  /** Older than this task, in the order of the list. */
  readonly after?: Pick<PeerTask, "id" | "changedAt">;
  readonly limit: number;
}

/** `hasMore`: others follow, because of the limit or because these are long. */
export type PeerTaskPage = { readonly tasks: readonly PeerTask[]; readonly hasMore: boolean };

export interface PeerTaskStore {
  /**
   * Adds a task. A message that the client has sent before gives its first task again. Undefined: the client has too many
   * open tasks.
   */
  add(task: NewPeerTask, maxOpen: number): Promise<{ readonly task: PeerTask; readonly isNew: boolean } | undefined>;
  get(client: string, id: string): Promise<PeerTask | undefined>;
  /** Last changed first. */
  list(query: PeerTaskQuery): Promise<PeerTaskPage>;
  count(query: Omit<PeerTaskQuery, "after" | "limit">): Promise<number>;
  /** The tasks that a process works on or that wait for a person, oldest first. */
  listOpen(limit: number): Promise<readonly PeerTask[]>;
  /** Changes a task if it still has the version that was seen. Undefined: another change was first. */
  change(seen: PeerTask, change: TaskChange): Promise<PeerTask | undefined>;
  /** Renews the lease of a holder. Returns the tasks that it still has. */
  renew(holderId: string, leaseUntil: Date): Promise<readonly string[]>;
  /** Removes tasks that ended, or were asked something, before this time. */
  prune(before: Date): Promise<number>;
}

export const hasTaskEnded = ({ state }: Pick<PeerTask, "state">): boolean =>
  state === "completed" || state === "failed" || state === "cancelled" || state === "rejected";
