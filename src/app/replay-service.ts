import { createLocalActivationList } from "../activation/activation-store.ts";
import type { UsageTracker } from "../activation/usage-tracker.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { LiveResources } from "../catalog/snapshot.ts";
import type { Runtime } from "../core/runtime.ts";
import type { SurfaceChoice } from "../core/surface-choice.ts";
import type { Anchors } from "../distribution/anchors.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { CompiledActor } from "../policy/actors.ts";
import type { Policy } from "../policy/policy.ts";
import { createReplay, type Replay } from "../replay/replay.ts";
import { openSurface } from "../surface/open-surface.ts";
import { createViews, requireActor, requireView } from "./caller-access.ts";
import type { Discovery } from "./discovery.ts";

export interface ReplayServiceOptions {
  readonly runtime: Runtime;
  readonly ledger: Pick<Ledger, "read">;
  readonly catalog: Pick<Catalog, "snapshot">;
  readonly discovery: Pick<Discovery, "isOn" | "hint" | "find">;
  readonly anchors: Pick<Anchors, "fill">;
  readonly live: LiveResources;
  readonly uses: UsageTracker;
  readonly policy: () => Policy;
  readonly valueLimit: number;
  surfaceOf(actor: CompiledActor): SurfaceChoice;
}

/** Replay over what this quartermaster has. */
export function createReplayService(parts: ReplayServiceOptions): Replay {
  const { runtime, ledger, catalog, discovery, anchors, live, uses, policy, valueLimit } = parts;
  const views = createViews(catalog);
  return createReplay({
    runtime,
    ledger,
    policy,
    viewOf: (then, caller, resources) => requireView(then, caller, views, resources),
    live,
    anchors,
    exists: (name) => catalog.snapshot().get(name) !== undefined,
    valueLimit,
    search: { canSearch: discovery.isOn, searchHint: discovery.hint, find: discovery.find },
    openSurface(counter, caller, then, kind) {
      const choice = { ...parts.surfaceOf(requireActor(then, caller.actor)), ...(kind === undefined ? {} : { kind }) };
      // What is only tried out leaves no trace, and is shown what is used in earnest.
      const shelves = { open: async (_key: string, limit: number) => createLocalActivationList(limit) };
      return openSurface(
        { backend: counter, lists: shelves, uses: { ...uses, recordUse: () => {} }, now: runtime.now },
        caller,
        choice,
        true,
      );
    },
  });
}
