import { dynamicTool, type JSONSchema7, jsonSchema, type ToolSet } from "ai";
import type { Surface, SurfaceAnswer } from "../surface.ts";
import { exportTools } from "./exported-tool.ts";

/**
 * The tools of a surface for `generateText` and `streamText`. A tool's output is the whole `SurfaceAnswer`; the model gets
 * only its text. Pass the same tools to `convertToModelMessages`, or the whole answer goes to the model.
 */
export const toAiSdkTools = (surface: Surface): ToolSet =>
  Object.fromEntries(
    exportTools(surface).map(({ name, description, schema }) => [
      name,
      dynamicTool({
        description,
        inputSchema: jsonSchema(schema as JSONSchema7),
        execute: (input, { abortSignal }) => surface.call(name, input, abortSignal),
        toModelOutput({ output }) {
          const { ok, text } = output as SurfaceAnswer;
          return { type: ok ? "text" : "error-text", value: text };
        },
      }),
    ]),
  );
