import { type ActivationLists, createLocalActivationList } from "../../activation/activation-store.ts";
import { type ActionUse, decayWeight, type UsageTracker } from "../../activation/usage-tracker.ts";
import type { View } from "../../catalog/view.ts";
import type { Caller } from "../../core/caller.ts";
import { isRecord } from "../../core/json.ts";
import type { ActionName } from "../../core/names.ts";
import { hotListSeed, type SurfaceChoice } from "../../core/surface-choice.ts";
import { toNativeTool, toNativeTools } from "../native-tools.ts";
import type { SurfaceAnswer, SurfaceTool } from "../surface.ts";

/** Names in the enum, about a thousand tokens. The latest are kept. */
const ENUM_LIMIT = 128;
/** Promoted actions. The latest are kept. */
const PROMOTED_LIMIT = 32;

/** Lets a model skip the wrappers: a choice of names, and actions as tools. */
export interface Shortcuts {
  /** The wrappers, then the hot list and the promoted actions. */
  tools(view: View, wrappers: readonly SurfaceTool[]): readonly SurfaceTool[];
  /** Remembers the names in an answer. Never rejects. */
  recordIssued(answer: SurfaceAnswer): Promise<void>;
  recordUse(action: string): void;
}

interface ShortcutOptions {
  readonly lists: ActivationLists;
  readonly uses: UsageTracker;
  readonly now: () => Date;
  /** Whether the session is the caller's own. Otherwise only this surface remembers the issued names. */
  readonly sessionGiven: boolean;
}

/** More names than a model reads in a conversation. */
const ISSUED_LIMIT = 1000;

/** Undefined if no shortcut is chosen. Then nothing is remembered or counted. */
export async function openShortcuts(
  { lists, uses, now, sessionGiven }: ShortcutOptions,
  view: View,
  caller: Caller,
  choice: SurfaceChoice,
): Promise<Shortcuts | undefined> {
  const { selection = "none", hotListN: size = 0 } = choice;
  if (selection === "none" && size === 0) return undefined;
  const { tenant = null, actor, session } = caller;
  const issued =
    selection !== "none" && sessionGiven
      ? await lists.open(JSON.stringify(["issued", tenant, actor, session]), ISSUED_LIMIT)
      : createLocalActivationList(ISSUED_LIMIT);
  // Selected once: a list that followed every call would change the prompt from its beginning.
  const hot = await readHotList({ uses, now }, view, caller, choice);
  return {
    tools(present, wrappers) {
      const findActions = (names: readonly string[]) => names.flatMap((name) => present.get(name) ?? []);
      const hotActions = findActions(hot);
      const promoted = selection === "promote" ? findActions(issued.latest(PROMOTED_LIMIT)) : [];
      const choice = selection === "enum" ? findActions(issued.latest(ENUM_LIMIT)).map(({ name }) => name) : [];
      return Object.freeze([
        ...wrappers.map((tool) => (tool.name === "invoke_action" ? addNameChoice(tool, "action_name", choice) : tool)),
        ...toNativeTools(present, hotActions),
        ...promoted.filter((action) => !hotActions.includes(action)).map((action) => toNativeTool(present, action)),
      ]);
    },
    async recordIssued(answer) {
      if (selection !== "none") await issued.put(listActionNames(answer));
    },
    recordUse(action) {
      if (size > 0) uses.recordUse(caller, action);
    },
  };
}

function listActionNames({ data }: SurfaceAnswer): readonly string[] {
  if (!isRecord(data)) return [];
  const items: readonly unknown[] = Array.isArray(data.items) ? data.items : [data];
  return items.flatMap((item) =>
    isRecord(item) && typeof item.qualified_name === "string" ? [item.qualified_name] : [],
  );
}

/** Adds an enum to a parameter. It guides the model; other names still work. */
function addNameChoice(tool: SurfaceTool, parameter: string, names: readonly string[]): SurfaceTool {
  const { properties } = tool.inputSchema;
  if (names.length === 0 || !isRecord(properties)) return tool;
  const choice = { ...(properties[parameter] as object), enum: names };
  return { ...tool, inputSchema: { ...tool.inputSchema, properties: { ...properties, [parameter]: choice } } };
}

/** The actions of the hot list, as they are now. */
export async function readHotList(
  { uses, now }: Pick<ShortcutOptions, "uses" | "now">,
  view: View,
  caller: Caller,
  { hotListN: size = 0, hotListSeed: seed = hotListSeed }: SurfaceChoice,
): Promise<readonly ActionName[]> {
  return size === 0 ? [] : selectHotActions(view, await uses.readUses(caller), { size, seed }, now());
}

/** The visible actions that are used most, then the seed, which may name a registered tool by its bare name. */
export function selectHotActions(
  view: View,
  uses: readonly ActionUse[],
  { size, seed }: { readonly size: number; readonly seed: readonly string[] },
  now: Date,
): readonly ActionName[] {
  const used = uses
    .flatMap((use) => {
      const name = view.get(use.action)?.name;
      return name === undefined ? [] : [{ name, weight: decayWeight(use, now) }];
    })
    .sort((a, b) => b.weight - a.weight || (a.name < b.name ? -1 : 1))
    .map(({ name }) => name);
  const seeds = seed.flatMap((name) => (view.get(name) ?? view.get(`tool__${name}`))?.name ?? []);
  return [...new Set([...used, ...seeds])].slice(0, size);
}
