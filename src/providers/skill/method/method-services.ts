import type { Caller } from "../../../core/caller.ts";
import type { UnstampedEvent } from "../../../core/events.ts";
import type { Json } from "../../../core/json.ts";
import type { Outcome } from "../../../core/outcome.ts";
import type { MethodRuns } from "./method-runs.ts";

/** A call whose process ended, as the ledger has it. */
export interface FoundCall {
  /** Whether its action may have run. */
  readonly hasBegun: boolean;
  /** The approval that it asked for. */
  readonly approvalId?: string;
  /** Tells a model how it ended, if it did. */
  readonly end?: string;
}

/** The parts of the system that methods use. */
export interface MethodServices {
  readonly runs: MethodRuns;
  newId(): string;
  /** Resolves when the event survives the process. */
  record(caller: Caller, event: UnstampedEvent): Promise<void>;
  findCall(callId: string): Promise<FoundCall>;
  /** The outcome of an approved, denied or expired call. Undefined: it still waits. */
  findApprovalOutcome(approvalId: string, caller: Caller): Promise<Outcome | undefined>;
  /** Throws `not_found`, also for notes that the caller may not use. */
  readNote(handle: string, caller: Caller): Promise<Json>;
  /** Stores and restores which actions the data of a run comes from. */
  holdSources(runId: string): Promise<void>;
  resumeSources(runId: string): Promise<void>;
  /** Whether the system itself continues a run with this call, so that no caller gets its outcome. */
  isOwnCall(callId: string): boolean;
}
