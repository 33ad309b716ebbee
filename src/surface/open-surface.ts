import { openActivation } from "../activation/activation.ts";
import type { ActivationLists } from "../activation/activation-store.ts";
import type { UsageTracker } from "../activation/usage-tracker.ts";
import type { View } from "../catalog/view.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { SurfaceChoice } from "../core/surface-choice.ts";
import { createDeferredSurface } from "./deferred-surface.ts";
import { getWireNames, toNativeTools } from "./native-tools.ts";
import { type Surface, type SurfaceBackend, type SurfaceTool, toSurfaceAnswer } from "./surface.ts";
import { openShortcuts } from "./universal/shortcuts.ts";
import { createUniversalSurface } from "./universal/universal-surface.ts";

/** Every visible action as a tool of its own. */
function createFlatSurface(counter: SurfaceBackend, caller: Caller): Surface {
  const view = counter.viewOf(caller);
  const names = getWireNames(view);
  return {
    kind: "flat",
    tools: listFlatTools(view),
    call: (tool, args, signal, dialogue, trace) =>
      counter
        .invoke({ name: names.fromWire(tool) ?? tool, args, caller, via: "flat", dialogue, trace }, signal)
        .then(toSurfaceAnswer),
  };
}

function listFlatTools(view: View): readonly SurfaceTool[] {
  return toNativeTools(view, view.actions());
}

type TokenCounter = (text: string) => number;

let loadingCounter: Promise<TokenCounter> | undefined;

/** Counts o200k tokens. The table is loaded when first asked for: it is large, and most programs never need it. */
export function loadTokenCounter(): Promise<TokenCounter> {
  loadingCounter ??= import("gpt-tokenizer/encoding/o200k_base").then(
    ({ countTokens }) =>
      (text: string) =>
        countTokens(text),
  );
  // What could not be loaded, as while no file descriptor is left, is tried again.
  loadingCounter.catch(() => {
    loadingCounter = undefined;
  });
  return loadingCounter;
}

/** What a tool costs in a prompt, as the JSON that providers are sent. */
export function countToolTokens(tool: SurfaceTool, count: TokenCounter): number {
  return count(JSON.stringify({ name: tool.name, description: tool.description, input_schema: tool.inputSchema }));
}

const budgetChecks = new WeakMap<View, { readonly budget: number; readonly fits: boolean }>();

/** Whether everything in a view, shown as tools of their own, fits a budget of tokens. Measured once a view. */
async function fitsBudget(view: View, budget: number): Promise<boolean> {
  let measured = budgetChecks.get(view);
  if (measured?.budget !== budget) {
    measured = { budget, fits: await measureView(view, budget) };
    budgetChecks.set(view, measured);
  }
  return measured.fits;
}

/** Measures until the budget is passed, so that a large catalog costs no more than the budget does. */
async function measureView(view: View, budget: number): Promise<boolean> {
  if (view.actions().length > budget) return false;
  const count = await loadTokenCounter();
  let total = 0;
  for (const tool of listFlatTools(view)) {
    total += countToolTokens(tool, count);
    if (total > budget) return false;
  }
  return true;
}

interface OpenSurfaceOptions {
  readonly counter: SurfaceBackend;
  readonly shelves: ActivationLists;
  readonly uses: UsageTracker;
  readonly now: () => Date;
}

const TOKEN_BUDGET = 8_000;

/** The surface that was chosen for a caller. `sessionGiven`: the session is the caller's own, not one filled in. */
export async function openSurface(
  parts: OpenSurfaceOptions,
  caller: Caller,
  choice: SurfaceChoice,
  sessionGiven: boolean,
): Promise<Surface> {
  const { counter, shelves } = parts;
  const { kind = "universal", tokenBudget = TOKEN_BUDGET } = choice;
  const view = counter.viewOf(caller);
  if (kind === "deferred") {
    if (!counter.canSearch) throw searchRequiredError();
    return createDeferredSurface(counter, caller, await openActivation(shelves, caller, choice, sessionGiven));
  }
  if (kind === "flat" || (kind === "auto" && (await fitsBudget(view, tokenBudget))))
    return createFlatSurface(counter, caller);
  return createUniversalSurface(counter, caller, await openShortcuts({ ...parts, sessionGiven }, view, caller, choice));
}

function searchRequiredError(): QmError {
  return new QmError("search_off", "the deferred surface needs search, and search is switched off", {
    hint: "Set search.enabled: true, or choose another surface.",
  });
}
