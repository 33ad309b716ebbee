import type { LiveResources } from "./catalog/live.ts";
import type { Caller } from "./core/caller.ts";
import type { UnstampedEvent } from "./core/events.ts";
import type { Outcome } from "./core/outcome.ts";
import type { Discovery } from "./discovery.ts";
import { type Call, type Door, invoke } from "./invoke/invoke.ts";
import type { Found, SearchRequest } from "./search/search.ts";
import type { Counter } from "./surface/surface.ts";

interface CallsUnderWay {
  /** Goes on with a call that waited for a person. */
  resume(call: Call): Promise<Outcome>;
  idle(): Promise<void>;
}

/** What surfaces stand in front of, and a way to wait for the calls that are under way. */
export function createCounter(
  door: Door,
  discovery: Discovery,
  live: LiveResources,
  noteFor: (caller: Caller, event: UnstampedEvent) => void,
): Counter & Pick<CallsUnderWay, "resume" | "idle"> {
  const underWay = new Set<Promise<Outcome>>();
  function run(call: Call, signal?: AbortSignal): Promise<Outcome> {
    const running = invoke(door, call, signal).finally(() => underWay.delete(running));
    underWay.add(running);
    return running;
  }

  return {
    viewOf: door.viewOf,
    live,
    invoke: (request, signal) => run({ ...request, id: door.runtime.newId() }, signal),
    resume: run,
    canSearch: discovery.isOn,
    searchHint: discovery.hint,
    async search(caller, request, signal) {
      const found = await discovery.find(() => door.viewOf(caller), request, signal);
      noteFor(caller, { type: "search.answered", data: searched(request, found) });
      return found;
    },
    fetched(caller, { requested, returned }) {
      noteFor(caller, { type: "actions.fetched", data: { requested: [...requested], returned: [...returned] } });
    },
    called: (caller, data) => noteFor(caller, { type: "surface.called", data }),
    async idle() {
      await Promise.all(underWay);
    },
  };
}

/** A search as the ledger has it. */
function searched({ query }: SearchRequest, { hits, requested, effective, unmatched, note }: Found) {
  const actions = hits.map(({ action }) => action.name);
  return { query, requested, effective, actions, unmatched: [...unmatched], ...(note === undefined ? {} : { note }) };
}
