import { resolveAction } from "../catalog/resolve-action.ts";
import type { View } from "../catalog/view.ts";
import { type Action, hasSideEffects } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { canonicalJson, clip, isRecord, omitUndefined } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";
import type { SurfaceKind } from "../core/surface-choice.ts";
import { copyArguments, prepareArguments } from "../invoke/arguments.ts";
import type { ActionCall } from "../invoke/invoke.ts";
import type { PolicyOptions } from "../policy/policy.ts";
import type { Surface, SurfaceBackend } from "../surface/surface.ts";
import { answerCall, createReplayEnvironment, type ReplayAnswer, type ReplayEnvironment } from "./answer-call.ts";
import { isAltered, type RecordedCall } from "./recorded-call.ts";
import type { ReplayParts } from "./replay.ts";
import { type RehearsedCall, type ScriptedCall, toRecordedCall } from "./scripted-call.ts";

export interface RehearsalOptions {
  /** Default: actor `default`. */
  readonly caller?: Partial<Caller>;
  /** The policy to decide by. Default: the current one. */
  readonly policy?: PolicyOptions;
  /** Default: the surface of the caller's actor. */
  readonly surface?: SurfaceKind;
  /** The status of a call that is not in the script. Default: `failed`. */
  readonly unrecorded?: "failed" | "refused";
  /** Cancels every later call. */
  readonly signal?: AbortSignal;
}

/** A surface whose calls are answered from a script. No action is run. */
export interface Rehearsal {
  readonly surface: Surface;
  /** Calls an action by its name. Never rejects. */
  invoke(name: string, args?: unknown): Promise<Outcome>;
  /** The ended calls, in the order in which they were made. */
  readonly calls: readonly RehearsedCall[];
}

type Script = readonly ScriptedCall[];

export async function createRehearsal(
  parts: ReplayParts,
  calls: Script,
  options: RehearsalOptions,
): Promise<Rehearsal> {
  const { unrecorded = "failed", signal: outer } = options;
  const environment = createReplayEnvironment(parts, options.policy);
  const { viewOf, live, policy } = environment;
  const caller: Caller = { actor: "default", session: "rehearsal", ...options.caller };
  const findScripted = createScript(environment, caller, calls);
  const made: (RehearsedCall | undefined)[] = [];
  const { canSearch, searchHint, find } = parts.search;

  async function makeCall(request: Omit<ActionCall, "id">, signal?: AbortSignal): Promise<Outcome> {
    const call = { ...request, id: parts.runtime.newId() };
    const index = made.push(undefined) - 1;
    // Null: not looked up yet. A second look-up would use up another entry of the script.
    let found: RecordedCall | undefined | null = null;
    const script = {
      findRecorded(action: Action): RecordedCall | undefined {
        if (found === null) found = findScripted(action, call.args);
        return found;
      },
      filledArgs: (args: unknown) => calls.find((each) => canonicalJson(each.args) === canonicalJson(args))?.filledArgs,
      missing: missingErrors[unrecorded],
    };
    const either = AbortSignal.any([outer, signal].filter((each) => each !== undefined));
    const answered = await answerCall(environment, script, call, either);
    made[index] = toRehearsedCall(call, answered);
    return answered.outcome;
  }

  const backend: SurfaceBackend = {
    getView: viewOf,
    live: { ...live, list: async () => [] },
    invoke: makeCall,
    canSearch,
    searchHint,
    getHintWords: environment.getHintWords,
    // By words only: a rehearsal calls no embedder.
    search: (who, request, signal) => find(() => viewOf(who), { ...request, type: toWordSearch(request.type) }, signal),
    recordToolCall() {},
    recordFetchedActions() {},
  };
  return {
    surface: await parts.openSurface(backend, caller, policy, options.surface),
    invoke: (name, args) => makeCall({ name, args, caller, via: "rehearsal" }),
    get calls() {
      return made.filter((each) => each !== undefined);
    },
  };
}

/**
 * Finds the scripted call of the same action with the same arguments. Each is used once, in the order of the script; a
 * call without side effects may be repeated and gets the same answer.
 */
function createScript({ viewOf }: ReplayEnvironment, caller: Caller, calls: Script) {
  const entries = calls.map((call) => ({ call, isUsed: false }));
  return (action: Action, args: unknown): RecordedCall | undefined => {
    const matching = entries.filter(
      ({ call }) =>
        resolveName(() => viewOf(caller), call.name) === action.name &&
        isSameArgs(prepareForMatch(action, call.args), prepareForMatch(action, args)),
    );
    const repeated = hasSideEffects(action.effect) ? undefined : matching.at(-1);
    const entry = matching.find(({ isUsed }) => !isUsed) ?? repeated;
    if (entry === undefined) return undefined;
    entry.isUsed = true;
    return toRecordedCall(entry.call, caller);
  };
}

function resolveName(getView: () => View, name: string): string {
  try {
    return resolveAction(getView(), name).action.name;
  } catch {
    return name;
  }
}

/** Applies defaults and repairs as an invocation does. Invalid arguments stay as they are. */
function prepareForMatch(action: Action, args: unknown): unknown {
  try {
    return prepareArguments(action, copyArguments(args)).args;
  } catch {
    return args ?? {};
  }
}

/** Whether the arguments are equal, except for redacted texts. */
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
  const code = "error" in outcome ? outcome.error.code : undefined;
  const named = { asked: clip(name, 256), ...omitUndefined({ action: action?.name }) };
  return { callId: id, ...named, args, status: outcome.status, ...omitUndefined({ code }), isScripted: !isMissing };
}

const missingErrors = {
  failed: ({ name }: Action) => {
    const hint = "This is a rehearsal: only recorded calls can be made, with the same arguments.";
    return new QmError("not_found", `there is no recorded result of ${name} with these arguments`, { hint });
  },
  refused: ({ name }: Action) => new QmError("denied", `${name} may not be called with these arguments here`),
} as const;

type SearchType = NonNullable<Parameters<SurfaceBackend["search"]>[1]["type"]>;

function toWordSearch(type: SearchType | undefined): SearchType {
  return type === undefined || type === "semantic" || type === "hybrid" ? "fts" : type;
}
