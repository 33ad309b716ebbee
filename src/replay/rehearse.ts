import { resolve } from "../catalog/resolve.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { changesSomething } from "../core/effect.ts";
import { QmError } from "../core/errors.ts";
import { canonicalJson, clip, isRecord } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";
import type { SurfaceKind } from "../core/surface-choice.ts";
import { ownArgs, prepareArgs } from "../invoke/arguments.ts";
import type { Call } from "../invoke/invoke.ts";
import type { PolicyOptions } from "../policy/policy.ts";
import type { Counter, Surface } from "../surface/surface.ts";
import { type Answered, answerCall, type Scene } from "./door.ts";
import { isAltered } from "./marks.ts";
import type { RecordedCall } from "./recorded.ts";
import type { ReplayParts } from "./replay.ts";
import type { MadeCall, ScriptedCall } from "./scripted.ts";
import { scriptedAsRecorded } from "./scripted-record.ts";

export interface RehearsalOptions {
  /** Who calls. Absent: actor `default`. */
  readonly caller?: Partial<Caller>;
  /** Decide as this policy says. Absent: as the one in force. */
  readonly policy?: PolicyOptions;
  /** Absent: as for the caller's actor. */
  readonly surface?: SurfaceKind;
  /** What a call comes to that the script has nothing for. Absent: `failed`. */
  readonly unrecorded?: "failed" | "refused";
  /** Ends every call that is made after it. */
  readonly signal?: AbortSignal;
}

/** A stage on which calls can be made that nobody runs. */
export interface Rehearsal {
  readonly surface: Surface;
  /** Calls an action by its name. Never rejects. */
  invoke(name: string, args?: unknown): Promise<Outcome>;
  /** What has been called so far and is over, in the order in which it was called. */
  readonly made: readonly MadeCall[];
}

export async function rehearsalOf(
  parts: Pick<ReplayParts, "runtime" | "search" | "openSurface">,
  scene: Scene,
  calls: readonly ScriptedCall[],
  options: RehearsalOptions,
): Promise<Rehearsal> {
  const { unrecorded = "failed", signal: outer } = options;
  const caller: Caller = { actor: "default", session: "rehearsal", ...options.caller };
  const script = createScript(scene, caller, calls);
  const made: (MadeCall | undefined)[] = [];
  const { canSearch, searchHint, find } = parts.search;

  async function make(request: Omit<Call, "id">, signal?: AbortSignal): Promise<Outcome> {
    const call = { ...request, id: parts.runtime.newId() };
    const place = made.push(undefined) - 1;
    const until = AbortSignal.any([outer, signal].filter((each) => each !== undefined));
    let found: RecordedCall | undefined | null = null;
    const recordedOf = (action: Action): RecordedCall | undefined => {
      if (found === null) found = script(action, call.args);
      return found;
    };
    const filledArgs = (args: unknown): unknown =>
      calls.find((each) => canonicalJson(each.args) === canonicalJson(args))?.filledArgs;
    const answered = await answerCall(scene, { recordedOf, filledArgs, missing: missing[unrecorded] }, call, until);
    made[place] = madeCall(call, answered);
    return answered.outcome;
  }

  const counter: Counter = {
    viewOf: scene.viewOf,
    live: { find: scene.live.find, list: async () => [] },
    invoke: make,
    canSearch,
    searchHint,
    // By words: nobody else is asked what a query means.
    search: (who, request, signal) =>
      find(() => scene.viewOf(who), { ...request, type: byWords(request.type) }, signal),
    called() {},
    fetched() {},
  };
  const surface = await parts.openSurface(counter, caller, scene.policy, options.surface);
  return {
    surface,
    invoke: (name, args) => make({ name, args, caller, via: "rehearsal" }),
    get made() {
      return made.filter((each) => each !== undefined);
    },
  };
}

type Find = (action: Action, args: unknown) => RecordedCall | undefined;

/**
 * Looks for the recorded call of the same action with the same arguments, each once, in the order of the script. What
 * changes nothing may be asked again and is answered the same.
 */
function createScript(scene: Scene, caller: Caller, calls: readonly ScriptedCall[]): Find {
  const entries = calls.map((call) => ({ call, isUsed: false }));
  return (action, args) => {
    const fitting = entries.filter(
      ({ call }) =>
        nameOf(scene, caller, call.name) === action.name &&
        fits(preparedFor(action, call.args), preparedFor(action, args)),
    );
    const entry =
      fitting.find(({ isUsed }) => !isUsed) ?? (changesSomething(action.effect) ? undefined : fitting.at(-1));
    if (entry === undefined) return undefined;
    entry.isUsed = true;
    return scriptedAsRecorded(entry.call, caller);
  };
}

function nameOf(scene: Scene, caller: Caller, name: string): string {
  try {
    return resolve(scene.viewOf(caller), name).action.name;
  } catch {
    return name;
  }
}

/** As the door reads them, with defaults filled in and slips mended, as far as they fit. */
function preparedFor(action: Action, args: unknown): unknown {
  try {
    return prepareArgs(action, ownArgs(args)).args;
  } catch {
    return args ?? {};
  }
}

/** Whether they are the same, but for what the ledger has left out. */
function fits(recorded: unknown, given: unknown): boolean {
  if (typeof recorded === "string") return recorded === given || isAltered(recorded);
  if (Array.isArray(recorded)) {
    if (!Array.isArray(given)) return false;
    return recorded.length === given.length && recorded.every((part, index) => fits(part, given[index]));
  }
  if (!isRecord(recorded)) return Object.is(recorded, given);
  if (!isRecord(given)) return false;
  const keys = Object.keys(recorded);
  const isSameSize = keys.length === Object.keys(given).length;
  return isSameSize && keys.every((key) => Object.hasOwn(given, key) && fits(recorded[key], given[key]));
}

function madeCall({ id, name, args }: Call, { outcome, action, isMissing }: Answered): MadeCall {
  return {
    callId: id,
    asked: clip(name, 256),
    ...(action === undefined ? {} : { action: action.name }),
    args,
    status: outcome.status,
    ...("error" in outcome ? { code: outcome.error.code } : {}),
    isScripted: !isMissing,
  };
}

const missing = {
  failed: (action: Action) =>
    new QmError("not_found", `no result of ${action.name} with these arguments was recorded`, {
      hint: "This is a rehearsal: only what was called when it was recorded can be called, with the same arguments.",
    }),
  refused: (action: Action) => new QmError("denied", `${action.name} may not be called with these arguments here`),
} as const;

type SearchType = NonNullable<Parameters<Counter["search"]>[1]["type"]>;

function byWords(type: SearchType | undefined): SearchType {
  return type === undefined || type === "semantic" || type === "hybrid" ? "fts" : type;
}
