import type { LiveResources } from "../catalog/live.ts";
import type { View } from "../catalog/view.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { definitionOf } from "../core/definition.ts";
import { QmError } from "../core/errors.ts";
import type { Json } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Runtime } from "../core/runtime.ts";
import { silentTracer } from "../core/tracing.ts";
import type { Anchors } from "../distribution/anchors.ts";
import { type Call, type Door, invoke } from "../invoke/invoke.ts";
import type { CallRecord } from "../invoke/record.ts";
import type { Runner } from "../invoke/run.ts";
import type { Decision } from "../policy/decide.ts";
import type { Policy } from "../policy/policy.ts";
import { outcomeThen, problemThen, ranThen } from "./fate.ts";
import { recordedGatekeeper } from "./gatekeeper.ts";
import type { Accounts } from "./meter.ts";
import type { RecordedCall } from "./recorded.ts";

/** What the calls of one replay have in common. */
export interface Scene {
  readonly runtime: Runtime;
  readonly policy: Policy;
  viewOf(caller: Caller, live?: readonly Action[]): View;
  /** What calls name and is not in the catalog. */
  readonly live: Pick<LiveResources, "find">;
  readonly accounts: Accounts;
  /** What tokens in arguments stand for. */
  readonly anchors: Pick<Anchors, "fill">;
  readonly valueLimit: number;
}

/** Where the answers come from. */
export interface Script {
  /** What was recorded of the call, once it is known which action it leads to. */
  recordedOf(action: Action): RecordedCall | undefined;
  /** Makes the calls again that were made inside it. */
  inside?(place: NonNullable<Call["inside"]>): Promise<void>;
  /** What the arguments were once handles in them were filled in. Absent, or undefined: there were none. */
  filledArgs?(args: unknown): unknown;
  /** What is answered where nothing was recorded. */
  missing(action: Action): QmError;
}

/** A call that went through the door with nothing behind it. */
export interface Answered {
  readonly outcome: Outcome;
  /** Absent: the name led nowhere. */
  readonly action: Action | undefined;
  /** Absent: it did not get as far. */
  readonly decision: Decision | undefined;
  readonly repairs: readonly string[];
  /** Whether it got as far as being run, which is where the recorded result is. */
  readonly isRun: boolean;
  /** It would have run, and nothing was recorded that it could be answered with. */
  readonly isMissing: boolean;
}

/**
 * Takes a call through the one door, with what was recorded behind it: the view, the arguments and the decision are made
 * anew, what a person said and what the action answered are repeated. No handler is entered, and nothing is written.
 */
export async function answerCall(scene: Scene, script: Script, call: Call, signal?: AbortSignal): Promise<Answered> {
  const { policy, runtime, viewOf, live, valueLimit, accounts, anchors } = scene;
  const told: Told = { action: undefined, decision: undefined, repairs: [], isRun: false, isMissing: false };
  const recordedOf = (action: Action): RecordedCall | undefined => script.recordedOf(action);
  const door: Door = {
    runtime,
    policy,
    viewOf,
    live,
    valueLimit,
    record: () => keeping(told),
    meter: accounts.meterFor(() => (told.action === undefined ? undefined : recordedOf(told.action))),
    gatekeeper: recordedGatekeeper(recordedOf, valueLimit),
    // Nobody is told, nothing is tried twice: what is repeated is how it ended.
    router: { dispatch: (_call, run) => run({ signal: signal ?? new AbortController().signal }) },
    runner: repeating(script, call, told),
    handles: { fill: async (_caller, args) => ({ args: script.filledArgs?.(args) ?? args, from: [] }) },
    anchors,
    // What was kept then is kept already.
    keeper: { keep: async () => undefined, keepStream: () => Promise.reject(new TypeError("nothing runs here")) },
    lineage: {
      track: (_isInside, work) => work(),
      add: () => {},
      hold: async () => {},
      resume: async () => {},
    },
    // A recorded result is what may be written down of it, and nobody else is given it again.
    distributor: {
      distribute: async ({ record }) => ({ data: record, forModel: record as Json, audit: record as Json }),
    },
    preview: async () => undefined,
    tracer: silentTracer,
    redact: () => null,
    onProblem: () => {},
  };
  const outcome = await invoke(door, call, signal);
  const recorded = told.isRun && told.action !== undefined ? recordedOf(told.action) : undefined;
  return { ...told, outcome: withoutBlame(outcome, told.action, recorded, valueLimit) };
}

/** A result that had its form when it was recorded, and has not all of it in the ledger, is not to blame for that. */
function withoutBlame(
  outcome: Outcome,
  action: Action | undefined,
  recorded: RecordedCall | undefined,
  valueLimit: number,
): Outcome {
  if (!("error" in outcome) || outcome.error.code !== "invalid_output") return outcome;
  if (action === undefined || recorded?.end?.status !== "done") return outcome;
  const isSameForm = recorded.decisions[0]?.definition === definitionOf(action);
  if (!isSameForm && !recorded.end.isPartial) return outcome;
  return outcomeThen(recorded, { callId: outcome.callId, action: action.name, valueLimit }) ?? outcome;
}

type Told = { -readonly [Key in Exclude<keyof Answered, "outcome">]: Answered[Key] };

function keeping(told: Told): CallRecord {
  return {
    resolved(action) {
      told.action = action;
    },
    filled() {},
    repaired(_action, { repairs }) {
      told.repairs = repairs;
    },
    decided(_action, decision) {
      told.decision = decision;
    },
    suspended() {},
    resumed() {},
    activated() {},
    flushed: async () => {},
    ended: async () => {},
  };
}

function repeating(script: Script, { id, inside }: Call, told: Told): Runner {
  return {
    async run(action, _args, _context, { signal }) {
      if (signal?.aborted) throw new QmError("cancelled", `${action.name} was cancelled`);
      told.isRun = true;
      const recorded = script.recordedOf(action);
      if (recorded !== undefined && ranThen(recorded)) {
        await script.inside?.({ callId: id, held: new Set([...(inside?.held ?? []), action.name]) });
        if (recorded.end?.status === "done") return recorded.end.result;
        if (recorded.end !== undefined) throw problemThen(recorded.end);
      }
      told.isMissing = true;
      throw script.missing(action);
    },
    close() {},
  };
}
