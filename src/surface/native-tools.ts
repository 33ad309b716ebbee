import type { View } from "../catalog/view.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { createWireNames } from "../core/wire-names.ts";
import type { SurfaceBackend, SurfaceTool } from "./surface.ts";

const wireNameCache = new WeakMap<View, ReturnType<typeof createWireNames>>();

export function getWireNames(view: View) {
  let names = wireNameCache.get(view);
  if (names === undefined) {
    names = createWireNames(view.actions().map((action) => action.name));
    wireNameCache.set(view, names);
  }
  return names;
}

export const toNativeTool = (view: View, { name, description, inputSchema, effect }: Action): SurfaceTool => ({
  name: getWireNames(view).toWire(name),
  description,
  inputSchema,
  effect,
});

/** Sorted by name. */
export const toNativeTools = (view: View, actions: readonly Action[]): readonly SurfaceTool[] =>
  actions.map((action) => toNativeTool(view, action)).sort((a, b) => (a.name < b.name ? -1 : 1));

/** The name of the action with that wire name, or the name itself. */
export const resolveToolName = (view: View, tool: string): string =>
  view.get(tool) === undefined ? (getWireNames(view).fromWire(tool) ?? tool) : tool;

/** Undefined when the caller's actor no longer exists. `invoke` then answers with the error. */
export function findView(backend: SurfaceBackend, caller: Caller): View | undefined {
  try {
    return backend.getView(caller);
  } catch {
    return undefined;
  }
}
