import type { SurfaceTool } from "./surface.ts";

export type CountTokens = (text: string) => number;

let counting: Promise<CountTokens> | undefined;

/** Counts o200k tokens. The table is loaded when first asked for: it is large, and most programs never need it. */
export function tokenCounter(): Promise<CountTokens> {
  counting ??= import("gpt-tokenizer/encoding/o200k_base").then(
    ({ countTokens }) =>
      (text: string) =>
        countTokens(text),
  );
  // What could not be loaded, as while no file descriptor is left, is tried again.
  counting.catch(() => {
    counting = undefined;
  });
  return counting;
}

/** What a tool costs in a prompt, as the JSON that providers are sent. */
export function toolTokens(tool: SurfaceTool, count: CountTokens): number {
  return count(JSON.stringify({ name: tool.name, description: tool.description, input_schema: tool.inputSchema }));
}
