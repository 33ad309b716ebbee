import type { Action, Loading } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { patternSet } from "../core/patterns.ts";
import type { ActivationScope, SurfaceChoice } from "../core/surface-choice.ts";
import { type Shelf, type Shelves, shelfOfItsOwn } from "./shelves.ts";

/** Deferred actions that become tools of their own when they are called. The door is handed this with a call. */
export interface Activation {
  readonly scope: ActivationScope;
  loadingOf(action: Action): Loading;
  /** Whether an allowed call of it would activate it: it is deferred, and not activated yet. */
  awaits(action: Action): boolean;
  /**
   * Puts it on the shelf, at once for this process; resolves when that is written. Answers whether this was what
   * activated it: of all that activate the same action at the same time, in whatever process, one is answered true.
   */
  activate(action: Action): Promise<boolean>;
  /** The names of what was activated, in that order. Those that cannot be seen any more are among them. */
  names(): readonly string[];
}

/**
 * So many are activated in one run or session; what is called beyond them runs, and does not become a tool. The oldest
 * are not let go for the newest: that would change the prompt from its beginning. Providers take 128 tools.
 */
export const ACTIVATED_LIMIT = 100;

/** Opens what is activated for a caller: its session, its turn, or without a turn nothing but this handle. */
export async function openActivation(
  shelves: Shelves,
  caller: Caller,
  { activationScope: scope = "run", ...choice }: SurfaceChoice,
): Promise<Activation> {
  const loadingOf = loadingBy(choice);
  const key = shelfKey(caller, scope);
  const shelf: Shelf = key === undefined ? shelfOfItsOwn(ACTIVATED_LIMIT) : await shelves.open(key, ACTIVATED_LIMIT);
  return {
    scope,
    loadingOf,
    awaits: (action) => loadingOf(action) === "deferred" && !shelf.has(action.name),
    activate: async ({ name }) => (await shelf.put([name])).length > 0,
    names: shelf.names,
  };
}

/** Throws where activations are to outlive the turn and there is no session of the caller's own to keep them in. */
export function requireSession(scope: ActivationScope | undefined, sessionGiven: boolean): void {
  if (scope !== "session" || sessionGiven) return;
  throw new QmError("invalid_arguments", "activation_scope session needs caller.session", {
    hint: "Give caller.session, or use activation_scope run.",
  });
}

/** Whoever provides it: a pattern of the configuration, then what the action says, then the configuration's default. */
export function loadingBy({
  defaultLoading = "deferred",
  alwaysLoaded = [],
}: Pick<SurfaceChoice, "defaultLoading" | "alwaysLoaded">): (action: Action) => Loading {
  const always = patternSet(alwaysLoaded);
  return (action) => (always.matching(action) === undefined ? (action.loading ?? defaultLoading) : "always");
}

/** JSON, so that no way of writing one session's parts reads as another's. */
function shelfKey({ tenant, actor, session, turn }: Caller, scope: ActivationScope): string | undefined {
  const parts = ["activated", tenant ?? null, actor, session];
  if (scope === "session") return JSON.stringify(parts);
  return turn === undefined ? undefined : JSON.stringify([...parts, turn]);
}
