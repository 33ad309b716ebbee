/**
 * What the MCP SDK takes from where it runs, without the schema validator that it would bring along: both faces of MCP
 * give it one of their own, and the command need not read a second ajv to start.
 */
export { default as process } from "node:process";

export const CORS_IS_POSSIBLE = false;

export class DefaultJsonSchemaValidator {
  constructor() {
    throw new TypeError("the SDK was given no schema validator");
  }
}
