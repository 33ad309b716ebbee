import type { Provider } from "../../catalog/provider.ts";
import type { Action } from "../../core/action.ts";
import type { Hub } from "../hub/hub.ts";
import type { ServerBook } from "../manifest/book.ts";
import type { ServerDesk } from "./desk.ts";
import { createServerCatalog } from "./server-catalog.ts";
import { MCP, type Reach } from "./tool-actions.ts";
import { callToolAction } from "./verbs/call-tool.ts";
import { dropServerAction } from "./verbs/drop-server.ts";
import { installActions } from "./verbs/install.ts";
import { listServersAction, listToolsAction } from "./verbs/list-servers.ts";
import { searchRegistryAction } from "./verbs/search-registry.ts";

export interface McpProviderOptions extends Reach {
  readonly hub: Hub;
  readonly book: ServerBook;
  readonly desk: ServerDesk;
  /** Whether servers can be found, installed and removed through actions. */
  readonly install: boolean;
}

const isServerAction = ({ category }: Action): boolean => category === MCP;

/** The category `mcp`: the tools of every server, and the verbs that manage servers. */
export function mcpProvider(options: McpProviderOptions): Provider {
  const { desk, install } = options;
  const servers = createServerCatalog(options, desk.specs);
  const using = [listServersAction(servers), listToolsAction(servers), callToolAction()].map((verb) =>
    // Where servers can be installed, the verbs are there without any. Elsewhere a hidden server must not bring them.
    install ? verb : Object.freeze({ ...verb, serves: isServerAction }),
  );
  const managing = [searchRegistryAction(desk), ...installActions(desk), dropServerAction(desk, servers)];
  return {
    category: MCP,
    capability: install
      ? "Use the tools of MCP servers, and find, install or remove servers."
      : "Use the tools of MCP servers.",
    list() {
      const names = servers.names();
      const verbs = install ? [...using, ...managing] : names.length > 0 ? using : [];
      return [...verbs, ...names.flatMap(servers.actions)];
    },
  };
}
