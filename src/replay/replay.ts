import type { LiveResources } from "../catalog/snapshot.ts";
import type { View } from "../catalog/view.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { Runtime } from "../core/runtime.ts";
import type { SurfaceKind } from "../core/surface-choice.ts";
import type { Anchors } from "../distribution/anchors.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Policy, PolicyOptions } from "../policy/policy.ts";
import type { Surface, SurfaceBackend } from "../surface/surface.ts";
import type { ReplayQuery } from "./read-recorded.ts";
import type { Rehearsal, RehearsalOptions } from "./rehearsal.ts";
import type { ReplayReport } from "./replay-report.ts";
import type { ScriptedCall } from "./scripted-call.ts";

export interface ReplayOptions {
  /** The policy to decide by. Default: the current one. */
  readonly policy?: PolicyOptions;
  /** The ledger to read. Default: the quartermaster's own. */
  readonly ledger?: Pick<Ledger, "read">;
}

/** Repeats calls with recorded results. Runs no action, asks no person and writes nothing. */
export interface Replay {
  /**
   * Repeats every call of a session or a turn and reports the differences. Rejects with `not_found`, and with
   * `invalid_arguments` if several sessions have such a turn. Policy functions of the host are called again.
   */
  replay(query: ReplayQuery, options?: ReplayOptions): Promise<ReplayReport>;
  /**
   * Opens a surface for one caller. A call that the policy allows gets the scripted outcome of the same action with the
   * same arguments.
   */
  rehearse(calls: readonly ScriptedCall[], options?: RehearsalOptions): Promise<Rehearsal>;
}

export interface ReplayParts {
  readonly runtime: Runtime;
  readonly ledger: Pick<Ledger, "read">;
  /** The current policy. */
  readonly policy: () => Policy;
  /** The actions a caller may see under a policy. Throws `unknown_actor`. */
  viewOf(policy: Policy, caller: Caller, live?: readonly Action[]): View;
  readonly live: Pick<LiveResources, "find" | "categories">;
  readonly anchors: Pick<Anchors, "fill">;
  /** Whether the action exists, visible to the caller or not. */
  exists(action: string): boolean;
  readonly valueLimit: number;
  readonly search: Pick<SurfaceBackend, "canSearch" | "searchHint"> & {
    find(viewNow: () => View, ...asked: SearchArguments): ReturnType<SurfaceBackend["search"]>;
  };
  /** Opens a surface that stores nothing. */
  openSurface(backend: SurfaceBackend, caller: Caller, policy: Policy, kind: SurfaceKind | undefined): Promise<Surface>;
}

type SearchArguments = Parameters<SurfaceBackend["search"]> extends [unknown, ...infer Rest] ? Rest : never;

/** Loads the code on first use: most programs never replay a call. */
export function createReplay(parts: ReplayParts): Replay {
  return {
    replay: async (query, options = {}) => (await import("./replay-calls.ts")).replayRecorded(parts, query, options),
    rehearse: async (calls, options = {}) => (await import("./rehearsal.ts")).createRehearsal(parts, calls, options),
  };
}
