import { resolveAction } from "../catalog/resolve-action.ts";
import type { Action } from "../core/action.ts";
import { hasSideEffects } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { canonicalJson, clip, isRecord } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";
import type { SurfaceKind } from "../core/surface-choice.ts";
import { copyArguments, prepareArguments } from "../invoke/arguments.ts";
import type { ActionCall } from "../invoke/invoke.ts";
import type { PolicyOptions } from "../policy/policy.ts";
import type { Surface, SurfaceBackend } from "../surface/surface.ts";
import { answerCall, type ReplayAnswer, type ReplayEnvironment } from "./answer-call.ts";
import type { RecordedCall } from "./recorded-call.ts";
import { isAltered } from "./recorded-call.ts";
import type { ReplayParts } from "./replay.ts";
import type { RehearsedCall, ScriptedCall } from "./scripted-call.ts";
import { toRecordedCall } from "./scripted-call.ts";

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
  readonly calls: readonly RehearsedCall[];
}

export async function createRehearsal(
  parts: Pick<ReplayParts, "runtime" | "search" | "openSurface">,
  scene: ReplayEnvironment,
  calls: readonly ScriptedCall[],
  options: RehearsalOptions,
): Promise<Rehearsal> {
  const { unrecorded = "failed", signal: outer } = options;
  const caller: Caller = { actor: "default", session: "rehearsal", ...options.caller };
  const script = createScript(scene, caller, calls);
  const made: (RehearsedCall | undefined)[] = [];
  const { canSearch, searchHint, find } = parts.search;

  async function makeCall(request: Omit<ActionCall, "id">, signal?: AbortSignal): Promise<Outcome> {
    const call = { ...request, id: parts.runtime.newId() };
    const place = made.push(undefined) - 1;
    const until = AbortSignal.any([outer, signal].filter((each) => each !== undefined));
    let found: RecordedCall | undefined | null = null;
    const findRecorded = (action: Action): RecordedCall | undefined => {
      if (found === null) found = script(action, call.args);
      return found;
    };
    const filledArgs = (args: unknown): unknown =>
      calls.find((each) => canonicalJson(each.args) === canonicalJson(args))?.filledArgs;
    const answered = await answerCall(scene, { findRecorded, filledArgs, missing: missing[unrecorded] }, call, until);
    made[place] = toRehearsedCall(call, answered);
    return answered.outcome;
  }

  const counter: SurfaceBackend = {
    getView: scene.viewOf,
    live: { find: scene.live.find, list: async () => [] },
    invoke: makeCall,
    canSearch,
    searchHint,
    // By words: nobody else is asked what a query means.
    search: (who, request, signal) =>
      find(() => scene.viewOf(who), { ...request, type: toWordSearch(request.type) }, signal),
    recordToolCall() {},
    recordFetchedActions() {},
  };
  const surface = await parts.openSurface(counter, caller, scene.policy, options.surface);
  return {
    surface,
    invoke: (name, args) => makeCall({ name, args, caller, via: "rehearsal" }),
    get calls() {
      return made.filter((each) => each !== undefined);
    },
  };
}

type FindRecorded = (action: Action, args: unknown) => RecordedCall | undefined;

/**
 * Looks for the recorded call of the same action with the same arguments, each once, in the order of the script. What
 * changes nothing may be asked again and is answered the same.
 */
function createScript(scene: ReplayEnvironment, caller: Caller, calls: readonly ScriptedCall[]): FindRecorded {
  const entries = calls.map((call) => ({ call, isUsed: false }));
  return (action, args) => {
    const fitting = entries.filter(
      ({ call }) =>
        resolveName(scene, caller, call.name) === action.name &&
        isSameArgs(prepareForMatch(action, call.args), prepareForMatch(action, args)),
    );
    const entry = fitting.find(({ isUsed }) => !isUsed) ?? (hasSideEffects(action.effect) ? undefined : fitting.at(-1));
    if (entry === undefined) return undefined;
    entry.isUsed = true;
    return toRecordedCall(entry.call, caller);
  };
}

function resolveName(scene: ReplayEnvironment, caller: Caller, name: string): string {
  try {
    return resolveAction(scene.viewOf(caller), name).action.name;
  } catch {
    return name;
  }
}

/** As the door reads them, with defaults filled in and slips mended, as far as they fit. */
function prepareForMatch(action: Action, args: unknown): unknown {
  try {
    return prepareArguments(action, copyArguments(args)).args;
  } catch {
    return args ?? {};
  }
}

/** Whether they are the same, but for what the ledger has left out. */
function isSameArgs(recorded: unknown, given: unknown): boolean {
  if (typeof recorded === "string") return recorded === given || isAltered(recorded);
  if (Array.isArray(recorded)) {
    if (!Array.isArray(given)) return false;
    return recorded.length === given.length && recorded.every((part, index) => isSameArgs(part, given[index]));
  }
  if (!isRecord(recorded)) return Object.is(recorded, given);
  if (!isRecord(given)) return false;
  const keys = Object.keys(recorded);
  const isSameSize = keys.length === Object.keys(given).length;
  return isSameSize && keys.every((key) => Object.hasOwn(given, key) && isSameArgs(recorded[key], given[key]));
}

function toRehearsedCall({ id, name, args }: ActionCall, { outcome, action, isMissing }: ReplayAnswer): RehearsedCall {
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

type SearchType = NonNullable<Parameters<SurfaceBackend["search"]>[1]["type"]>;

function toWordSearch(type: SearchType | undefined): SearchType {
  return type === undefined || type === "semantic" || type === "hybrid" ? "fts" : type;
}
