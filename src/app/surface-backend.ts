import type { Catalog } from "../catalog/catalog.ts";
import type { LiveResources } from "../catalog/snapshot.ts";
import type { Caller } from "../core/caller.ts";
import type { UnstampedEvent } from "../core/events.ts";
import type { Outcome } from "../core/outcome.ts";
import { type ActionCall, type InvokePipeline, invoke } from "../invoke/invoke.ts";
import type { CatalogSearchRequest, CatalogSearchResult } from "../search/search.ts";
import type { SurfaceBackend } from "../surface/surface.ts";
import type { Discovery } from "./discovery.ts";

const START_LIMIT_MS = 10_000;

/** Each is closed, whatever the ones before it did; then the first fault is thrown. */
export async function closeAll(closing: readonly (() => Promise<void>)[]): Promise<void> {
  const faults: unknown[] = [];
  for (const close of closing) {
    try {
      await close();
    } catch (thrown) {
      faults.push(thrown);
    }
  }
  if (faults.length > 0) throw faults[0];
}

/** A provider that never answers must not keep everything else from starting; its actions come when they come. */
export async function waitForProviders(catalog: Catalog, onProblem: (problem: string) => void): Promise<void> {
  const late = AbortSignal.timeout(START_LIMIT_MS);
  await Promise.race([catalog.settled(), new Promise((resolve) => late.addEventListener("abort", resolve))]);
  if (late.aborted) onProblem(`not every provider has listed its actions within ${START_LIMIT_MS / 1000} seconds`);
}

interface PendingCalls {
  /** Goes on with a call that waited for a person. */
  resume(call: ActionCall): Promise<Outcome>;
  idle(): Promise<void>;
}

/** What surfaces stand in front of, and a way to wait for the calls that are under way. */
export function createSurfaceBackend(
  door: InvokePipeline,
  discovery: Discovery,
  live: LiveResources,
  noteFor: (caller: Caller, event: UnstampedEvent) => void,
): SurfaceBackend & Pick<PendingCalls, "resume" | "idle"> {
  const pending = new Set<Promise<Outcome>>();
  function run(call: ActionCall, signal?: AbortSignal): Promise<Outcome> {
    const running = invoke(door, call, signal).finally(() => pending.delete(running));
    pending.add(running);
    return running;
  }

  return {
    getView: door.getView,
    live,
    invoke: (request, signal) => run({ ...request, id: door.runtime.newId() }, signal),
    resume: run,
    canSearch: discovery.isOn,
    searchHint: discovery.hint,
    async search(caller, request, signal) {
      const found = await discovery.find(() => door.getView(caller), request, signal);
      noteFor(caller, { type: "search.answered", data: toSearchEventData(request, found) });
      return found;
    },
    recordFetchedActions(caller, { requested, returned }) {
      noteFor(caller, { type: "actions.fetched", data: { requested: [...requested], returned: [...returned] } });
    },
    recordToolCall: (caller, data) => noteFor(caller, { type: "surface.called", data }),
    async idle() {
      await Promise.all(pending);
    },
  };
}

/** A search as the ledger has it. */
function toSearchEventData(
  { query }: CatalogSearchRequest,
  { hits, requested, effective, unmatched, note }: CatalogSearchResult,
) {
  const actions = hits.map(({ action }) => action.name);
  return { query, requested, effective, actions, unmatched: [...unmatched], ...(note === undefined ? {} : { note }) };
}
