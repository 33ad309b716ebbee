import { z } from "zod";
import { defineAction } from "../../../catalog/define.ts";
import type { Action } from "../../../core/action.ts";
import type { ServerDesk } from "../desk.ts";
import { MCP } from "../tool-actions.ts";

export function searchRegistryAction({ registry }: ServerDesk): Action {
  return defineAction(MCP, {
    entry: "search_registry",
    description: "Search the MCP registry for servers that could be installed, by what they do.",
    effect: "read",
    idempotent: true,
    input: z.strictObject({
      query: z.string().describe("A few words, or part of a name."),
      limit: z.int().min(1).max(50).default(10),
      offset: z.int().min(0).default(0),
    }),
    examples: [{ args: { query: "postgres database" } }],
    run: ({ query, limit, offset }, { signal }) => registry.search(query, { limit, offset, signal }),
  });
}
