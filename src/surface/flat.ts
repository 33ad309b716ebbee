import type { View } from "../catalog/view.ts";
import type { Caller } from "../core/caller.ts";
import { type Counter, outcomeAnswer, type Surface, type SurfaceTool } from "./surface.ts";
import { type WireNames, wireNames } from "./wire-names.ts";

/** Every visible action as a tool of its own. */
export function flatSurface(counter: Counter, caller: Caller): Surface {
  const view = counter.viewOf(caller);
  const names = namesOf(view);
  return {
    kind: "flat",
    tools: flatTools(view, names),
    call: (tool, args, signal) =>
      counter.invoke({ name: names.fromWire(tool) ?? tool, args, caller, via: "flat" }, signal).then(outcomeAnswer),
  };
}

export function flatTools(view: View, names = namesOf(view)): readonly SurfaceTool[] {
  return view
    .actions()
    .map(
      ({ name, description, inputSchema, effect }): SurfaceTool => ({
        name: names.toWire(name),
        description,
        inputSchema,
        effect,
      }),
    )
    .sort((a, b) => (a.name < b.name ? -1 : 1));
}

function namesOf(view: View): WireNames {
  return wireNames(view.actions().map((action) => action.name));
}
