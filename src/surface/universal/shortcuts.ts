import {
  type ActivationList,
  type ActivationLists,
  createLocalActivationList,
} from "../../activation/activation-store.ts";
import type { UsageTracker } from "../../activation/usage-tracker.ts";
import { type ActionUse, decayWeight } from "../../activation/usage-tracker.ts";
import type { View } from "../../catalog/view.ts";
import type { Action } from "../../core/action.ts";
import type { Caller } from "../../core/caller.ts";
import { isRecord } from "../../core/json.ts";
import type { ActionName } from "../../core/names.ts";
import type { SurfaceChoice } from "../../core/surface-choice.ts";
import { toNativeTool, toNativeTools } from "../native-tools.ts";
import type { SurfaceAnswer, SurfaceTool } from "../surface.ts";

/** Names in an enum: about a thousand tokens. Beyond them, those that were issued last. */
const ENUM_LIMIT = 128;
/** Actions as tools of their own. Beyond them, those that were issued last. */
const PROMOTED_LIMIT = 32;

/** The names that an answer gives to a model: a page of actions, or the description of one. */
function listActionNames({ data }: SurfaceAnswer): readonly string[] {
  if (!isRecord(data)) return [];
  const items: readonly unknown[] = Array.isArray(data.items) ? data.items : [data];
  return items.flatMap((item) =>
    isRecord(item) && typeof item.qualified_name === "string" ? [item.qualified_name] : [],
  );
}

/** What was issued last and can still be seen, in the order in which it was first issued. */
function listIssuedActions(view: View, issued: ActivationList, limit: number): readonly Action[] {
  return issued.latest(limit).flatMap((name) => view.get(name) ?? []);
}

/** The tool with a choice of names where it takes one. It guides the model; other names are answered as ever. */
function addNameChoice(tool: SurfaceTool, parameter: string, names: readonly string[]): SurfaceTool {
  const { properties } = tool.inputSchema;
  if (names.length === 0 || !isRecord(properties)) return tool;
  const choice = { ...(properties[parameter] as object), enum: names };
  return { ...tool, inputSchema: { ...tool.inputSchema, properties: { ...properties, [parameter]: choice } } };
}

interface HotListOptions {
  readonly size: number;
  /** What fills the places that nothing used fills, in this order; a registered tool also by its bare name. */
  readonly seed: readonly string[];
}

/** The visible actions that are used most as of `now`, and then the seed. What cannot be seen has no part in it. */
export function selectHotActions(
  view: View,
  uses: readonly ActionUse[],
  { size, seed }: HotListOptions,
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

/** What spares a model the way through the wrappers: names to choose from, and actions as tools of their own. */
export interface Shortcuts {
  /** The wrappers as they are now, and behind them the hot list and what was promoted. */
  tools(view: View, wrappers: readonly SurfaceTool[]): readonly SurfaceTool[];
  /** Remembers the names that an answer gives to the model. Never rejects. */
  recordIssued(answer: SurfaceAnswer): Promise<void>;
  /** Counts an action that was run. */
  used(action: string): void;
}

interface ShortcutOptions {
  readonly shelves: ActivationLists;
  readonly uses: UsageTracker;
  readonly now: () => Date;
  /** Whether the session is the caller's own. Where it is not, what was issued is remembered by the surface alone. */
  readonly sessionGiven: boolean;
}

/** Far more names than a model reads in a conversation. */
const ISSUED_LIMIT = 1000;

/** Undefined where no shortcut is chosen: then nothing is remembered and nothing counted. */
export async function openShortcuts(
  { shelves, uses, now, sessionGiven }: ShortcutOptions,
  view: View,
  caller: Caller,
  { selection = "none", hotListN: size = 0, hotListSeed: seed = [] }: SurfaceChoice,
): Promise<Shortcuts | undefined> {
  if (selection === "none" && size === 0) return undefined;
  const lasting = selection !== "none" && sessionGiven;
  const issued = lasting
    ? await shelves.open(getIssuedKey(caller), ISSUED_LIMIT)
    : createLocalActivationList(ISSUED_LIMIT);
  // Chosen once: a list that followed every call would change the prompt from its beginning.
  const hot = size === 0 ? [] : selectHotActions(view, await uses.readUses(caller), { size, seed }, now());

  return {
    tools(present, wrappers) {
      const hotActions = hot.flatMap((name) => present.get(name) ?? []);
      const promoted = selection === "promote" ? listIssuedActions(present, issued, PROMOTED_LIMIT) : [];
      const choice = selection === "enum" ? listIssuedActions(present, issued, ENUM_LIMIT).map(({ name }) => name) : [];
      return Object.freeze([
        ...wrappers.map((tool) => (tool.name === "invoke_action" ? addNameChoice(tool, "action_name", choice) : tool)),
        ...toNativeTools(present, hotActions),
        ...promoted.filter((action) => !hotActions.includes(action)).map((action) => toNativeTool(present, action)),
      ]);
    },
    async recordIssued(answer) {
      if (selection !== "none") await issued.put(listActionNames(answer));
    },
    used(action) {
      if (size > 0) uses.recordUse(caller, action);
    },
  };
}

function getIssuedKey({ tenant, actor, session }: Caller): string {
  return JSON.stringify(["issued", tenant ?? null, actor, session]);
}
