import { createActorRuntime } from "../actor/actor-runtime.ts";
import type { ActorServices } from "../actor/actor-services.ts";
import { createDelegation } from "../actor/delegated-turn.ts";
import { createSessionService } from "../actor/session-service.ts";
import type { Approvals } from "../approval/approval.ts";
import type { Caller } from "../core/caller.ts";
import type { UnstampedEvent } from "../core/events.ts";
import type { Model } from "../core/model.ts";
import type { Outcome } from "../core/outcome.ts";
import { shareAnchors } from "../distribution/anchors.ts";
import { createCallModel } from "../invoke/call-model.ts";
import { describeModelCall } from "../invoke/call-record.ts";
import type { InvokePipeline } from "../invoke/invoke.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { CompiledActor } from "../policy/actors.ts";
import type { Store } from "../store/open-store.ts";
import type { Surface, SurfaceBackend } from "../surface/surface.ts";
import type { InfospaceService } from "./infospace-service.ts";
import { createCallFinder } from "./method-system.ts";
import { withdrawApproval } from "./withdraw-approval.ts";

type ModelRecord = Parameters<typeof createCallModel>[0]["record"];

interface ActorSystemParts
  extends Pick<
      ActorServices,
      "turns" | "anchors" | "runtime" | "hopsLimit" | "buildPrompt" | "getActor" | "decide" | "onProblem"
    >,
    Pick<InvokePipeline, "meter"> {
  readonly approvals: Pick<Approvals, "withdraw" | "outcome">;
  readonly store: Pick<Store, "sessions" | "anchors" | "approvals">;
  readonly ledger: Pick<Ledger, "read" | "flush">;
  readonly infospace: Pick<InfospaceService, "lineage" | "keeper">;
  readonly models: ReadonlyMap<string, Model>;
  readonly backend: SurfaceBackend;
  openSurface(backend: SurfaceBackend, caller: Caller, actor: CompiledActor): Promise<Surface>;
  record(caller: Caller, event: UnstampedEvent): number;
}

/** Turns of actors: their requests to models are charged and recorded, and their calls go through the surface. */
export function createActorSystem(parts: ActorSystemParts) {
  const { store, ledger, infospace, backend, meter, runtime, onProblem } = parts;
  const services: ActorServices = {
    ...parts,
    ...createCallFinder(ledger, parts.approvals),
    sessions: store.sessions,
    shareTokens: (between, value) => shareAnchors(store.anchors, between, value),
    holdSources: infospace.lineage.hold,
    resumeSources: infospace.lineage.resume,
    getModel: (name) => parts.models.get(name),
    createModel(model, caller, turnId, signal) {
      const modelCalled: ModelRecord["modelCalled"] = (request, ended) =>
        void parts.record(caller, describeModelCall(turnId, request, ended));
      return createCallModel({ model, caller, meter, record: { modelCalled }, runtime, onProblem }, () => signal);
    },
    async openSurface(caller, actor, around) {
      const outcomes = new Map<string, Outcome>();
      const inside = around && {
        inside: { callId: around.callId, held: around.heldSlots, isFromModel: true },
        dialogue: around.dialogue,
        trace: around.trace,
      };
      const invoke: SurfaceBackend["invoke"] = async (request, signal) => {
        const outcome = await backend.invoke({ ...request, ...inside }, signal);
        if (request.id !== undefined) outcomes.set(request.id, outcome);
        return outcome;
      };
      const surface = await parts.openSurface({ ...backend, invoke }, caller, actor);
      return {
        surface,
        takeOutcome(callId) {
          const outcome = outcomes.get(callId);
          outcomes.delete(callId);
          return outcome;
        },
      };
    },
    async storeResult(data, caller, action) {
      const author = { caller, action, callId: runtime.newId() };
      const sources = infospace.lineage.begin(false);
      // It is no longer known which actions the data comes from. No action has this name, so the note is for its maker.
      sources.add(["actor-history"]);
      const kept = await sources
        .within(() => infospace.keeper.store({ data, size: data.length }, author, 0))
        .catch(() => undefined);
      return kept?.handle;
    },
    isRepeatable(name, caller, hasEnded) {
      const action = backend.getView(caller).get(name);
      // The turn of an actor continues where it was. After its end, another one would begin.
      return action?.idempotent === true || (action?.localActor !== undefined && !hasEnded);
    },
    withdraw: (id, reason) => withdrawApproval(parts, id, reason),
    record: (caller, event) => ledger.flush(parts.record(caller, event)),
  };
  const actors = createActorRuntime(services);
  const { callActor, resumeActor, close } = actors;
  const runDelegatedTurn = createDelegation(services, actors);
  return { callActor, resumeActor, runDelegatedTurn, sessions: createSessionService(services, actors), close };
}
