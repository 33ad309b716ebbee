import type { View } from "../catalog/view.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { Counter, SurfaceTool } from "./surface.ts";
import { type WireNames, wireNames } from "./wire-names.ts";

const kept = new WeakMap<View, WireNames>();

/** The wire names of everything in a view, made once for each. */
export function wireNamesOf(view: View): WireNames {
  let names = kept.get(view);
  if (names === undefined) {
    names = wireNames(view.actions().map((action) => action.name));
    kept.set(view, names);
  }
  return names;
}

/** An action as a tool of its own. */
export function nativeTool(view: View, { name, description, inputSchema, effect }: Action): SurfaceTool {
  return { name: wireNamesOf(view).toWire(name), description, inputSchema, effect };
}

/** The tools of some actions, sorted. */
export function nativeTools(view: View, actions: readonly Action[]): readonly SurfaceTool[] {
  return actions.map((action) => nativeTool(view, action)).sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** What a model means by the name of a tool: the action with that wire name, or the name as it is. */
export function nameBehind(view: View, tool: string): string {
  return view.get(tool) === undefined ? (wireNamesOf(view).fromWire(tool) ?? tool) : tool;
}

/** No view where the caller's actor is not there any more: the door says so, and nothing of it is shown. */
export function viewOrNone(counter: Counter, caller: Caller): View | undefined {
  try {
    return counter.viewOf(caller);
  } catch {
    return undefined;
  }
}
