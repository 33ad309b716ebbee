import { openActivation } from "../activation/activation.ts";
import type { Shelves } from "../activation/shelves.ts";
import type { UseTracker } from "../activation/use-tracker.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { SurfaceChoice } from "../core/surface-choice.ts";
import { fitsBudget } from "./budget.ts";
import { deferredSurface } from "./deferred/deferred.ts";
import { flatSurface } from "./flat.ts";
import type { Counter, Surface } from "./surface.ts";
import { openShortcuts } from "./universal/shortcuts.ts";
import { universalSurface } from "./universal/universal.ts";

export interface SurfaceParts {
  readonly counter: Counter;
  readonly shelves: Shelves;
  readonly uses: UseTracker;
  readonly now: () => Date;
}

const TOKEN_BUDGET = 8_000;

/** The surface that was chosen for a caller. `sessionGiven`: the session is the caller's own, not one filled in. */
export async function openSurface(
  parts: SurfaceParts,
  caller: Caller,
  choice: SurfaceChoice,
  sessionGiven: boolean,
): Promise<Surface> {
  const { counter, shelves } = parts;
  const { kind = "universal", tokenBudget = TOKEN_BUDGET } = choice;
  const view = counter.viewOf(caller);
  if (kind === "deferred") {
    if (!counter.canSearch) throw nothingToFindWith();
    return deferredSurface(counter, caller, await openActivation(shelves, caller, choice, sessionGiven));
  }
  if (kind === "flat" || (kind === "auto" && (await fitsBudget(view, tokenBudget))))
    return flatSurface(counter, caller);
  return universalSurface(counter, caller, await openShortcuts({ ...parts, sessionGiven }, view, caller, choice));
}

function nothingToFindWith(): QmError {
  return new QmError("search_off", "the deferred surface needs search, and search is switched off", {
    hint: "Set search.enabled: true, or choose another surface.",
  });
}
