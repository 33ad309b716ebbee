import { z } from "zod";
import { QmError } from "../core/errors.ts";
import { cloneFrozen, type JsonObject, omitUndefined } from "../core/json.ts";
import { toJsonSchema } from "../core/standard-schema.ts";
import { prepareToolArguments, type SurfaceTool } from "../surface/surface.ts";
import { type AnswerPart, partTypes } from "./envelope.ts";

const PART_LIMIT = 1_000;

const respondShape = z.object({
  parts: z
    .array(
      z.object({
        partType: z.enum(partTypes).describe("response: the answer. clarify: a question to the user"),
        text: z.string().optional(),
        data: z.unknown().describe("JSON for programs").optional(),
      }),
    )
    .min(1),
  turn_state: z
    .enum(["complete", "awaiting", "clarifying", "passed"])
    .describe(
      "complete: this is the answer. awaiting: more follows. clarifying: the user must answer first. passed: leave it to pass_to",
    )
    .default("complete"),
  pass_to: z.string().describe("The actor that takes over, if passed").optional(),
});

/** The tool with which a model answers. It is not an action: the loop itself carries it out, and no surface can replace it. */
export const respondTool: SurfaceTool = cloneFrozen({
  name: "respond",
  description: "Answer the user. The turn ends unless turn_state is awaiting.",
  inputSchema: toJsonSchema(respondShape),
});

export const isRespond = ({ name }: { readonly name: string }): boolean => name === respondTool.name;

export interface ModelResponse {
  readonly parts: readonly AnswerPart[];
  readonly state: z.infer<typeof respondShape>["turn_state"];
  readonly passTo?: string;
}

/** Reads the arguments of `respond`. Throws `invalid_arguments` with what the model must change. */
export function readResponse(args: unknown): ModelResponse {
  const {
    parts,
    turn_state: state,
    pass_to: passTo,
  } = prepareToolArguments(respondTool, args) as JsonObject & z.infer<typeof respondShape>;
  if (parts.length > PART_LIMIT) throw createResponseError(`at most ${PART_LIMIT} parts in one answer`);
  const empty = parts.findIndex(({ text = "", data }) => text.trim() === "" && data === undefined);
  if (empty >= 0) throw createResponseError(`part ${empty + 1} has neither text nor data`);
  if (state === "passed" && (passTo ?? "").trim() === "") throw createResponseError("passed needs pass_to");
  return { parts: parts as readonly AnswerPart[], state, ...omitUndefined({ passTo }) };
}

const createResponseError = (problem: string) =>
  new QmError("invalid_arguments", problem, { hint: "Call respond again with this corrected." });
