import type { Caller } from "../../../core/caller.ts";
import type { ErrorCode } from "../../../core/errors.ts";
import type { Json, JsonObject } from "../../../core/json.ts";
import type { LeaseHolder } from "../../../core/lease.ts";
import type { ModelMessage, ModelToolResult } from "../../../core/model.ts";

export const methodRunStates = ["running", "waiting", "done", "failed", "cancelled"] as const;

/**
 * - `running`: one process has it while it renews its lease. Without one, its process ended and another may continue it
 * - `waiting`: a call of it waits for a person, and no process has it
 * - `done`: it ended with a declared outcome, which need not be a success
 * - `failed`: it ended with `failed`, without an end, or not accepted
 * - `cancelled`: its caller or an operator stopped it
 */
export type MethodRunState = (typeof methodRunStates)[number];

export const isOpenRun = (state: MethodRunState): boolean => state === "running" || state === "waiting";

/** An action call of the model whose result is not stored yet. */
export interface PendingCall {
  /** The id in the ledger. */
  readonly callId: string;
  readonly action: string;
  readonly args: Json;
  /** The approval it waits for. */
  readonly approvalId?: string;
  /** Whether the approval is of a call that this one made. */
  readonly isInner?: boolean;
}

/** The state of a run. Plain data: another process continues from it. */
export interface MethodProgress {
  /** Counted from 1. */
  readonly step: number;
  /** Requests to the model: in all, and in this step. */
  readonly requests: number;
  readonly stepRequests: number;
  /** The results of the finished steps, for later ones. */
  readonly results: readonly string[];
  readonly exports: JsonObject;
  /** The exports that are handles of notes. */
  readonly handles: readonly string[];
  /** The conversation of this step. */
  readonly messages: readonly ModelMessage[];
  /** The results so far for the calls of the last message. Absent: the next thing is a request. */
  readonly answers?: readonly ModelToolResult[];
  readonly pending?: PendingCall;
  /** Whether the model was reminded in this step to call a tool. */
  readonly isReminded?: boolean;
  /** The end that was not accepted last. */
  readonly rejected?: string;
}

export const startProgress: MethodProgress = {
  step: 1,
  requests: 0,
  stepRequests: 0,
  results: [],
  exports: {},
  handles: [],
  messages: [],
};

/** The result of a method for its caller. */
export type MethodResult =
  | {
      readonly outcome: string;
      readonly reason?: string;
      readonly exports: JsonObject;
      readonly steps_done: number;
      readonly requests: number;
    }
  | {
      readonly error: {
        readonly code: ErrorCode;
        readonly message: string;
        readonly hint?: string;
        readonly details: JsonObject;
      };
    };

/** A run without its long parts, for lists. */
export interface MethodRunSummary {
  readonly id: string;
  readonly state: MethodRunState;
  /** The name of the skill's action. */
  readonly action: string;
  readonly caller: Caller;
  readonly step: number;
  readonly steps: number;
  readonly requests: number;
  readonly holder?: LeaseHolder;
  readonly approvalId?: string;
  readonly startedAt: string;
  readonly changedAt: string;
  readonly outcome?: string;
  /** Why it failed. */
  readonly reason?: string;
}

export interface MethodRun extends MethodRunSummary {
  readonly key: string;
  /** The digest of the skill when the run started. */
  readonly digest: string;
  readonly args: JsonObject;
  /** The last call that ran it. */
  readonly callId: string;
  readonly progress: MethodProgress;
  readonly result?: MethodResult;
}

export type NewMethodRun = Pick<
  MethodRun,
  "id" | "key" | "action" | "digest" | "caller" | "args" | "callId" | "steps" | "progress"
> & {
  readonly holder: LeaseHolder;
  readonly at: Date;
};

export interface MethodRunChange extends Pick<MethodRun, "state" | "progress" | "approvalId" | "holder" | "result"> {
  readonly at: Date;
  readonly isDelivered?: boolean;
}

export interface MethodRunQuery {
  readonly state?: MethodRunState;
  /** Only runs that have not ended. */
  readonly isOpen?: boolean;
  /** Newest first. Default: 100. */
  readonly limit?: number;
}

/** Of several processes that want the same run, exactly one gets it. */
export interface MethodRunStore {
  /** Adds a run, or answers the one of the same key that is open or whose result was not delivered. */
  start(run: NewMethodRun): Promise<{ readonly run: MethodRun; readonly isNew: boolean }>;
  get(id: string): Promise<MethodRun | undefined>;
  list(query: MethodRunQuery): Promise<readonly MethodRunSummary[]>;
  /** Takes an open run that has not changed since it was read. */
  claim(
    seen: MethodRunSummary,
    by: { readonly holder: LeaseHolder; readonly callId: string; readonly at: Date },
  ): Promise<boolean>;
  /** Writes an open run that its holder has. False: it was cancelled, or another process has taken it. */
  write(id: string, holderId: string, change: MethodRunChange): Promise<boolean>;
  /** From `running` or `waiting`. */
  cancel(id: string, at: Date): Promise<boolean>;
  /** Marks that the caller has the result. */
  deliver(id: string): Promise<void>;
  renew(holderId: string, leaseUntil: Date): Promise<void>;
  /** Removes runs that ended before. Returns how many. */
  prune(before: Date): Promise<number>;
}
