/** A quartermaster as an agent for other agents: `quartermaster/a2a`. */

export { type A2aEndpointOptions, createA2aEndpoint, openA2aEndpoint } from "./a2a-api.ts";
export type { A2aClient } from "./a2a-client.ts";
