import type { ApprovalRequestPart } from "../approval/turn.ts";
import type { Caller } from "../core/caller.ts";
import type { Problem } from "../core/errors.ts";
import type { Json } from "../core/json.ts";

export const partTypes = [
  "ack",
  "thinking",
  "response",
  "clarify",
  "error",
  "progress",
  "artifact",
  "citation",
  "domain-data",
] as const;

/** One part of an actor's answer. */
export interface AnswerPart {
  readonly partType: (typeof partTypes)[number];
  readonly text?: string;
  readonly data?: Json;
}

/**
 * - `complete`: the actor has answered
 * - `clarifying`: it needs an answer of the user, which is the next message of the session
 * - `suspended`: calls wait for people. `resumeActor` continues the turn with the token of the envelope
 * - `failed`: it ended without an answer; `error` says why
 * - `cancelled`: its caller stopped it
 */
export type ActorTurnState = "complete" | "clarifying" | "suspended" | "failed" | "cancelled";

/** The end of a turn, or the state in which it waits for people. After work was passed on, it tells of the last actor's turn. */
export interface ActorEnvelope {
  readonly actor: string;
  readonly session: string;
  readonly turnId: string;
  readonly turnState: ActorTurnState;
  /** The parts of the answer, in order; of a suspended turn, one `approval-request` for each waiting call. */
  readonly parts: readonly (AnswerPart | ApprovalRequestPart)[];
  /** Set while the turn is `suspended`. It can be used once, until `resumeExpiresAt`. */
  readonly resumeToken?: string;
  readonly resumeExpiresAt?: string;
  /** Set when the turn has `failed`. */
  readonly error?: Problem;
  /** Requests to the model, and calls of actions, in this turn. */
  readonly steps: number;
  readonly calls: number;
  readonly usage: { readonly inputTokens: number; readonly outputTokens: number; readonly cost?: number };
}

/** An event of a turn, for a host that shows its progress. */
export type ActorEvent =
  | { readonly type: "step"; readonly step: number; readonly of: number }
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "part"; readonly part: AnswerPart }
  | { readonly type: "call-started"; readonly id: string; readonly tool: string; readonly args: unknown }
  | CallEndedEvent;

export interface CallEndedEvent {
  readonly type: "call-ended";
  readonly id: string;
  readonly tool: string;
  readonly ok: boolean;
  readonly text: string;
  /** Why it failed, or what it waits for. Absent: it is done. */
  readonly problem?: { readonly status: "failed" | "refused" | "waiting"; readonly reason: string };
}

export interface CallActorOptions {
  /** The user, tenant and session. The actor's own name replaces `actor`. Without a session, a new one begins. */
  readonly caller?: Partial<Caller>;
  readonly signal?: AbortSignal;
  readonly onEvent?: (event: ActorEvent) => void;
}
