import { z } from "zod";
import type { Activation } from "../../activation/activation.ts";
import type { View } from "../../catalog/view.ts";
import type { Example, JsonSchema, Loading } from "../../core/action.ts";
import type { Effect } from "../../core/effect.ts";
import { QmError } from "../../core/errors.ts";
import { clip, frozenCopy } from "../../core/json.ts";
import { NAME_LIMIT } from "../../core/names.ts";
import { toJsonSchema } from "../../core/standard-schema.ts";
import { type Candidate, stateOf } from "../compact.ts";
import { nameBehind } from "../native-tools.ts";
import type { SurfaceTool } from "../surface.ts";
import { type ActionDescription, describeAction } from "../universal/describe-action.ts";

export interface ToolRequest {
  readonly names: readonly string[];
  readonly include_schemas?: boolean;
  readonly include_examples?: boolean;
}

/** Everything a model may know of one tool. */
export interface ToolRecord extends Pick<Candidate, "state"> {
  readonly name: string;
  readonly description: string;
  readonly effect: Effect;
  readonly loading: Loading;
  readonly tags: readonly string[];
  readonly approval: ActionDescription["metadata"]["approval"];
  readonly input_schema?: JsonSchema;
  readonly output_schema?: JsonSchema;
  readonly examples?: readonly Example[];
}

export interface ToolRecords {
  readonly tools: readonly ToolRecord[];
  /** How many names were asked for, and how many tools they led to. */
  readonly requested: number;
  readonly returned: number;
  /** The names that lead to nothing you may use. */
  readonly missing?: readonly string[];
}

export const toolGetTool: SurfaceTool = frozenCopy({
  name: "tool_get",
  description: "Full descriptions, input schemas and examples of tools, by name.",
  inputSchema: toJsonSchema(
    z.object({
      names: z.array(z.string()).min(1).max(10),
      include_schemas: z.boolean().default(true),
      include_examples: z.boolean().default(true),
    }),
  ),
  effect: "read",
});

/**
 * What the names lead to, each action once; those that lead nowhere are only named. Throws the `unknown_action` of
 * `describe_action` when all do. Activates nothing: looking at a tool is not using it.
 */
export function toolGet(view: View, request: ToolRequest, loadingOf: Activation["loadingOf"]): ToolRecords {
  const names = request.names.map((name) => nameBehind(view, name)).filter((name) => name.trim() !== "");
  const tools = new Map<string, ToolRecord>();
  const missing: string[] = [];
  for (const name of names) {
    const record = recordOf(view, name, request, loadingOf);
    if (record === undefined) missing.push(clip(name, NAME_LIMIT));
    else tools.set(record.name, record);
  }
  if (tools.size === 0) describeAction(view, names[0] ?? "");
  return {
    tools: [...tools.values()],
    requested: request.names.length,
    returned: tools.size,
    ...(missing.length === 0 ? {} : { missing }),
  };
}

function recordOf(
  view: View,
  name: string,
  { include_schemas = true, include_examples = true }: ToolRequest,
  loadingOf: Activation["loadingOf"],
): ToolRecord | undefined {
  const described = descriptionOf(view, name);
  const action = described === undefined ? undefined : view.get(described.qualified_name);
  if (described === undefined || action === undefined) return undefined;
  const { input_schema, output_schema, examples, metadata } = described;
  return {
    name: action.name,
    description: action.description,
    effect: action.effect,
    loading: loadingOf(action),
    tags: action.tags,
    approval: metadata.approval,
    ...stateOf(action),
    ...(include_schemas ? { input_schema } : {}),
    ...(include_schemas && output_schema !== undefined ? { output_schema } : {}),
    ...(include_examples ? { examples } : {}),
  };
}

function descriptionOf(view: View, name: string): ActionDescription | undefined {
  try {
    return describeAction(view, name);
  } catch (thrown) {
    if (thrown instanceof QmError && thrown.code === "unknown_action") return undefined;
    throw thrown;
  }
}
