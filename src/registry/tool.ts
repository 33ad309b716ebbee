import type { ApprovalRule, CallContext, Example, JsonSchema, Loading } from "../core/action.ts";
import type { Effect } from "../core/effect.ts";
import type { ArgumentForms } from "../core/normalize.ts";
import type { InputSchema, OutputOf } from "../core/standard-schema.ts";

interface Common<Schema extends InputSchema> {
  /** Unique among registered tools; actors refer to it. Listed as `tool__<name>`. */
  readonly name: string;
  /** What it does and when to use it, for the model. */
  readonly description: string;
  /** JSON Schema of an object, or a Standard Schema such as zod's. */
  readonly inputSchema: Schema;
  readonly outputSchema?: InputSchema;
  readonly handler: (args: OutputOf<Schema>, context: CallContext) => unknown;
  readonly effect: Effect;
  readonly requiresApproval?: ApprovalRule;
  /** Arguments with more than one spelling: `{ path: "path", "options.link": "url" }`. Rules and the handler see one. */
  readonly normalize?: ArgumentForms;
  readonly tags?: readonly string[];
  readonly loading?: Loading;
  readonly examples?: readonly Example[];
  /** Other spellings that resolve to it, such as a name it had before. */
  readonly aliases?: readonly string[];
  /** Milliseconds after which a call is answered `timed_out` and its signal aborted. */
  readonly timeout?: number;
  readonly concurrency?: number;
  readonly idempotent?: boolean;
}

/** Touches what is shared: always routed, so that others can see and react. */
interface Generalist {
  readonly scope: "generalist";
  readonly routing?: "routed";
  readonly bypassRouting?: undefined;
  readonly justification?: string;
  /** Whether other agents may be offered it. */
  readonly peerExposed?: boolean;
}

/** Private to the one actor that lists it by name. */
interface RoutedSpecialist {
  readonly scope: "specialist";
  readonly routing?: "routed";
  readonly bypassRouting?: undefined;
  /** Why this is one actor's own work and not shared. */
  readonly justification: string;
  readonly peerExposed?: false;
}

/** Private and run inline: nobody else can see the call happen, though it is recorded like any other. */
interface BypassSpecialist {
  readonly scope: "specialist";
  readonly routing: "bypass";
  /** Why it must not pass through the router. */
  readonly bypassRouting: { readonly reason: string };
  readonly justification: string;
  readonly peerExposed?: false;
}

/** What `register()` takes. The pair generalist and bypass has no member: it is refused. */
export type ToolRegistration<Schema extends InputSchema = JsonSchema> = Common<Schema> &
  (Generalist | RoutedSpecialist | BypassSpecialist);
