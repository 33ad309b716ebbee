/** The gateway for programs: `quartermaster/mcp`. */

export { createGateway } from "./create-gateway.ts";
export type {
  Gateway,
  GatewayOptions,
  GatewayProfile,
  Listening,
  ListenOptions,
  StdioOptions,
  Upstream,
} from "./gateway.ts";
export { authorizeBy } from "./guards.ts";
export { openGateway, type WorkspaceGateway } from "./open-gateway.ts";
