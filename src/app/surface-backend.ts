import type { Catalog } from "../catalog/catalog.ts";
import type { LiveResources } from "../catalog/snapshot.ts";
import type { Abortable } from "../core/abortable.ts";
import { settlesWithin } from "../core/async.ts";
import { Bag } from "../core/bag.ts";
import type { Caller } from "../core/caller.ts";
import type { UnstampedEvent } from "../core/events.ts";
import { omitUndefined } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";
import { type ActionCall, type InvokePipeline, invoke } from "../invoke/invoke.ts";
import type { SurfaceBackend } from "../surface/surface.ts";
import type { Discovery } from "./discovery.ts";

const START_LIMIT_MS = 10_000;

/** Closes all in order, also after errors. Then throws the first error. */
export async function closeAll(closing: readonly (() => Promise<void>)[]): Promise<void> {
  const errors: unknown[] = [];
  for (const close of closing) {
    try {
      await close();
    } catch (thrown) {
      errors.push(thrown);
    }
  }
  if (errors.length > 0) throw errors[0];
}

/** Waits until all providers have listed their actions, but not for ever: a slow one is added when it answers. */
export async function waitForProviders(catalog: Catalog, onProblem: (problem: string) => void): Promise<void> {
  if (await settlesWithin(catalog.settled(), START_LIMIT_MS)) return;
  onProblem(`some providers have not listed their actions within ${START_LIMIT_MS / 1000} seconds`);
}

/** The backend of surfaces, which also resumes calls that waited for a person and waits for running calls. */
export function createSurfaceBackend(
  pipeline: InvokePipeline,
  discovery: Discovery,
  live: LiveResources,
  record: (caller: Caller, event: UnstampedEvent) => void,
): SurfaceBackend & { resume(call: ActionCall): Promise<Outcome>; idle(): Promise<void> } {
  const running = new Bag<Promise<Outcome>>();
  function run(call: ActionCall, signal?: Abortable): Promise<Outcome> {
    const outcome = invoke(pipeline, call, signal);
    running.add(outcome);
    void outcome.then(() => running.delete(outcome));
    return outcome;
  }

  return {
    getView: pipeline.getView,
    live,
    invoke: ({ id = pipeline.runtime.newId(), ...request }, signal) => run({ id, ...request }, signal),
    resume: run,
    canSearch: discovery.isOn,
    searchHint: discovery.waitForHint,
    getHintWords: pipeline.getHintWords,
    async search(caller, request, signal) {
      const found = await discovery.find(() => pipeline.getView(caller), request, signal);
      const { hits, requested, effective, unmatched, note } = found;
      const actions = hits.map(({ action }) => action.name);
      const data = { query: request.query, requested, effective, actions, unmatched: [...unmatched], note };
      record(caller, { type: "search.answered", data: omitUndefined(data) });
      return found;
    },
    recordFetchedActions(caller, { requested, returned }) {
      record(caller, { type: "actions.fetched", data: { requested: [...requested], returned: [...returned] } });
    },
    recordToolCall: (caller, data) => record(caller, { type: "surface.called", data }),
    async idle() {
      await Promise.all(running);
    },
  };
}
