import { shelfOfItsOwn } from "./activation/shelves.ts";
import type { UseTracker } from "./activation/use-tracker.ts";
import { requireActor } from "./callers.ts";
import type { Catalog } from "./catalog/catalog.ts";
import type { LiveResources } from "./catalog/live.ts";
import type { Runtime } from "./core/runtime.ts";
import type { SurfaceChoice } from "./core/surface-choice.ts";
import type { Discovery } from "./discovery.ts";
import type { Anchors } from "./distribution/anchors.ts";
import type { Ledger } from "./ledger/ledger.ts";
import type { CompiledActor } from "./policy/actors.ts";
import type { Policy } from "./policy/policy.ts";
import { createReplay, type Replay } from "./replay/replay.ts";
import { openSurface } from "./surface/open.ts";
import { createViews, requiredView } from "./views.ts";

export interface ReplayingParts {
  readonly runtime: Runtime;
  readonly ledger: Pick<Ledger, "read">;
  readonly catalog: Pick<Catalog, "snapshot">;
  readonly discovery: Pick<Discovery, "isOn" | "hint" | "find">;
  readonly anchors: Pick<Anchors, "fill">;
  readonly live: LiveResources;
  readonly uses: UseTracker;
  readonly policy: () => Policy;
  readonly valueLimit: number;
  surfaceOf(actor: CompiledActor): SurfaceChoice;
}

/** Replay over what this quartermaster has. */
export function createReplaying(parts: ReplayingParts): Replay {
  const { runtime, ledger, catalog, discovery, anchors, live, uses, policy, valueLimit } = parts;
  const views = createViews(catalog);
  return createReplay({
    runtime,
    ledger,
    policy,
    viewOf: (then, caller, resources) => requiredView(then, caller, views, resources),
    live,
    anchors,
    exists: (name) => catalog.snapshot().get(name) !== undefined,
    valueLimit,
    search: { canSearch: discovery.isOn, searchHint: discovery.hint, find: discovery.find },
    openSurface(counter, caller, then, kind) {
      const choice = { ...parts.surfaceOf(requireActor(then, caller.actor)), ...(kind === undefined ? {} : { kind }) };
      // What is only tried out leaves no trace, and is shown what is used in earnest.
      const shelves = { open: async (_key: string, limit: number) => shelfOfItsOwn(limit) };
      return openSurface(
        { counter, shelves, uses: { ...uses, used: () => {} }, now: runtime.now },
        caller,
        choice,
        true,
      );
    },
  });
}
