import type { LiveResources } from "../catalog/snapshot.ts";
import type { View } from "../catalog/view.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { Runtime } from "../core/runtime.ts";
import type { SurfaceKind } from "../core/surface-choice.ts";
import type { Anchors } from "../distribution/anchors.ts";
import type { ActionCall } from "../invoke/invoke.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { compilePolicy, type Policy, type PolicyOptions } from "../policy/policy.ts";
import type { Surface, SurfaceBackend } from "../surface/surface.ts";
import { answerCall, type ReplayAnswer, type ReplayEnvironment, type ReplayScript } from "./answer-call.ts";
import { createBudgetAccounts } from "./budget-accounts.ts";
import { type ReplayQuery, readRecorded } from "./read-recorded.ts";
import type { RecordedCall } from "./recorded-call.ts";
import { createRehearsal, type Rehearsal, type RehearsalOptions } from "./rehearsal.ts";
import { compareCall, type ReplayReport, summarizeReplay } from "./replay-report.ts";
import type { ScriptedCall } from "./scripted-call.ts";

export interface ReplayOptions {
  /** Decide as this policy says. Absent: as the one in force. */
  readonly policy?: PolicyOptions;
  /** Where it was recorded. Absent: the quartermaster's own ledger. */
  readonly ledger?: Pick<Ledger, "read">;
}

/** Calls again, with recorded results behind them. Nothing is run, asked or written. */
export interface Replay {
  /**
   * Makes every call of a session or a turn again and says what is different. Rejects with `not_found`, and with
   * `invalid_arguments` where several sessions have such a turn. Functions that the policy or an action decides by are
   * called again, as for every decision.
   */
  replay(query: ReplayQuery, options?: ReplayOptions): Promise<ReplayReport>;
  /**
   * A surface for one caller whose calls are answered from a script: what the policy lets through gets the recorded outcome
   * of the same action with the same arguments.
   */
  rehearse(calls: readonly ScriptedCall[], options?: RehearsalOptions): Promise<Rehearsal>;
}

export interface ReplayParts {
  readonly runtime: Runtime;
  readonly ledger: Pick<Ledger, "read">;
  /** The policy in force. */
  readonly policy: () => Policy;
  /** What a caller may see under a policy. Throws `unknown_actor`. */
  viewOf(policy: Policy, caller: Caller, live?: readonly Action[]): View;
  readonly live: Pick<LiveResources, "find">;
  readonly anchors: Pick<Anchors, "fill">;
  /** Whether there is such an action, whoever may see it. */
  exists(action: string): boolean;
  readonly valueLimit: number;
  /** Search in a view, as surfaces have it. */
  readonly search: Pick<SurfaceBackend, "canSearch" | "searchHint"> & {
    find(viewNow: () => View, ...asked: SearchArguments): ReturnType<SurfaceBackend["search"]>;
  };
  /** Opens a surface that keeps nothing beyond its own life. */
  openSurface(counter: SurfaceBackend, caller: Caller, policy: Policy, kind: SurfaceKind | undefined): Promise<Surface>;
}

type SearchArguments = Parameters<SurfaceBackend["search"]> extends [unknown, ...infer Rest] ? Rest : never;

export function createReplay(parts: ReplayParts): Replay {
  function createEnvironment(options: PolicyOptions | undefined): ReplayEnvironment {
    const policy = options === undefined ? parts.policy() : compilePolicy(options);
    const { runtime, valueLimit, anchors, live } = parts;
    const viewOf: ReplayEnvironment["viewOf"] = (caller, resources) => parts.viewOf(policy, caller, resources);
    return { runtime, policy, viewOf, live, valueLimit, anchors, accounts: createBudgetAccounts(policy) };
  }

  return {
    async replay(query, { policy: options, ledger = parts.ledger } = {}) {
      const { session, calls } = await readRecorded(ledger, query);
      const scene = createEnvironment(options);
      const answers = await replayCalls(scene, calls);
      const about = { policy: scene.policy, exists: parts.exists };
      const reported = calls.map((call) => compareCall(call, answers.get(call.callId), about));
      return {
        session,
        ...(query.turn === undefined ? {} : { turn: query.turn }),
        policyVersion: scene.policy.version,
        calls: reported,
        summary: summarizeReplay(reported),
      };
    },
    rehearse: (calls, options = {}) => createRehearsal(parts, createEnvironment(options.policy), calls, options),
  };
}

/** What became of each call that is made again, by its id. */
async function replayCalls(
  scene: ReplayEnvironment,
  calls: readonly RecordedCall[],
): Promise<ReadonlyMap<string, ReplayAnswer>> {
  const answers = new Map<string, ReplayAnswer>();
  const known = new Set(calls.map(({ callId }) => callId));
  const within = new Map<string, RecordedCall[]>();
  const outer: RecordedCall[] = [];
  for (const call of calls) {
    const { parent } = call;
    const siblings = parent === undefined || !known.has(parent) ? outer : (within.get(parent) ?? []);
    siblings.push(call);
    if (parent !== undefined && siblings !== outer) within.set(parent, siblings);
  }

  async function replayCall(recorded: RecordedCall, inside?: ActionCall["inside"]): Promise<void> {
    const { callId: id, asked: name, args, caller, via } = recorded;
    const inner = within.get(id) ?? [];
    const script: ReplayScript = {
      findRecorded: () => recorded,
      filledArgs: () => recorded.filledArgs,
      async inside(place) {
        for (const each of inner) await replayCall(each, place);
      },
      missing: createNoResultError,
    };
    const place = inside === undefined ? {} : { inside };
    const answered = await answerCall(scene, script, { id, name, args, caller, via, ...place });
    answers.set(id, answered);
    if (!answered.isRun) refundSkipped(recorded);
  }

  /** It was charged then, and so was everything inside it. */
  function refundSkipped(recorded: RecordedCall): void {
    scene.accounts.refund(recorded);
    for (const each of within.get(recorded.callId) ?? []) refundSkipped(each);
  }

  for (const call of outer) await replayCall(call);
  return answers;
}

function createNoResultError(action: Action): QmError {
  return new QmError("not_found", `${action.name} did not run then, so nobody knows what it would answer now`);
}
