import { hash } from "node:crypto";
import type { Caller, Dialogue } from "./caller.ts";
import { canonicalJson, clip, type Json, type JsonObject } from "./json.ts";
import type { ActionName } from "./names.ts";
import type { ArgumentForms } from "./normalize-arguments.ts";
import type { Outcome } from "./outcome.ts";
import type { Duration } from "./runtime.ts";
import type { TraceCarrier } from "./tracing.ts";

/**
 * What running an action can do, from harmless to far-reaching. Stated by whoever supplies the action, never guessed
 * from its name.
 *
 * - `pure`: computes from its arguments
 * - `read`: looks at something outside itself and changes nothing
 * - `write`: changes data that this system holds
 * - `external`: acts on somebody else's system
 * - `stateful`: starts or changes something that keeps running
 */
export const effects = ["pure", "read", "write", "external", "stateful"] as const;

export type Effect = (typeof effects)[number];

export function getEffectRank(effect: Effect): number {
  return effects.indexOf(effect);
}

/** Whether running it may leave a trace outside the answer. */
export function hasSideEffects(effect: Effect): boolean {
  return getEffectRank(effect) > getEffectRank("read");
}

/** What a handler gets beside its arguments. */
export interface CallContext {
  readonly caller: Caller;
  readonly callId: string;
  /** Aborted when the caller cancels, the action's timeout passes, or the system closes. */
  readonly signal: AbortSignal;
  /** Absent: whoever made the call hears nothing until the outcome, and cannot be asked. Shared by calls made inside. */
  readonly dialogue?: Dialogue;
  /** Waits for what is not the action's own work, such as a server that starts: that time does not count as its running. */
  untimed<T>(work: () => Promise<T>): Promise<T>;
  /** Whether the caller may know of an action now. The policy answers, so what it hides is not told from what is not there. */
  sees(name: string): boolean;
  /**
   * Calls another action for the same caller, through the same door. It runs in this call's place, is recorded with this
   * call as its parent, and is cancelled with it. Handles in its arguments are data: a handler has what they lead to. Never
   * rejects.
   */
  invoke(name: string, args?: unknown): Promise<Outcome>;
  /**
   * Of a call made inside that waits for a person: waits for its end, without that time counting. Every other outcome is
   * answered as it is. Rejects when this call is aborted.
   */
  settled(outcome: Outcome): Promise<Outcome>;
  /** Absent: it was agreed to by nobody, because nobody had to. */
  readonly approvalDecision?: ApprovalDecision;
  /** The trace this call belongs to, for whatever it asks of others. */
  readonly trace?: TraceCarrier;
}

/** What something was made from. Whoever may not use one of the actions may not know of it. */
export interface ActionProvenance {
  readonly actions: readonly string[];
  /** Who made it. Of an action that is not in the catalog any more, only the maker may use what it made. */
  readonly maker: ActionOwner;
}

/** Who agreed to a call, and what they said. */
export interface ApprovalDecision {
  readonly approvalId: string;
  readonly by: string;
  readonly via: string;
  readonly at: string;
  readonly reason?: string;
  /** What they were told that running it would do. */
  readonly preview?: string;
}

/**
 * Runs with arguments that fit the input schema. May throw; the thrown message is shown to the caller. What is more than
 * data is answered `WithContent`.
 */
export type Handler = (args: JsonObject, context: CallContext) => unknown;

export type JsonSchema = { readonly [keyword: string]: Json };

export interface Example {
  readonly args: JsonObject;
  readonly description?: string;
}

/** The facts an approval policy function judges. */
export interface ApprovalQuestion {
  readonly action: ActionName;
  readonly args: JsonObject;
  readonly caller: Caller;
}

/**
 * Whether a person must agree before it runs: never, always, unless a CEL expression over `args`, `actor`, `tool` and
 * `ctx` is true, or as a function says: `"auto"`, no need to ask, or the level that must agree (`"user"`, `"admin"`, or
 * one of the policy's own). A rule that throws asks.
 */
export type ApprovalRule =
  | boolean
  | {
      readonly autoApproveIf: string;
      /** Who must agree. Absent: `user`. */
      readonly level?: string;
      /** How long the question stands. Absent: as the policy says. */
      readonly expiresIn?: Duration;
    }
  | ((question: ApprovalQuestion) => string);

/** Whether a person must agree to an action's calls, as far as that is known before there are arguments. */
export type ApprovalRequirement = "never" | "always" | "conditional";

type ActionScope = "generalist" | "specialist";
type ActionRouting = "routed" | "bypass";
export type LoadingMode = "always" | "deferred";

export const readinesses = ["ready", "needs_login", "not_started", "quarantined", "unavailable"] as const;

/** Why an action that may be used cannot be used at this moment without somebody doing something first. */
export type Readiness = (typeof readinesses)[number];

/**
 * Where the arguments of a resource go when it is invoked: pure data, applied by `transformArgs`. `set` fields are
 * filled in and may not be given by the caller; in their values the string `"$entry"` stands for the resource's entry.
 * With `wrap`, what the caller gave travels under that one field.
 */
export interface ArgumentTransform {
  readonly set?: JsonObject;
  readonly wrap?: string;
}

/**
 * The only callers there are for it, where it is somebody's: whoever has all of these. The empty text stands for a caller
 * without one.
 */
export type ActionOwner = Partial<Readonly<Record<"tenant" | "user" | "actor" | "session", string>>>;

/** One thing an agent can do. Everything in it is frozen; `run` is reached through `invoke()` only. */
export interface Action {
  readonly name: ActionName;
  readonly category: string;
  readonly entry: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  readonly outputSchema?: JsonSchema;
  readonly effect: Effect;
  readonly tags: readonly string[];
  readonly aliases: readonly string[];
  readonly examples: readonly Example[];
  readonly scope: ActionScope;
  readonly routing: ActionRouting;
  readonly justification?: string;
  readonly bypassReason?: string;
  /** Absent: as the policy says for its category, and never where that says nothing. */
  readonly requiresApproval?: ApprovalRule;
  readonly peerExposed: boolean;
  /** Absent: nobody's in particular. */
  readonly owner?: ActionOwner;
  /** Of something that actions made. Absent: it was not. */
  readonly madeFrom?: ActionProvenance;
  /** Whether tokens in its arguments stay tokens: it works on what the model may see, and shows it to the model again. */
  readonly keepsTokens?: boolean;
  /**
   * Arguments that are handles themselves: `{"$from": "note__12"}` there is `note__12`, and not what it leads to. `notes[]` is
   * a list of handles, or one, and nothing in it is taken from data.
   */
  readonly handleArguments?: readonly string[];
  /**
   * Arguments that can be spelled in several ways. They are brought into one spelling before anything is decided, so that
   * rules, approvals, the ledger and the handler all see that one. Absent: as the caller wrote them.
   */
  readonly normalize?: ArgumentForms;
  /**
   * Shown only to callers that see another action for which this answers true, so that it tells nothing of hidden ones.
   * Absent: shown by itself.
   */
  readonly serves?: (other: Action, approval: ApprovalRequirement) => boolean;
  readonly loading?: LoadingMode;
  /** The named set of extra skills it came with. */
  readonly world?: string;
  /** Asked anew each time it is shown; absent: always ready. Must answer at once. */
  readonly readiness?: () => Readiness;
  /** Whether running it twice with the same arguments is the same as running it once. */
  readonly idempotent: boolean;
  readonly timeoutMs?: number;
  /** How many calls of it may run at the same time in this process. Absent: no limit of its own. */
  readonly concurrency?: number;
  /** For a resource: the operation that invoking it runs, and how its arguments get there. */
  readonly canonical?: { readonly target: ActionName; readonly transform: ArgumentTransform };
  /** Where it was registered, as `file:line`, when it came from code. */
  readonly site?: string;
  /**
   * What exactly running it would do, for the person who is asked to agree: a command, a host. Has no effect. Absent: the
   * arguments say it all.
   */
  readonly preview?: (args: JsonObject, signal: AbortSignal) => Promise<string>;
  readonly run: Handler;
}

const SUMMARY_LIMIT = 200;

/** The first sentence or line of the description: enough to choose by. */
export function summarizeAction(action: Pick<Action, "description">): string {
  const line = action.description.trim().split(/\n/, 1)[0] ?? "";
  const sentence = /^.*?[.!?](?=\s|$)/.exec(line)?.[0] ?? line;
  return clip(sentence, SUMMARY_LIMIT);
}

const definitionHashes = new WeakMap<Action, string>();

/** A fingerprint of everything a caller relies on: the same text means the same promise. */
export function getDefinitionHash(action: Action): string {
  let definition = definitionHashes.get(action);
  if (definition === undefined) {
    const { name, description, inputSchema, outputSchema, effect, tags, scope, routing, canonical } = action;
    const promise = { name, description, inputSchema, outputSchema, effect, tags, scope, routing, canonical };
    definition = fingerprint(promise).slice(0, 16);
    definitionHashes.set(action, definition);
  }
  return definition;
}

/** SHA-256 of a value's canonical JSON, in hex. */
export function fingerprint(value: unknown): string {
  return hash("sha256", canonicalJson(value), "hex");
}
