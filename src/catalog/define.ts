import type {
  Action,
  ApprovalRule,
  ArgumentTransform,
  CallContext,
  Example,
  Handler,
  JsonSchema,
  Loading,
  Readiness,
} from "../core/action.ts";
import type { Effect } from "../core/effect.ts";
import { frozenCopy, type JsonObject } from "../core/json.ts";
import { type ActionName, actionName } from "../core/names.ts";
import type { ArgumentForms } from "../core/normalize.ts";
import { checkedBy, type InputSchema, type OutputOf, toJsonSchema } from "../core/standard-schema.ts";

interface Declaration<Schema extends InputSchema> {
  readonly entry: string;
  readonly description: string;
  readonly effect: Effect;
  readonly input: Schema;
  readonly output?: InputSchema;
  readonly tags?: readonly string[];
  readonly aliases?: readonly string[];
  readonly examples?: readonly Example[];
  readonly loading?: Loading;
  readonly world?: string;
  readonly readiness?: () => Readiness;
  readonly idempotent?: boolean;
  readonly timeoutMs?: number;
  readonly concurrency?: number;
  readonly requiresApproval?: ApprovalRule;
  readonly handleArguments?: readonly string[];
  readonly normalize?: ArgumentForms;
  readonly serves?: NonNullable<Action["serves"]>;
  readonly preview?: NonNullable<Action["preview"]>;
  run(args: OutputOf<Schema>, context: CallContext): unknown;
}

/** An action of a provider, declared: types flow from the schema, the effect is stated. */
export function defineAction<Schema extends InputSchema>(category: string, declared: Declaration<Schema>): Action {
  const { entry, input, output, run, normalize, ...rest } = declared;
  return Object.freeze({
    aliases: [],
    examples: [],
    tags: [],
    idempotent: false,
    ...frozenParts(rest),
    ...(normalize === undefined ? {} : { normalize: Object.freeze({ ...normalize }) }),
    name: actionName(category, entry),
    category,
    entry,
    inputSchema: frozenCopy(toJsonSchema(input)),
    ...(output === undefined ? {} : { outputSchema: frozenCopy(toJsonSchema(output)) }),
    scope: "generalist",
    routing: "routed",
    peerExposed: false,
    run: checkedBy(input, run as Handler),
  } satisfies Action);
}

/** A live resource: invoking it runs `target` with the arguments that `transform` makes. */
export interface ResourceDeclaration {
  readonly entry: string;
  readonly description: string;
  readonly target: ActionName;
  readonly transform: ArgumentTransform;
  readonly tags?: readonly string[];
  readonly aliases?: readonly string[];
  readonly loading?: Loading;
  readonly world?: string;
  readonly readiness?: () => Readiness;
}

/**
 * A resource as an action. Its schema, effect, approval and handler are its target's and are filled in by the
 * catalog, so that a resource can never promise something its operation does not do.
 */
export function defineResource(category: string, declared: ResourceDeclaration): Action {
  const { entry, target, transform, ...rest } = declared;
  return Object.freeze({
    aliases: [],
    examples: [],
    tags: [],
    ...frozenParts(rest),
    name: actionName(category, entry),
    category,
    entry,
    inputSchema: emptyObject,
    effect: "stateful",
    idempotent: false,
    scope: "generalist",
    routing: "routed",
    peerExposed: false,
    canonical: frozenCopy({ target, transform }),
    run: () => undefined,
  } satisfies Action);
}

const emptyObject: JsonSchema & JsonObject = Object.freeze({ type: "object" });

/** Data is copied and frozen; a policy function cannot be and is kept. */
function frozenParts<T extends object>(parts: T): T {
  const entries = Object.entries(parts).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    entries.map(([key, value]) => [key, typeof value === "function" ? value : frozenCopy(value)]),
  ) as T;
}
