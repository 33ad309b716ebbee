import { z } from "zod";
import { defineAction } from "../../../catalog/define.ts";
import type { Action } from "../../../core/action.ts";
import { noServer, type ServerDesk } from "../desk.ts";
import type { ServerCatalog } from "../server-catalog.ts";
import { MCP } from "../tool-actions.ts";
import { askerOf } from "./asker.ts";

export function dropServerAction(desk: ServerDesk, servers: ServerCatalog): Action {
  return defineAction(MCP, {
    entry: "drop_server",
    description: "Remove an MCP server: it is stopped and taken out of the configuration. A person must agree.",
    effect: "stateful",
    tags: ["destructive"],
    requiresApproval: true,
    input: z.strictObject({
      server: z.string().min(1),
      clear_secrets: z.boolean().default(true).describe("Forget the secrets that no other server uses, too."),
    }),
    examples: [{ args: { server: "github" } }],
    async run({ server, clear_secrets }, { caller, sees }) {
      const offered = servers.actions(server);
      // One that is disabled offers nothing, and can be removed all the same.
      if (offered.length > 0 && !offered.some((action) => sees(action.name))) throw noServer(server);
      return desk.drop(server, askerOf(caller), { clearSecrets: clear_secrets });
    },
  });
}
