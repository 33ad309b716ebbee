import type { JsonSchema } from "../../core/action.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Era } from "../server-spec.ts";

/** One tool as its server describes it; what we do not know of is kept as it came. */
export interface OfferedTool extends JsonObject {
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema: JsonSchema;
  readonly outputSchema?: JsonSchema;
  readonly annotations?: JsonObject;
}

/** Everything a server said it offers, when it was last asked. */
export interface Offer {
  readonly protocolVersion: string;
  readonly era: Era;
  readonly serverInfo: JsonObject;
  readonly capabilities: JsonObject;
  readonly instructions?: string;
  readonly tools: readonly OfferedTool[];
  readonly resources: readonly JsonObject[];
  readonly resourceTemplates: readonly JsonObject[];
  readonly prompts: readonly JsonObject[];
}
