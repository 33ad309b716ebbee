import { type Shelves, shelfOfItsOwn } from "../../activation/shelves.ts";
import type { UseTracker } from "../../activation/use-tracker.ts";
import type { View } from "../../catalog/view.ts";
import type { Caller } from "../../core/caller.ts";
import type { SurfaceChoice } from "../../core/surface-choice.ts";
import { nativeTool, nativeTools } from "../native-tools.ts";
import type { Answer, SurfaceTool } from "../surface.ts";
import { hotList } from "./hot-list.ts";
import { ENUM_LIMIT, issuedActions, namesIn, PROMOTED_LIMIT, withChoice } from "./selection.ts";

/** What spares a model the way through the wrappers: names to choose from, and actions as tools of their own. */
export interface Shortcuts {
  /** The wrappers as they are now, and behind them the hot list and what was promoted. */
  tools(view: View, wrappers: readonly SurfaceTool[]): readonly SurfaceTool[];
  /** Remembers the names that an answer gives to the model. Never rejects. */
  told(answer: Answer): Promise<void>;
  /** Counts an action that was run. */
  used(action: string): void;
}

export interface ShortcutParts {
  readonly shelves: Shelves;
  readonly uses: UseTracker;
  readonly now: () => Date;
  /** Whether the session is the caller's own. Where it is not, what was issued is remembered by the surface alone. */
  readonly sessionGiven: boolean;
}

/** Far more names than a model reads in a conversation. */
const ISSUED_LIMIT = 1000;

/** Undefined where no shortcut is chosen: then nothing is remembered and nothing counted. */
export async function openShortcuts(
  { shelves, uses, now, sessionGiven }: ShortcutParts,
  view: View,
  caller: Caller,
  { selection = "none", hotListN: size = 0, hotListSeed: seed = [] }: SurfaceChoice,
): Promise<Shortcuts | undefined> {
  if (selection === "none" && size === 0) return undefined;
  const lasting = selection !== "none" && sessionGiven;
  const issued = lasting ? await shelves.open(issuedKey(caller), ISSUED_LIMIT) : shelfOfItsOwn(ISSUED_LIMIT);
  // Chosen once: a list that followed every call would change the prompt from its beginning.
  const hot = size === 0 ? [] : hotList(view, await uses.usesOf(caller), { size, seed }, now());

  return {
    tools(present, wrappers) {
      const hotActions = hot.flatMap((name) => present.get(name) ?? []);
      const promoted = selection === "promote" ? issuedActions(present, issued, PROMOTED_LIMIT) : [];
      const choice = selection === "enum" ? issuedActions(present, issued, ENUM_LIMIT).map(({ name }) => name) : [];
      return Object.freeze([
        ...wrappers.map((tool) => (tool.name === "invoke_action" ? withChoice(tool, "action_name", choice) : tool)),
        ...nativeTools(present, hotActions),
        ...promoted.filter((action) => !hotActions.includes(action)).map((action) => nativeTool(present, action)),
      ]);
    },
    async told(answer) {
      if (selection !== "none") await issued.put(namesIn(answer));
    },
    used(action) {
      if (size > 0) uses.used(caller, action);
    },
  };
}

function issuedKey({ tenant, actor, session }: Caller): string {
  return JSON.stringify(["issued", tenant ?? null, actor, session]);
}
