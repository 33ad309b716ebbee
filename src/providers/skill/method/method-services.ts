import type { Caller } from "../../../core/caller.ts";
import type { UnstampedEvent } from "../../../core/events.ts";
import type { Json } from "../../../core/json.ts";
import type { CallFinder } from "../../../core/recover-call.ts";
import type { MethodRuns } from "./method-runs.ts";

/** The parts of the system that methods use. */
export interface MethodServices extends CallFinder {
  readonly runs: MethodRuns;
  newId(): string;
  /** Resolves when the event survives the process. */
  record(caller: Caller, event: UnstampedEvent): Promise<void>;
  /** Throws `not_found`, also for notes that the caller may not use. */
  readNote(handle: string, caller: Caller): Promise<Json>;
  /** Stores and restores which actions the data of a run comes from. */
  holdSources(runId: string): Promise<void>;
  resumeSources(runId: string): Promise<void>;
  /** Whether the system itself continues a run with this call, so that no caller gets its outcome. */
  isOwnCall(callId: string): boolean;
}
