import type { View } from "../catalog/view.ts";
import { flatTools } from "./flat.ts";
import { tokenCounter, toolTokens } from "./tokens.ts";

const known = new WeakMap<View, { readonly budget: number; readonly fits: boolean }>();

/** Whether everything in a view, shown as tools of their own, fits a budget of tokens. Measured once a view. */
export async function fitsBudget(view: View, budget: number): Promise<boolean> {
  let measured = known.get(view);
  if (measured?.budget !== budget) {
    measured = { budget, fits: await measure(view, budget) };
    known.set(view, measured);
  }
  return measured.fits;
}

/** Measures until the budget is passed, so that a large catalog costs no more than the budget does. */
async function measure(view: View, budget: number): Promise<boolean> {
  if (view.actions().length > budget) return false;
  const count = await tokenCounter();
  let total = 0;
  for (const tool of flatTools(view)) {
    total += toolTokens(tool, count);
    if (total > budget) return false;
  }
  return true;
}
