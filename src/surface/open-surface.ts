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

interface OpenSurfaceOptions {
  readonly backend: SurfaceBackend;
  readonly lists: ActivationLists;
  readonly uses: UsageTracker;
  readonly now: () => Date;
}

const TOKEN_BUDGET = 8_000;

/** Opens the chosen surface for a caller. `sessionGiven`: the session is the caller's own, not the default one. */
export async function openSurface(
  options: OpenSurfaceOptions,
  caller: Caller,
  choice: SurfaceChoice,
  sessionGiven: boolean,
): Promise<Surface> {
  const { backend, lists } = options;
  const view = backend.getView(caller);
  const kind = await resolveSurfaceKind(backend, view, choice);
  if (kind === "deferred")
    return createDeferredSurface(backend, caller, await openActivation(lists, caller, choice, sessionGiven));
  if (kind === "flat") return createFlatSurface(backend, caller);
  const shortcuts = await openShortcuts({ ...options, sessionGiven }, view, caller, choice);
  return createUniversalSurface(backend, caller, shortcuts);
}

/** The surface of a view, with `auto` resolved. Rejects with `search_off` if the surface needs search. */
export async function resolveSurfaceKind(
  { canSearch }: Pick<SurfaceBackend, "canSearch">,
  view: View,
  { kind = "universal", tokenBudget = TOKEN_BUDGET }: SurfaceChoice,
): Promise<Surface["kind"]> {
  if (kind === "deferred" && !canSearch) throw searchRequiredError();
  if (kind !== "auto") return kind;
  return (await fitsBudget(view, tokenBudget)) ? "flat" : "universal";
}

function searchRequiredError(): QmError {
  const hint = "Set search.enabled: true, or choose another surface.";
  return new QmError("search_off", "the deferred surface needs search, and search is switched off", { hint });
}

function createFlatSurface(backend: SurfaceBackend, caller: Caller): Surface {
  const view = backend.getView(caller);
  const names = getWireNames(view);
  return {
    kind: "flat",
    learnsFromCalls: false,
    tools: toNativeTools(view, view.actions()),
    async call(tool, args, signal, options) {
      const name = names.fromWire(tool) ?? tool;
      return toSurfaceAnswer(await backend.invoke({ name, args, caller, via: "flat", ...options }, signal));
    },
  };
}

type TokenCounter = (text: string) => number;
let loadingCounter: Promise<TokenCounter> | undefined;

/** Counts o200k tokens. Loads the table on first use, because it is large and most programs never need it. */
export function loadTokenCounter(): Promise<TokenCounter> {
  loadingCounter ??= import("gpt-tokenizer/encoding/o200k_base").then(
    ({ countTokens }) =>
      (text) =>
        countTokens(text),
  );
  // Loading fails while no file descriptor is left, and is tried again on the next call.
  loadingCounter.catch(() => {
    loadingCounter = undefined;
  });
  return loadingCounter;
}

export const countToolTokens = ({ name, description, inputSchema }: SurfaceTool, count: TokenCounter): number =>
  count(JSON.stringify({ name, description, input_schema: inputSchema }));
const budgetChecks = new WeakMap<View, { readonly budget: number; readonly fits: boolean }>();

/** Whether all actions of a view fit a budget of tokens as tools. Cached per view. */
async function fitsBudget(view: View, budget: number): Promise<boolean> {
  let measured = budgetChecks.get(view);
  if (measured?.budget !== budget) {
    measured = { budget, fits: await measureView(view, budget) };
    budgetChecks.set(view, measured);
  }
  return measured.fits;
}

/** Stops counting past the budget, so that a large catalog costs no more. */
async function measureView(view: View, budget: number): Promise<boolean> {
  if (view.actions().length > budget) return false;
  const count = await loadTokenCounter();
  let total = 0;
  for (const tool of toNativeTools(view, view.actions())) {
    total += countToolTokens(tool, count);
    if (total > budget) return false;
  }
  return true;
}
