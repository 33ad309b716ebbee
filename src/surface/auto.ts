import type { View } from "../catalog/view.ts";
import type { Caller } from "../core/caller.ts";
import { flatSurface, flatTools } from "./flat.ts";
import type { Counter, Surface } from "./surface.ts";
import { tokenCounter, toolTokens } from "./tokens.ts";
import { universalSurface } from "./universal/universal.ts";

const fitting = new WeakMap<View, { readonly budget: number; readonly fits: boolean }>();

/** Flat while all visible tools together fit the budget, else universal. Same view, same door, either way. */
export async function autoSurface(counter: Counter, caller: Caller, budget: number): Promise<Surface> {
  const view = counter.viewOf(caller);
  let known = fitting.get(view);
  if (known?.budget !== budget) {
    known = { budget, fits: await fits(view, budget) };
    fitting.set(view, known);
  }
  return known.fits ? flatSurface(counter, caller) : universalSurface(counter, caller);
}

/** Measures until the budget is passed, so that a large catalog costs no more than the budget does. */
async function fits(view: View, budget: number): Promise<boolean> {
  if (view.actions().length > budget) return false;
  const count = await tokenCounter();
  let total = 0;
  for (const tool of flatTools(view)) {
    total += toolTokens(tool, count);
    if (total > budget) return false;
  }
  return true;
}
