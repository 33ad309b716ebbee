import { createActorRuntime } from "../actor/actor-runtime.ts";
import type { ActorServices } from "../actor/actor-services.ts";
import { createDelegation } from "../actor/delegated-turn.ts";
import { createSessionService } from "../actor/session-service.ts";
import type { NewEvent } from "../core/events.ts";
import { createCallModel } from "../invoke/call-model.ts";
import { describeModelCall, toCallerFields } from "../invoke/call-record.ts";
import type { InvokePipeline } from "../invoke/invoke.ts";
import type { Ledger } from "../ledger/ledger.ts";

type Given = Omit<ActorServices, "createModel" | "record">;

/** Turns of actors, with models whose requests are charged and recorded. */
export function createActorSystem(
  parts: Given & {
    readonly meter: InvokePipeline["meter"];
    readonly ledger: Pick<Ledger, "record" | "flush">;
  },
) {
  const { runtime, meter, ledger, onProblem } = parts;
  const write: (...event: Parameters<ActorServices["record"]>) => number = (caller, event) =>
    ledger.record({ ...event, at: runtime.now(), ...toCallerFields(caller) } as NewEvent);
  const services: ActorServices = {
    ...parts,
    createModel(model, caller, turnId, signal) {
      const modelCalled: Parameters<typeof createCallModel>[0]["record"]["modelCalled"] = (request, ended) =>
        void write(caller, describeModelCall(turnId, request, ended));
      return createCallModel({ model, caller, meter, record: { modelCalled }, runtime, onProblem }, signal);
    },
    record: (caller, event) => ledger.flush(write(caller, event)),
  };
  const actors = createActorRuntime(services);
  const { callActor, resumeActor, close } = actors;
  const runDelegatedTurn = createDelegation(services, actors);
  return { callActor, resumeActor, runDelegatedTurn, sessions: createSessionService(services, actors), close };
}
