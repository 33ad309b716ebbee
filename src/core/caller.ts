import { QmError } from "./errors.ts";
import type { JsonObject } from "./json.ts";

/** How far a call has come. `total` is absent where nobody knows it. */
export interface ProgressUpdate {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

/** A line that what runs wants the caller's side to see. It is shown to people, never taken for an instruction. */
export interface LogLine {
  readonly level: string;
  readonly logger?: string;
  readonly data: unknown;
}

/** A question in the words of MCP: `elicitation/create`, `sampling/createMessage` or `roots/list`. */
export interface AskedQuestion {
  readonly method: string;
  readonly params: JsonObject;
}

/** Several questions at once, by keys of the asker's. */
export type AskedQuestions = Readonly<Record<string, AskedQuestion>>;

/**
 * What whoever made a call can be told and asked while it runs. A caller without one hears nothing until the outcome,
 * and cannot be asked.
 */
export interface Dialogue {
  /** Who would be asked: of two calls with the same owner, one may be asked what the other wants to know. */
  readonly owner: string;
  /** What can be asked, as MCP client capabilities: `{ elicitation: { form: {} } }`. */
  readonly capabilities: JsonObject;
  progress(update: ProgressUpdate): void;
  log(line: LogLine): void;
  /** Asks several things at once and answers under the same keys. Rejects when the caller cannot be asked. */
  ask(questions: AskedQuestions): Promise<Readonly<Record<string, JsonObject>>>;
}

/** Why a call is not waited for any more whose question stays open all the same: nobody has taken it back. */
export function createLeftOpenError(why: string): QmError {
  return new QmError("cancelled", why, { details: { left_open: true } });
}

export function isLeftOpen(reason: unknown): boolean {
  return reason instanceof QmError && reason.details.left_open === true;
}

/** Who asks. Every decision, view and record is made for one of these. */
export interface Caller {
  /** The named configuration the caller acts under: which actions, which surface. */
  readonly actor: string;
  /** The conversation; one hash chain in the ledger. */
  readonly session: string;
  /** One model loop inside the session. */
  readonly turn?: string;
  /** The user the session belongs to, with whatever the host knows of them (`tier`, `roles`, ...). */
  readonly user?: { readonly id: string } & JsonObject;
  /** The human behind several users, where known. */
  readonly person?: string;
  readonly tenant?: string;
  /** Which client it came through, where a gateway knows that: a hash of profile, token, description and session name. */
  readonly client?: string;
}

/**
 * Whether what one caller began is the other's. A known client stays the same when it reconnects and its session is
 * another one. Without a client the session must be the same.
 */
export function isSameCaller(one: Caller, other: Caller): boolean {
  if (one.actor !== other.actor || one.tenant !== other.tenant || one.user?.id !== other.user?.id) return false;
  return one.client === other.client && (one.client !== undefined || one.session === other.session);
}
