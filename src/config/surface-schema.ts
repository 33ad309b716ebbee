import { z } from "zod";
import { activationScopes, selections, surfaceKinds } from "../core/surface-choice.ts";
import { pattern, text, whole } from "./values.ts";

const kind = z.enum(surfaceKinds);
const tokenBudget = whole(1, 10_000_000);
const selection = z.enum(selections);
const hotListN = whole(0, 64);
const loading = z.enum(["always", "deferred"]);
const scope = z.enum(activationScopes);
const name = text("the name of an action").regex(/^[^\s*?]+$/, "expected a name, not a glob");

/** What models are shown. */
export const surfaceSchema = z
  .strictObject({
    kind: kind
      .default("universal")
      .describe(
        "`universal`: a few constant tools that find and call actions. `deferred`: two tools that find actions, and each action as a tool once it was called. `flat`: every action as a tool. `auto`: flat while the schemas fit the budget, else universal.",
      ),
    token_budget: tokenBudget.default(8000).describe("How many tokens of schemas `auto` shows as they are."),
    selection: selection
      .default("none")
      .describe(
        "`enum`, for `universal`: the names that were shown are listed where a name is asked for. `promote`: they become tools of their own; on `deferred`, those that `tool_get` gave.",
      ),
    hot_list_n: hotListN
      .default(0)
      .describe("For `universal`: so many of the actions most used are tools of their own. 0: none."),
    hot_list_seed: z
      .array(name)
      .default([])
      .describe("For `universal`: the names that fill the hot list until others are used more."),
    default_loading_mode: loading
      .default("deferred")
      .describe("For `deferred`: whether an action that does not say itself is shown from the start (`always`)."),
    always_loaded_patterns: z
      .array(pattern())
      .default([])
      .describe("For `deferred`: names or globs of actions that are shown from the start, whatever they say."),
    activation_scope: scope
      .default("run")
      .describe("For `deferred`: whether a called action stays a tool for the turn (`run`) or for the session."),
  })
  .prefault({})
  .describe("The tools a model is shown.");

/** What an actor's model is shown instead. */
export const actorSurfaceSchema = z
  .strictObject({
    kind: kind.optional().describe("In place of `surface.kind`."),
    token_budget: tokenBudget.optional().describe("In place of `surface.token_budget`."),
    selection: selection.optional().describe("In place of `surface.selection`."),
    hot_list_n: hotListN.optional().describe("In place of `surface.hot_list_n`."),
    hot_list_seed: z.array(name).optional().describe("In place of `surface.hot_list_seed`."),
    default_loading_mode: loading.optional().describe("In place of `surface.default_loading_mode`."),
    always_loaded_patterns: z.array(pattern()).optional().describe("In place of `surface.always_loaded_patterns`."),
    activation_scope: scope.optional().describe("In place of `surface.activation_scope`."),
  })
  .optional()
  .describe("What this actor's model is shown, where it differs from `surface`.");
