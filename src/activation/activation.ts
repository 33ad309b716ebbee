import type { Action, LoadingMode } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { createPatternSet } from "../core/name-patterns.ts";
import type { ActivationScope, SurfaceChoice } from "../core/surface-choice.ts";
import { type ActivationList, type ActivationLists, createLocalActivationList } from "./activation-store.ts";

/** Turns deferred actions into tools when they are called. */
export interface Activation {
  readonly scope: ActivationScope;
  getLoading(action: Action): LoadingMode;
  /** Whether the action is deferred and not activated yet. */
  isDeferred(action: Action): boolean;
  /**
   * Activates the action, at once for this process; resolves when that is written. Of all processes that activate it at the
   * same time, exactly one is answered `true`.
   */
  activate(action: Action): Promise<boolean>;
  /** With `selection: "promote"`: shows actions that the model has looked at, without activating them. Never rejects. */
  offer(names: readonly string[]): Promise<void>;
  /** The activated and offered names, in that order. The caller may no longer see some of them. */
  names(): readonly string[];
}

/**
 * Actions called beyond this limit run, but do not become tools. Old ones are not dropped for new ones: that would change
 * the prompt from its beginning. Providers take 128 tools.
 */
export const ACTIVATED_LIMIT = 100;

/**
 * Opens the activations of the caller's session or turn. Throws `invalid_arguments` if they are to outlive the turn and the
 * caller has no session.
 */
export async function openActivation(
  lists: ActivationLists,
  caller: Caller,
  { activationScope: scope = "run", selection, ...choice }: SurfaceChoice,
  sessionGiven: boolean,
): Promise<Activation> {
  if (scope === "session" && !sessionGiven) {
    throw new QmError("invalid_arguments", "activation_scope session needs caller.session", {
      hint: "Give caller.session, or use activation_scope run.",
    });
  }
  const getLoading = createLoadingResolver(choice);
  const open = (what: string): Promise<ActivationList> | ActivationList => {
    const key = toListKey(what, caller, scope);
    // Callers without a session share a default one and must not see each other's activations.
    if (key === undefined || !sessionGiven) return createLocalActivationList(ACTIVATED_LIMIT);
    return lists.open(key, ACTIVATED_LIMIT);
  };
  const activated = await open("activated");
  const shown = selection === "promote" ? await open("shown") : activated;
  await shown.put(activated.names());

  return {
    scope,
    getLoading,
    isDeferred: (action) => getLoading(action) === "deferred" && !activated.has(action.name),
    async activate({ name }) {
      const [added] = await Promise.all([activated.put([name]), shown.put([name])]);
      return added.length > 0;
    },
    async offer(names) {
      if (shown !== activated) await shown.put(names);
    },
    names: shown.names,
  };
}

/** A pattern of the configuration wins over the action's own mode, and that over the configured default. */
export function createLoadingResolver({
  defaultLoadingMode = "deferred",
  alwaysLoadedPatterns = [],
}: Pick<SurfaceChoice, "defaultLoadingMode" | "alwaysLoadedPatterns">): (action: Action) => LoadingMode {
  const always = createPatternSet(alwaysLoadedPatterns);
  return (action) => (always.findMatch(action) === undefined ? (action.loading ?? defaultLoadingMode) : "always");
}

/** JSON, so that the parts of two sessions cannot give the same key. */
function toListKey(what: string, { tenant, actor, session, turn }: Caller, scope: ActivationScope): string | undefined {
  const parts = [what, tenant ?? null, actor, session];
  if (scope === "session") return JSON.stringify(parts);
  return turn === undefined ? undefined : JSON.stringify([...parts, turn]);
}
