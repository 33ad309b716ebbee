import type { Config } from "../../config/schema.ts";
import type { SurfaceKind } from "../../core/surface-choice.ts";
import { hasSurface } from "./desk.ts";
import type { GatewayProfile } from "./gateway.ts";

const texts: { readonly [Kind in SurfaceKind]?: string } = {
  universal:
    "Every action is reached through these few tools: search_actions finds what you need, describe_action tells its arguments, invoke_action runs it. Search before you say that something cannot be done.",
  deferred:
    "More tools than these can be called: tool_search finds them, tool_get tells their arguments, and then you call them by their names. Search before you say that something cannot be done.",
};

/** What the clients of a profile are told about their tools. Undefined: the tools speak for themselves. */
export function instructionsOf(
  profile: GatewayProfile,
  config: Pick<Config, "actors" | "surface">,
): string | undefined {
  const { surface, actor } = profile;
  if (!hasSurface(profile)) return undefined;
  return texts[surface ?? config.actors[actor]?.surface?.kind ?? config.surface.kind];
}
