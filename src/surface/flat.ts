import type { View } from "../catalog/view.ts";
import type { Caller } from "../core/caller.ts";
import { nativeTools, wireNamesOf } from "./native-tools.ts";
import { type Counter, outcomeAnswer, type Surface, type SurfaceTool } from "./surface.ts";

/** Every visible action as a tool of its own. */
export function flatSurface(counter: Counter, caller: Caller): Surface {
  const view = counter.viewOf(caller);
  const names = wireNamesOf(view);
  return {
    kind: "flat",
    tools: flatTools(view),
    call: (tool, args, signal, dialogue, trace) =>
      counter
        .invoke({ name: names.fromWire(tool) ?? tool, args, caller, via: "flat", dialogue, trace }, signal)
        .then(outcomeAnswer),
  };
}

export function flatTools(view: View): readonly SurfaceTool[] {
  return nativeTools(view, view.actions());
}
