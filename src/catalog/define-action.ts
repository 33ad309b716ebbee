import type {
  Action,
  ApprovalRule,
  ArgumentTransform,
  CallContext,
  Effect,
  Example,
  Handler,
  JsonSchema,
  LoadingMode,
  Readiness,
} from "../core/action.ts";
import { cloneFrozen, type JsonObject } from "../core/json.ts";
import { type ActionName, actionName } from "../core/names.ts";
import type { ArgumentForms } from "../core/normalize-arguments.ts";
import { addSchemaCheck, type InputSchema, type SchemaOutput, toJsonSchema } from "../core/standard-schema.ts";

/**
 * A source of actions: it owns one category and never sees policy, the ledger or other providers.
 * Adding one to the system is one file and one line where the providers are listed.
 */
export interface Provider {
  readonly category: string;
  /** What one can do here, for a system prompt: the capability in a sentence, never an action's name. */
  readonly capability: string;
  /**
   * What is on offer now. Called at start and again after `watch` calls back; must not have side effects.
   * May answer at once or later; while a later answer is under way the earlier list stays in force.
   */
  list(): readonly Action[] | Promise<readonly Action[]>;
  /** Calls back when `list` would answer differently, until the returned function is called. Absent: never changes. */
  watch?(onChange: () => void): () => void;
  close?(): Promise<void>;
}

interface ActionDeclaration<Schema extends InputSchema> {
  readonly entry: string;
  readonly description: string;
  readonly effect: Effect;
  readonly input: Schema;
  readonly output?: InputSchema;
  readonly tags?: readonly string[];
  readonly aliases?: readonly string[];
  readonly examples?: readonly Example[];
  readonly loading?: LoadingMode;
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
  run(args: SchemaOutput<Schema>, context: CallContext): unknown;
}

/** An action of a provider, declared: types flow from the schema, the effect is stated. */
export function defineAction<Schema extends InputSchema>(
  category: string,
  declared: ActionDeclaration<Schema>,
): Action {
  const { entry, input, output, run, normalize, ...rest } = declared;
  return Object.freeze({
    aliases: [],
    examples: [],
    tags: [],
    idempotent: false,
    ...freezeParts(rest),
    ...(normalize === undefined ? {} : { normalize: Object.freeze({ ...normalize }) }),
    name: actionName(category, entry),
    category,
    entry,
    inputSchema: cloneFrozen(toJsonSchema(input)),
    ...(output === undefined ? {} : { outputSchema: cloneFrozen(toJsonSchema(output)) }),
    scope: "generalist",
    routing: "routed",
    peerExposed: false,
    run: addSchemaCheck(input, run as Handler),
  } satisfies Action);
}

/** A live resource: invoking it runs `target` with the arguments that `transform` makes. */
interface ResourceDeclaration {
  readonly entry: string;
  readonly description: string;
  readonly target: ActionName;
  readonly transform: ArgumentTransform;
  readonly tags?: readonly string[];
  readonly aliases?: readonly string[];
  readonly loading?: LoadingMode;
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
    ...freezeParts(rest),
    name: actionName(category, entry),
    category,
    entry,
    inputSchema: emptyObject,
    effect: "stateful",
    idempotent: false,
    scope: "generalist",
    routing: "routed",
    peerExposed: false,
    canonical: cloneFrozen({ target, transform }),
    run: () => undefined,
  } satisfies Action);
}

const emptyObject: JsonSchema & JsonObject = Object.freeze({ type: "object" });

/** Data is copied and frozen; a policy function cannot be and is kept. */
function freezeParts<T extends object>(parts: T): T {
  const entries = Object.entries(parts).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    entries.map(([key, value]) => [key, typeof value === "function" ? value : cloneFrozen(value)]),
  ) as T;
}
