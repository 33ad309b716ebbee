import { hash } from "node:crypto";
import type { Caller, Dialogue } from "./caller.ts";
import type { FileBytes, FileDigest } from "./file-digest.ts";
import { canonicalJson, clip, getOrCreate, type Json, type JsonObject } from "./json.ts";
import type { CallModel } from "./model.ts";
import type { ActionName } from "./names.ts";
import type { ArgumentForms } from "./normalize-arguments.ts";
import type { Outcome, WaitingOutcome } from "./outcome.ts";
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
  invoke(name: string, args?: unknown, as?: MethodCall): Promise<Outcome>;
  /** Makes this call wait for one that was made inside it for another caller, as if `invoke` had made it. */
  waitFor(outcome: WaitingOutcome): void;
  /** The slots that this call and those around it hold. Calls inside it need not wait for them. */
  readonly heldSlots: ReadonlySet<string>;
  /** The visible actions that match one of the names or globs, sorted by name. Asks servers whose tools are named here. */
  listVisible(patterns: readonly string[]): Promise<readonly VisibleAction[]>;
  /** The method around this call, directly or through other calls. */
  readonly method?: string;
  /** Runs after the end of this call is in the ledger. The last one given counts. It must not reject. */
  afterEnd(work: (outcome: Outcome) => Promise<void>): void;
  /** The configured language model. Absent: there is none. */
  readonly model?: CallModel;
  /** Absent: the call needed no approval. */
  readonly approvalDecision?: ApprovalDecision;
  readonly trace?: TraceCarrier;
}

/**
 * A call that the model of a method makes. The model wrote its arguments, so handles in them are replaced by their values,
 * and a long result is stored.
 */
export interface MethodCall {
  /** Chosen before the call starts, so that its end can be found after a crash. */
  readonly id: string;
  /** The name of the method. No other method may run inside it. */
  readonly method: string;
}

/** An action as a handler may know it. */
export type VisibleAction = Pick<
  Action,
  "name" | "description" | "inputSchema" | "effect" | "idempotent" | "type" | "runsAction"
>;

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
  /** The files that the approver could read, in the order of the preview. */
  readonly files?: readonly FileDigest[];
  /** The bytes of one of these files, exactly as the approver could read them. Undefined: there is no such file. */
  readFile(path: string): Promise<Uint8Array | undefined>;
}

/** Tells an approver exactly what would run, beside the arguments. */
export interface Preview {
  readonly text: string;
  /** The files that would be used. Channels show all of their bytes, or do not offer to approve. */
  readonly files?: FileBytes;
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

/** The place in the arguments of a call that names another action. */
export interface ChosenAction {
  /** The argument that holds its full name. */
  readonly argument: string;
  /** The handler puts it before a name that does not begin with it, for example `mcp__`. */
  readonly prefix?: string;
}

/** Files that belong to an action, such as those of a skill. */
export interface ActionFiles {
  /** Another text whenever a file has changed. Undefined: it cannot be told. */
  readonly version: string | undefined;
  /** The bytes by path, with `/` between the parts. Rejects if they may not be used now. */
  read(): Promise<ReadonlyMap<string, Uint8Array>>;
}

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
  /**
   * Whether a person has accepted the action as it is now. While it is false, every call needs approval, even if no rule
   * asks for one. Called synchronously. Absent: there is nothing to accept.
   */
  readonly isAccepted?: () => boolean;
  /** Awaited before a call is decided, so that `isAccepted` and `readiness` are up to date. Has no effect. */
  readonly refresh?: () => Promise<void>;
  readonly peerExposed: boolean;
  /** The local actor that its calls are handed to. That actor itself does not see it. */
  readonly localActor?: string;
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
  /** The world it came with. Only callers in that world see it. */
  readonly world?: string;
  /** The origin of the action, for example `server:github`. Read it with `getActionOrigin`. */
  readonly source?: string;
  /** For a skill. Read it with `getActionOrigin`. */
  readonly type?: ActionOrigin["type"];
  /** Called synchronously each time the action is shown. Absent: always ready. */
  readonly readiness?: () => Readiness;
  /** Why it is not ready and what a person can do, for `describe`. Called synchronously. */
  readonly readinessReason?: () => string | undefined;
  /** For an action whose caller chooses another action that it runs. A method then checks the chosen one, too. */
  readonly runsAction?: ChosenAction;
  /** Whether another process runs it: its handler only sends the call there, and neither it nor its dialogue uses notes. */
  readonly isRemote?: true;
  readonly idempotent: boolean;
  readonly timeoutMs?: number;
  readonly concurrency?: number;
  /** Results up to this length are shown whole instead of stored. Absent: the limit for all actions. */
  readonly resultChars?: number;
  /** Whether a text, record or list is stored however short it is, so that the outcome has a handle to it. */
  readonly storesResult?: boolean;
  /** For a resource: the operation that invoking it runs. */
  readonly canonical?: { readonly target: ActionName; readonly transform: ArgumentTransform };
  /** The files that its calls return with `file` and `base64`. MCP clients get them as a skill. */
  readonly files?: () => Promise<ActionFiles>;
  /** `file:line` of the registration, if it came from code. */
  readonly site?: string;
  /** Tells an approver exactly what would run: a command, a host. Has no effect. Undefined: the arguments tell it all. */
  readonly preview?: (args: JsonObject, signal: AbortSignal) => Promise<Preview | string | undefined>;
  readonly run: Handler;
}

/** For operators, and for models that ask about one action. */
export interface ActionOrigin {
  /**
   * `server:<name>`, the name of a world, `configured` or `project` for a skill of such a folder, `code` for a registered
   * tool, or `core` for everything that is built in.
   */
  readonly source: string;
  /** `resource`: invoking it runs another action on it. A skill has its own type. */
  readonly type: "operation" | "resource" | "instruction" | "llm" | "code" | "method";
}

export const getActionOrigin = ({ source, world, site, canonical, type }: Action): ActionOrigin => ({
  source: source ?? world ?? (site === undefined ? "core" : "code"),
  type: type ?? (canonical === undefined ? "operation" : "resource"),
});

/** As long as the description of a skill may be. */
const SUMMARY_LIMIT = 1024;
/** The end of a sentence, with the quotation marks and brackets that it closes, or a bracket. */
const SENTENCE_MARK = /[.!?]["'”’»)\]]*(?=\s|$)|[。！？][」』”’）】]*|[(（「『【)）」』】]/gu;
const ABBREVIATION = /(?:^|[^\p{L}\p{N}])(?:\p{L}\.\p{L}|vs|cf|incl|esp|approx|Inc|Ltd|Dr|Mr|Ms)\.$/iu;

/** The first sentence, also of one whose lines are wrapped. Abbreviations, and dots in brackets, do not end it. */
export function summarizeAction({ description }: Pick<Action, "description">): string {
  const lines = description.trim().slice(0, SUMMARY_LIMIT + 1);
  const line = lines.replace(/\s*\n[ \t]*(?=\p{Ll})/gu, " ").split("\n", 1)[0] ?? "";
  let isInBrackets = false;
  for (const { 0: mark, index } of line.matchAll(SENTENCE_MARK)) {
    if (/[(（「『【)）」』】]/u.test(mark)) isInBrackets = /^[(（「『【]/u.test(mark);
    const end = index + mark.length;
    const goesOn = (mark.length === 1 ? /^\s+\p{Ll}/u : /^\s+[^\p{Lu}\p{Lo}\p{N}]/u).test(line.slice(end));
    const isEnd = /^[.!?。！？]/u.test(mark) && !ABBREVIATION.test(line.slice(Math.max(0, end - 12), end));
    if (isEnd && !goesOn && !isInBrackets) return clip(line.slice(0, end), SUMMARY_LIMIT);
  }
  return clip(line.trimEnd(), SUMMARY_LIMIT);
}

const definitionHashes = new WeakMap<Action, string>();

export const getDefinitionHash = (action: Action): string =>
  getOrCreate(definitionHashes, action, () => {
    const { name, description, inputSchema, outputSchema, effect, tags, scope, routing, canonical } = action;
    const promise = { name, description, inputSchema, outputSchema, effect, tags, scope, routing, canonical };
    return fingerprint(promise).slice(0, 16);
  });

export const fingerprint = (value: unknown): string => hash("sha256", canonicalJson(value), "hex");
