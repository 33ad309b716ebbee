import type { TurnService } from "../approval/turn-service.ts";
import type { CallContext } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { UnstampedEvent } from "../core/events.ts";
import type { JsonObject } from "../core/json.ts";
import type { CallModel, Model } from "../core/model.ts";
import type { Outcome } from "../core/outcome.ts";
import type { CallFinder } from "../core/recover-call.ts";
import type { Runtime } from "../core/runtime.ts";
import type { Anchors } from "../distribution/anchors.ts";
import type { CompiledActor } from "../policy/actors.ts";
import type { PolicyDecision } from "../policy/decide.ts";
import type { Surface } from "../surface/surface.ts";
import type { SystemPrompt } from "../surface/system-prompt.ts";
import type { SessionStore } from "./session-store.ts";

/** The call around a delegated turn. */
export type AroundTurn = Pick<CallContext, "caller" | "callId" | "heldSlots" | "dialogue" | "trace">;

/** `takeOutcome`: of a call of an action that has ended, by its id. Undefined for lookups. It may have hidden data. */
export interface ActorSurface {
  readonly surface: Surface;
  takeOutcome(callId: string): Outcome | undefined;
}

/** The parts of the system that turns of actors use. */
export interface ActorServices extends CallFinder {
  readonly turns: TurnService;
  readonly sessions: SessionStore;
  /** Withdraws a question to a person, also one of a turn that was delegated. One that is settled stays as it is. */
  withdraw(approvalId: string, reason: string): Promise<void>;
  readonly runtime: Runtime;
  readonly anchors: Pick<Anchors, "render" | "fill">;
  /** How often work may be handed on from one actor to another. */
  readonly hopsLimit: number;
  /** Makes the tokens in a value of one caller valid for another one. */
  shareTokens(between: { readonly from: Caller; readonly to: Caller }, value: unknown): Promise<void>;
  /** Throws `unknown_actor`, and `invalid_config` for an actor that cannot be used. */
  getActor(caller: Caller): CompiledActor;
  getModel(name: string): Model | undefined;
  /** `around`: the call that the tools are called in. */
  openSurface(caller: Caller, actor: CompiledActor, around?: AroundTurn): Promise<ActorSurface>;
  /** The prompt for a turn that begins with this message. */
  buildPrompt(caller: Caller, query: string): Promise<SystemPrompt>;
  /** A model whose requests are charged to the caller and recorded for the turn. */
  createModel(model: Model, caller: Caller, turnId: string, signal: AbortSignal): CallModel;
  /** Stores a tool result as a note and answers its handle. Undefined: the infospace is off, or has no room. */
  storeResult(text: string, caller: Caller, action: string): Promise<string | undefined>;
  /** Whether an action may be run again after a crash, because running it twice is like running it once. */
  isRepeatable(action: string, caller: Caller, hasEnded: boolean): boolean;
  /** The decision on a call, without making it. Undefined: the caller does not see the action. */
  decide(action: string, args: JsonObject, caller: Caller): PolicyDecision | undefined;
  /** Stores and restores which actions the data of a delegated turn comes from. */
  holdSources(turnId: string): Promise<void>;
  resumeSources(turnId: string): Promise<void>;
  /** Resolves when the event survives the process. */
  record(caller: Caller, event: UnstampedEvent): Promise<void>;
  readonly onProblem: (problem: string) => void;
}
