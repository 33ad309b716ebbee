import { hash } from "node:crypto";
import type { Caller, Dialogue } from "./caller.ts";
import { canonicalJson, clip, getOrCreate, type Json, type JsonObject } from "./json.ts";
import type { ActionName } from "./names.ts";
import type { ArgumentForms } from "./normalize-arguments.ts";
import type { Outcome } from "./outcome.ts";
import type { Duration } from "./runtime.ts";
import type { TraceCarrier } from "./tracing.ts";

/**
 * The effect of running an action, from harmless to far-reaching. Its supplier states it; it is never guessed from a name.
 *
 * - `pure`: computes from its arguments
 * - `read`: reads something outside itself and changes nothing
 * - `write`: changes data that this system holds
 * - `external`: acts on a system that belongs to others
 * - `stateful`: starts or changes something that keeps running
 */
export const effects = ["pure", "read", "write", "external", "stateful"] as const;
export type Effect = (typeof effects)[number];
export const getEffectRank = (effect: Effect): number => effects.indexOf(effect);
export const hasSideEffects = (effect: Effect): boolean => getEffectRank(effect) > getEffectRank("read");

export interface CallContext {
  readonly caller: Caller;
  readonly callId: string;
  /** Aborts when the caller cancels, the action's timeout passes, or the system closes. */
  readonly signal: AbortSignal;
  /** Absent: the caller gets no progress and cannot be asked. Nested calls share it. */
  readonly dialogue?: Dialogue;
  /** Waits for something that must not count towards the action's timeout, such as a server that starts. */
  untimed<T>(work: () => Promise<T>): Promise<T>;
  /** Whether the policy lets the caller see an action now. A hidden action and an unknown one both answer false. */
  sees(name: string): boolean;
  /**
   * Calls another action for the same caller through `invoke()`: recorded with this call as its parent and cancelled with
   * it. Handles in its arguments are plain data, because the handler already has their values. Never rejects. If it waits
   * for a person when the handler ends, this call waits too, and the handler's return value is its progress.
   */
  invoke(name: string, args?: unknown): Promise<Outcome>;
  /** Absent: the call needed no approval. */
  readonly approvalDecision?: ApprovalDecision;
  readonly trace?: TraceCarrier;
}

/** The actions something was made from. A caller that may not use all of them cannot see it. */
export interface ActionProvenance {
  readonly actions: readonly string[];
  /** When one of the actions is no longer in the catalog, only the maker may use the result. */
  readonly maker: ActionOwner;
}

export interface ApprovalDecision {
  readonly approvalId: string;
  readonly by: string;
  readonly via: string;
  readonly at: string;
  readonly reason?: string;
  readonly preview?: string;
}

/** Gets arguments that fit the input schema. May throw: the caller sees the message. May return `WithContent`. */
export type Handler = (args: JsonObject, context: CallContext) => unknown;
export type JsonSchema = { readonly [keyword: string]: Json };
export type Example = { readonly args: JsonObject; readonly description?: string };
export type ApprovalQuestion = { readonly action: ActionName; readonly args: JsonObject; readonly caller: Caller };

/**
 * Whether a person must approve a call: never, always, unless a CEL expression over `args`, `actor`, `tool` and `ctx` is
 * true, or as a function says: `"auto"` for no approval, or the level that must approve (`"user"`, `"admin"`, or one of
 * the policy's own). A rule that throws requires approval.
 */
export type ApprovalRule =
  | boolean
  | { readonly autoApproveIf: string; readonly level?: string; readonly expiresIn?: Duration }
  | ((question: ApprovalQuestion) => string);

/** Whether calls of an action need approval, as far as that is known without arguments. */
export type ApprovalRequirement = "never" | "always" | "conditional";
export type LoadingMode = "always" | "deferred";
export const readinesses = ["ready", "needs_login", "not_started", "quarantined", "unavailable"] as const;

/** Whether a permitted action can be used right now, or what a person must do first. */
export type Readiness = (typeof readinesses)[number];

/** The caller may not give `set` fields; `"$entry"` there is the entry. `wrap` puts arguments under one field. */
export type ArgumentTransform = { readonly set?: JsonObject; readonly wrap?: string };

/** Only callers that match every field may see the action. The empty string matches a caller without the field. */
export type ActionOwner = Partial<Readonly<Record<"tenant" | "user" | "actor" | "session", string>>>;

/** One thing an agent can do. Deeply frozen. Only `invoke()` calls `run`. */
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
  readonly scope: "generalist" | "specialist";
  readonly routing: "routed" | "bypass";
  readonly justification?: string;
  readonly bypassReason?: string;
  /** Default: the policy's rule for the category, or never. */
  readonly requiresApproval?: ApprovalRule;
  readonly peerExposed: boolean;
  /** Absent: visible to every caller. */
  readonly owner?: ActionOwner;
  readonly madeFrom?: ActionProvenance;
  /** Whether tokens in its arguments stay tokens, because the action shows them to the model again. */
  readonly keepsTokens?: boolean;
  /** Arguments where `{"$from": "note__12"}` means the handle itself. `notes[]`: one handle or a list of them. */
  readonly handleArguments?: readonly string[];
  /** Arguments brought into one spelling first, so that rules, approvals, the ledger and the handler see the same. */
  readonly normalize?: ArgumentForms;
  /** Shows the action only to callers that see another action for which this is true. */
  readonly serves?: (other: Action, approval: ApprovalRequirement) => boolean;
  readonly loading?: LoadingMode;
  /** The named set of extra skills it came with. */
  readonly world?: string;
  /** The origin of the action, for example `server:github`. Read it with `getActionOrigin`. */
  readonly source?: string;
  /** Called synchronously each time the action is shown. Absent: always ready. */
  readonly readiness?: () => Readiness;
  readonly idempotent: boolean;
  readonly timeoutMs?: number;
  readonly concurrency?: number;
  /** Results up to this length are shown whole instead of stored. Absent: the limit for all actions. */
  readonly resultChars?: number;
  /** For a resource: the operation that invoking it runs. */
  readonly canonical?: { readonly target: ActionName; readonly transform: ArgumentTransform };
  /** `file:line` of the registration, if it came from code. */
  readonly site?: string;
  /** Tells an approver exactly what would run: a command, a host. Has no effect. Absent: the arguments tell it all. */
  readonly preview?: (args: JsonObject, signal: AbortSignal) => Promise<string>;
  readonly run: Handler;
}

/** For operators, and for models that ask about one action. */
export interface ActionOrigin {
  /** `server:<name>`, the name of a world, `code` for a registered tool, or `core` for any other provider. */
  readonly source: string;
  /** `resource`: invoking it runs another action on it. */
  readonly type: "operation" | "resource";
}

export const getActionOrigin = ({ source, world, site, canonical }: Action): ActionOrigin => ({
  source: source ?? world ?? (site === undefined ? "core" : "code"),
  type: canonical === undefined ? "operation" : "resource",
});

/** The first sentence. Abbreviations do not end it. */
export function summarizeAction({ description }: Pick<Action, "description">): string {
  const line = description.trim().split(/\n/, 1)[0] ?? "";
  return clip(/^.*?(?<!\b(?:e\.g|i\.e|vs))[.!?](?=\s|$)/i.exec(line)?.[0] ?? line, 200);
}

const definitionHashes = new WeakMap<Action, string>();

export const getDefinitionHash = (action: Action): string =>
  getOrCreate(definitionHashes, action, () => {
    const { name, description, inputSchema, outputSchema, effect, tags, scope, routing, canonical } = action;
    const promise = { name, description, inputSchema, outputSchema, effect, tags, scope, routing, canonical };
    return fingerprint(promise).slice(0, 16);
  });

export const fingerprint = (value: unknown): string => hash("sha256", canonicalJson(value), "hex");
