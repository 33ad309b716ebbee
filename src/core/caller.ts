import { QmError } from "./errors.ts";
import { isRecord, type JsonObject, omitUndefined } from "./json.ts";

export type ProgressUpdate = { readonly progress: number; readonly total?: number; readonly message?: string };

/** A log line for the caller's side. People see it; it is never treated as an instruction. */
export type LogLine = { readonly level: string; readonly logger?: string; readonly data: unknown };

/** An MCP request to the client: `elicitation/create`, `sampling/createMessage` or `roots/list`. */
export type AskedQuestion = { readonly method: string; readonly params: JsonObject };
export type AskedQuestions = Readonly<Record<string, AskedQuestion>>;

/** Sends progress, log lines and questions to the caller while its call runs. */
export interface Dialogue {
  /** Calls with the same owner share a person: a question of one may be put through the other. */
  readonly owner: string;
  readonly capabilities: JsonObject;
  progress(update: ProgressUpdate): void;
  log(line: LogLine): void;
  /** Asks several questions and returns the answers under the same keys. Rejects if the caller cannot be asked. */
  ask(questions: AskedQuestions): Promise<Readonly<Record<string, JsonObject>>>;
}

/** The logger of log lines that are messages to the user. */
export const SAY_LOGGER = "say";

/** Gets a message to the user while the call runs. */
export type SayListener = (text: string, call: { readonly caller: Caller; readonly callId: string }) => void;

/** Whether an MCP client can show a form. Older clients declare forms as `elicitation: {}`. */
export const canShowForm = ({ elicitation }: JsonObject): boolean =>
  isRecord(elicitation) && (elicitation.form !== undefined || elicitation.url === undefined);

/** An abort reason for a call whose caller stops waiting without withdrawing the approval question. */
export const createLeftOpenError = (why: string) => new QmError("cancelled", why, { details: { left_open: true } });
export const isLeftOpen = (reason: unknown): boolean => reason instanceof QmError && reason.details.left_open === true;

/** The identity every decision, view and record is made for. */
export interface Caller {
  /** The named configuration the caller acts under: which actions, which surface. */
  readonly actor: string;
  /** The conversation; one hash chain in the ledger. */
  readonly session: string;
  readonly turn?: string;
  /** The user of the session, with the host's facts about them (`tier`, `roles`, ...). */
  readonly user?: { readonly id: string } & JsonObject;
  readonly person?: string;
  readonly tenant?: string;
  /** Set by a gateway: a hash of profile, token, description and session name. */
  readonly client?: string;
  /** How often the work was handed on from one actor or peer to another. Absent: never. */
  readonly hops?: number;
}

export interface FlatCaller {
  readonly actor: string;
  readonly session: string;
  readonly turn?: string;
  readonly tenant?: string;
  readonly user?: string;
  readonly person?: string;
}

export const flattenCaller = ({ actor, session, turn, tenant, user, person }: Caller): FlatCaller =>
  omitUndefined({ actor, session, turn, tenant, user: user?.id, person });

/** Whether both may use the same calls. A known client may reconnect under another session; others must keep theirs. */
export function isSameCaller(one: Caller, other: Caller): boolean {
  if (one.actor !== other.actor || one.tenant !== other.tenant || one.user?.id !== other.user?.id) return false;
  return one.client === other.client && (one.client !== undefined || one.session === other.session);
}
