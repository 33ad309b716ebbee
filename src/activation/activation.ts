import type { Action, LoadingMode } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { createPatternSet } from "../core/name-patterns.ts";
import type { ActivationScope, SurfaceChoice } from "../core/surface-choice.ts";
import { type ActivationList, type ActivationLists, createLocalActivationList } from "./activation-store.ts";

/** Deferred actions that become tools of their own when they are called. The door is handed this with a call. */
export interface Activation {
  readonly scope: ActivationScope;
  getLoading(action: Action): LoadingMode;
  /** Whether an allowed call of it would activate it: it is deferred, and not activated yet. */
  isDeferred(action: Action): boolean;
  /**
   * Puts it on the shelf, at once for this process; resolves when that is written. Answers whether this was what
   * activated it: of all that activate the same action at the same time, in whatever process, one is answered true.
   */
  activate(action: Action): Promise<boolean>;
  /** Shows what a model has looked at without activating it, where `promote` was chosen. Never rejects. */
  offer(names: readonly string[]): Promise<void>;
  /** What is shown: the names that were activated or offered, in that order, also those not to be seen any more. */
  names(): readonly string[];
}

/**
 * So many are activated in one run or session; what is called beyond them runs, and does not become a tool. The oldest
 * are not let go for the newest: that would change the prompt from its beginning. Providers take 128 tools.
 */
export const ACTIVATED_LIMIT = 100;

/** Opens what is activated for a caller: its session, its turn, or without a turn nothing but this handle. */
export async function openActivation(
  shelves: ActivationLists,
  caller: Caller,
  { activationScope: scope = "run", selection, ...choice }: SurfaceChoice,
  sessionGiven: boolean,
): Promise<Activation> {
  requireSession(scope, sessionGiven);
  const getLoading = createLoadingResolver(choice);
  const open = (what: string): Promise<ActivationList> | ActivationList => {
    const key = toListKey(what, caller, scope);
    // Strangers share the session that is filled in; what they activate is not for each other.
    return key === undefined || !sessionGiven
      ? createLocalActivationList(ACTIVATED_LIMIT)
      : shelves.open(key, ACTIVATED_LIMIT);
  };
  const activated = await open("activated");
  const shown = selection === "promote" ? await open("shown") : activated;
  await shown.put(activated.names());

  return {
    scope,
    getLoading: getLoading,
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

/** Throws where activations are to outlive the turn and there is no session of the caller's own to keep them in. */
function requireSession(scope: ActivationScope | undefined, sessionGiven: boolean): void {
  if (scope !== "session" || sessionGiven) return;
  throw new QmError("invalid_arguments", "activation_scope session needs caller.session", {
    hint: "Give caller.session, or use activation_scope run.",
  });
}

/** Whoever provides it: a pattern of the configuration, then what the action says, then the configuration's default. */
export function createLoadingResolver({
  defaultLoadingMode = "deferred",
  alwaysLoadedPatterns = [],
}: Pick<SurfaceChoice, "defaultLoadingMode" | "alwaysLoadedPatterns">): (action: Action) => LoadingMode {
  const always = createPatternSet(alwaysLoadedPatterns);
  return (action) => (always.findMatch(action) === undefined ? (action.loading ?? defaultLoadingMode) : "always");
}

/** JSON, so that no way of writing one session's parts reads as another's. */
function toListKey(what: string, { tenant, actor, session, turn }: Caller, scope: ActivationScope): string | undefined {
  const parts = [what, tenant ?? null, actor, session];
  if (scope === "session") return JSON.stringify(parts);
  return turn === undefined ? undefined : JSON.stringify([...parts, turn]);
}
