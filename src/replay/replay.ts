import type { LiveResources } from "../catalog/live.ts";
import type { View } from "../catalog/view.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { Runtime } from "../core/runtime.ts";
import type { SurfaceKind } from "../core/surface-choice.ts";
import type { Anchors } from "../distribution/anchors.ts";
import type { Call } from "../invoke/invoke.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { compilePolicy, type Policy, type PolicyOptions } from "../policy/policy.ts";
import type { Counter, Surface } from "../surface/surface.ts";
import { type Answered, answerCall, type Scene, type Script } from "./door.ts";
import { recordedAccounts } from "./meter.ts";
import { type ReplayQuery, readRecorded } from "./read-recorded.ts";
import type { RecordedCall } from "./recorded.ts";
import { type Rehearsal, type RehearsalOptions, rehearsalOf } from "./rehearse.ts";
import { compared, type ReplayReport, summaryOf } from "./report.ts";
import type { ScriptedCall } from "./scripted.ts";

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
  readonly search: Pick<Counter, "canSearch" | "searchHint"> & {
    find(viewNow: () => View, ...asked: SearchAsked): ReturnType<Counter["search"]>;
  };
  /** Opens a surface that keeps nothing beyond its own life. */
  openSurface(counter: Counter, caller: Caller, policy: Policy, kind: SurfaceKind | undefined): Promise<Surface>;
}

type SearchAsked = Parameters<Counter["search"]> extends [unknown, ...infer Rest] ? Rest : never;

export function createReplay(parts: ReplayParts): Replay {
  function sceneFor(options: PolicyOptions | undefined): Scene {
    const policy = options === undefined ? parts.policy() : compilePolicy(options);
    const { runtime, valueLimit, anchors, live } = parts;
    const viewOf: Scene["viewOf"] = (caller, resources) => parts.viewOf(policy, caller, resources);
    return { runtime, policy, viewOf, live, valueLimit, anchors, accounts: recordedAccounts(policy) };
  }

  return {
    async replay(query, { policy: options, ledger = parts.ledger } = {}) {
      const { session, calls } = await readRecorded(ledger, query);
      const scene = sceneFor(options);
      const answers = await replayed(scene, calls);
      const about = { policy: scene.policy, exists: parts.exists };
      const reported = calls.map((call) => compared(call, answers.get(call.callId), about));
      return {
        session,
        ...(query.turn === undefined ? {} : { turn: query.turn }),
        policyVersion: scene.policy.version,
        calls: reported,
        summary: summaryOf(reported),
      };
    },
    rehearse: (calls, options = {}) => rehearsalOf(parts, sceneFor(options.policy), calls, options),
  };
}

/** What became of each call that is made again, by its id. */
async function replayed(scene: Scene, calls: readonly RecordedCall[]): Promise<ReadonlyMap<string, Answered>> {
  const answers = new Map<string, Answered>();
  const known = new Set(calls.map(({ callId }) => callId));
  const within = new Map<string, RecordedCall[]>();
  const outer: RecordedCall[] = [];
  for (const call of calls) {
    const { parent } = call;
    const siblings = parent === undefined || !known.has(parent) ? outer : (within.get(parent) ?? []);
    siblings.push(call);
    if (parent !== undefined && siblings !== outer) within.set(parent, siblings);
  }

  async function again(recorded: RecordedCall, inside?: Call["inside"]): Promise<void> {
    const { callId: id, asked: name, args, caller, via } = recorded;
    const inner = within.get(id) ?? [];
    const script: Script = {
      recordedOf: () => recorded,
      filledArgs: () => recorded.filledArgs,
      async inside(place) {
        for (const each of inner) await again(each, place);
      },
      missing: noResult,
    };
    const place = inside === undefined ? {} : { inside };
    const answered = await answerCall(scene, script, { id, name, args, caller, via, ...place });
    answers.set(id, answered);
    if (!answered.isRun) missed(recorded);
  }

  /** It was charged then, and so was everything inside it. */
  function missed(recorded: RecordedCall): void {
    scene.accounts.missed(recorded);
    for (const each of within.get(recorded.callId) ?? []) missed(each);
  }

  for (const call of outer) await again(call);
  return answers;
}

function noResult(action: Action): QmError {
  return new QmError("not_found", `${action.name} did not run then, so nobody knows what it would answer now`);
}
