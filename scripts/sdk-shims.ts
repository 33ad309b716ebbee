/**
 * The MCP SDK's platform shims, without its schema validator. The hub and the gateway both pass their own validator, so the
 * command need not load ajv to start.
 */
export { default as process } from "node:process";

export const CORS_IS_POSSIBLE = false;

export class DefaultJsonSchemaValidator {
  constructor() {
    throw new TypeError("the SDK was given no schema validator");
  }
}
