import { z } from "zod";
import { resolve } from "../../catalog/resolve.ts";
import type { View } from "../../catalog/view.ts";
import type { Example, JsonSchema, Readiness } from "../../core/action.ts";
import type { Effect } from "../../core/effect.ts";
import { frozenCopy } from "../../core/json.ts";
import { toJsonSchema } from "../../core/standard-schema.ts";
import { stateOf } from "../compact.ts";
import type { SurfaceTool } from "../surface.ts";

export interface ActionDescription {
  readonly qualified_name: string;
  readonly description: string;
  readonly input_schema: JsonSchema;
  readonly output_schema?: JsonSchema;
  readonly examples: readonly Example[];
  readonly metadata: {
    /** What runs: the action itself, or for a resource the operation behind it. */
    readonly target_tool_name: string;
    readonly category: string;
    readonly purity: Effect;
    readonly tags: readonly string[];
    readonly idempotent: boolean;
    readonly approval: "never" | "always" | "conditional";
    /** Why it cannot be used right away; absent when it can. */
    readonly state?: Exclude<Readiness, "ready">;
    /** For a resource: what invoking it does. */
    readonly canonical_default?: string;
  };
}

export const describeActionTool: SurfaceTool = frozenCopy({
  name: "describe_action",
  description: "Full description, input schema and examples of one action.",
  inputSchema: toJsonSchema(z.object({ action_name: z.string() })),
  effect: "read",
});

/** Everything a caller may know of one action. Throws `unknown_action` with suggestions. */
export function describeAction(view: View, asked: string): ActionDescription {
  const { action } = resolve(view, asked);
  const { name, description, inputSchema, outputSchema, examples, canonical, category, effect, tags, idempotent } =
    action;
  return {
    qualified_name: name,
    description,
    input_schema: inputSchema,
    ...(outputSchema === undefined ? {} : { output_schema: outputSchema }),
    examples,
    metadata: {
      target_tool_name: canonical?.target ?? name,
      category,
      purity: effect,
      tags,
      idempotent,
      approval: view.approval(action),
      ...stateOf(action),
      ...(canonical === undefined ? {} : { canonical_default: `runs ${canonical.target}` }),
    },
  };
}
