import type { Caller } from "./core/caller.ts";
import type { Outcome } from "./core/outcome.ts";
import type { Discovery } from "./discovery.ts";
import { type Door, invoke } from "./invoke/invoke.ts";
import type { Found, SearchRequest } from "./search/search.ts";
import type { Counter } from "./surface/surface.ts";
import type { UnstampedEvent } from "./unstamped-event.ts";

/** What surfaces stand in front of, and a way to wait for the calls that are under way. */
export function createCounter(
  door: Door,
  discovery: Discovery,
  noteFor: (caller: Caller, event: UnstampedEvent) => void,
): Counter & { idle(): Promise<void> } {
  const underWay = new Set<Promise<Outcome>>();
  return {
    viewOf: door.viewOf,
    invoke(request, signal) {
      const call = invoke(door, { ...request, id: door.runtime.newId() }, signal).finally(() => underWay.delete(call));
      underWay.add(call);
      return call;
    },
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
