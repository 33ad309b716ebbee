/** The gateway for programs: `quartermaster/mcp`. */

export { createTokenAuthorizer } from "../../core/token-authorizer.ts";
export { createGateway, openGateway, type WorkspaceGateway } from "./create-gateway.ts";
export type {
  Gateway,
  GatewayListener,
  GatewayOptions,
  GatewayProfile,
  ListenOptions,
  StdioOptions,
  Upstream,
} from "./gateway.ts";
