import { loadingBy } from "./activation/activation.ts";
import type { View } from "./catalog/view.ts";
import type { Caller } from "./core/caller.ts";
import type { UnstampedEvent } from "./core/events.ts";
import type { SurfaceChoice } from "./core/surface-choice.ts";
import type { Discovery } from "./discovery.ts";
import type { SearchSettings } from "./options.ts";
import { type Directory, type DirectoryOptions, renderDirectory } from "./search/directory.ts";
import { renderHints } from "./search/hints.ts";

/** Blocks of a prompt that help a model find what it needs. */
export interface PromptAids {
  hints(query: string, caller: Caller): Promise<string>;
  directory(caller: Caller): Directory;
  /** Those that are switched on, the steadier one first. */
  blocks(query: string, caller: Caller): Promise<string>;
}

interface PromptAidParts {
  readonly settings: SearchSettings;
  viewOf(caller: Caller): View;
  readonly discovery: Pick<Discovery, "find" | "isOn">;
  surfaceOf(caller: Caller): SurfaceChoice;
  record(caller: Caller, event: UnstampedEvent): void;
}

const DIRECTORY: DirectoryOptions = {
  maxGroups: 20,
  maxActionsPerGroup: 6,
  showCounts: true,
  defaultGroups: true,
  groups: [],
};
const TOP_K = 5;

export function createPromptAids({ settings, viewOf, discovery, surfaceOf, record }: PromptAidParts): PromptAids {
  const {
    enabled: hintsOn = false,
    topK = TOP_K,
    searchType: type,
    includeAlwaysLoaded = false,
  } = settings.hints ?? {};
  const { enabled: directoryOn = false, ...directory } = settings.directory ?? {};

  const aids: PromptAids = {
    async hints(query, caller) {
      const surface = surfaceOf(caller);
      const loadingOf = loadingBy(surface);
      const found = await discovery.find(() => viewOf(caller), {
        query,
        limit: topK,
        ...(type === undefined ? {} : { type }),
        ...(surface.kind !== "deferred" || includeAlwaysLoaded
          ? {}
          : { accepts: (action) => loadingOf(action) === "deferred" }),
      });
      const { requested, effective } = found;
      const data = { query, requested, effective, actions: found.hits.map(({ action }) => action.name) };
      record(caller, { type: "hints.rendered", data });
      return renderHints(query, found);
    },
    directory(caller) {
      const rendered = renderDirectory(viewOf(caller).actions(), { ...DIRECTORY, ...directory });
      record(caller, { type: "directory.rendered", data: { groups: [...rendered.groups], actions: rendered.actions } });
      return rendered;
    },
    async blocks(query, caller) {
      const hinting = hintsOn && discovery.isOn;
      const all = [directoryOn ? aids.directory(caller).text : "", hinting ? await aids.hints(query, caller) : ""];
      return all.filter((block) => block !== "").join("\n\n");
    },
  };
  return aids;
}
