import { z } from "zod";
import { defineAction } from "../../../catalog/define.ts";
import type { Action } from "../../../core/action.ts";
import { facts, QmError } from "../../../core/errors.ts";
import { SEPARATOR } from "../../../core/names.ts";
import type { ServerCatalog } from "../server-catalog.ts";
import { MCP } from "../tool-actions.ts";

/** The servers of which the caller may see anything at all: one that is hidden from it is not there. */
export function listServersAction(servers: ServerCatalog): Action {
  return defineAction(MCP, {
    entry: "list_servers",
    description: "List the MCP servers that are installed, and whether their tools can be used.",
    effect: "read",
    idempotent: true,
    input: z.strictObject({}),
    run: (_args, { sees }) => ({
      servers: servers.names().flatMap((name) => {
        const seen = servers.actions(name).filter((action) => sees(action.name));
        if (seen.length === 0) return [];
        const { description, state, known } = servers.facts(name);
        return [facts({ name, state, description, tools: known ? seen.length : undefined })];
      }),
    }),
  });
}

export function listToolsAction(servers: ServerCatalog): Action {
  return defineAction(MCP, {
    entry: "list_tools",
    description: "List the tools of one MCP server as `<server>__<tool>`, with their schemas.",
    effect: "read",
    idempotent: true,
    input: z.strictObject({ server: z.string().min(1) }),
    examples: [{ args: { server: "github" } }],
    run({ server }, { sees }) {
      const seen = servers.actions(server).filter((action) => sees(action.name));
      if (seen.length === 0) {
        throw new QmError("not_found", `there is no MCP server ${JSON.stringify(server)}`, {
          hint: "mcp__list_servers lists the servers there are.",
        });
      }
      return {
        server,
        tools: seen.map(({ entry, description, inputSchema, effect, tags, readiness }) => ({
          tool: entry,
          action: `${MCP}${SEPARATOR}${entry}`,
          description,
          input_schema: inputSchema,
          effect,
          tags,
          state: readiness?.() ?? "ready",
        })),
      };
    },
  });
}
