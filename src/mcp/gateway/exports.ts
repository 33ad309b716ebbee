/** The gateway for programs: `quartermaster/mcp`. */

export { authorizeBy } from "../../core/authorize-by.ts";
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
export { openGateway, type WorkspaceGateway } from "./open-gateway.ts";
