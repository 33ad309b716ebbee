import type { Action, ArgumentTransform, CallContext, Handler, JsonSchema } from "../core/action.ts";
import { cloneFrozen } from "../core/json.ts";
import { type ActionName, actionName } from "../core/names.ts";
import {
  addSchemaCheck,
  type InputSchema,
  isStandardSchema,
  type SchemaOutput,
  toJsonSchema,
} from "../core/standard-schema.ts";

/** A part of a provider that has not been asked yet which actions it has, for example an MCP server. */
export interface PendingSource {
  readonly name: string;
  /** How the full names of its actions begin: `mcp__memory__`. */
  readonly prefix: string;
  /** The action that asks it, for notes to callers. */
  readonly askedBy?: ActionName;
  /** The one action that `list` has of it. The policy decides on it who may ask the source. Absent: no call asks it. */
  readonly connect?: Action;
  /** The action as far as it is known before the source is asked, for the policy. Undefined: it is switched off. */
  expect?(name: ActionName): Action | undefined;
}

/** A source of actions. It owns one category and never sees policy, the ledger or other providers. */
export interface Provider {
  readonly category: string;
  /** The purpose of its actions, for system prompts: one sentence that begins with a verb, without names of actions. */
  readonly capability: string;
  /** Called at start and after `watch` calls back. Must not have side effects. The earlier list stays until it answers. */
  list(): readonly Action[] | Promise<readonly Action[]>;
  /** Calls back when `list` would answer differently, until the returned function is called. */
  watch?(onChange: () => void): () => void;
  /**
   * The sources whose actions `list` does not know yet. For each of them `list` has one action with its prefix. A caller that
   * cannot see this action is not told of the source.
   */
  pending?(): readonly PendingSource[];
  /** Asks a pending source once for all callers. `list` has its actions afterwards. Rejects if it fails. */
  learn?(source: PendingSource, signal?: AbortSignal): Promise<void>;
  close?(): Promise<void>;
}

interface CommonDeclaration
  extends Pick<Action, "entry" | "description">,
    Partial<
      Pick<
        Action,
        "tags" | "aliases" | "loading" | "world" | "source" | "type" | "readiness" | "readinessReason" | "examples"
      >
    > {}

type LimitField = "idempotent" | "timeoutMs" | "concurrency" | "resultChars" | "storesResult" | "requiresApproval";
type OptionalField = LimitField | "handleArguments" | "normalize" | "serves" | "preview" | "files" | "runsAction";

interface ActionDeclaration<Schema extends InputSchema>
  extends CommonDeclaration,
    Pick<Action, "effect">,
    Partial<Pick<Action, OptionalField>> {
  readonly input: Schema;
  readonly output?: InputSchema;
  run(args: SchemaOutput<Schema>, context: CallContext): unknown;
}

/** Declares an action of a provider. The schema types the arguments of `run`. Throws `unsafe_schema`. */
export function defineCheckedAction<Schema extends InputSchema>(
  category: string,
  declaration: ActionDeclaration<Schema>,
): Action {
  const action = defineAction(category, declaration);
  for (const field of SCHEMA_FIELDS) void action[field];
  return action;
}

/**
 * Declares an action of our own. A Standard Schema is converted when the JSON Schema is first read: most are never read, and
 * all conversions together would take a tenth of a short run. The schema types the arguments of `run`.
 */
export function defineAction<Schema extends InputSchema>(
  category: string,
  { entry, input, output, run, normalize, ...rest }: ActionDeclaration<Schema>,
): Action {
  const action = {
    ...DEFAULTS,
    ...freezeParts(rest),
    ...toFixedFields(category, entry),
    ...(normalize === undefined ? {} : { normalize: Object.freeze({ ...normalize }) }),
    run: addSchemaCheck(input, run as Handler),
  };
  Object.defineProperty(action, "inputSchema", toSchemaProperty(input));
  if (output !== undefined) Object.defineProperty(action, "outputSchema", toSchemaProperty(output));
  return Object.freeze(action as typeof action & Pick<Action, "inputSchema">);
}

export const SCHEMA_FIELDS = ["inputSchema", "outputSchema"] as const;
/** The getters whose schema was not read yet. */
const unread = new WeakSet<() => unknown>();

function toSchemaProperty(schema: InputSchema): PropertyDescriptor {
  if (!isStandardSchema(schema)) return { value: cloneFrozen(toJsonSchema(schema)), enumerable: true };
  let converted: JsonSchema | undefined;
  const get = (): JsonSchema => {
    converted ??= cloneFrozen(toJsonSchema(schema));
    unread.delete(get);
    return converted;
  };
  unread.add(get);
  return { get, enumerable: true };
}

/** Whether a schema is one of our own that was not converted yet. Reading it would convert it. */
export function isUnreadSchema(action: Action, field: (typeof SCHEMA_FIELDS)[number]): boolean {
  const get = Object.getOwnPropertyDescriptor(action, field)?.get;
  return get !== undefined && unread.has(get);
}

/** The action with other fields. Unlike a copy with `...`, it does not read the schemas. */
export const extendAction = (action: Action, fields: Partial<Action>): Action =>
  Object.freeze(
    Object.defineProperties({} as Action, {
      ...Object.getOwnPropertyDescriptors(action),
      ...Object.getOwnPropertyDescriptors(fields),
    }),
  );

interface ResourceDeclaration extends CommonDeclaration {
  readonly target: ActionName;
  readonly transform: ArgumentTransform;
}

/** Declares a resource. The catalog fills in the target's schema, effect, approval and handler. */
export const defineResource = (category: string, { entry, target, transform, ...rest }: ResourceDeclaration): Action =>
  Object.freeze({
    ...DEFAULTS,
    ...freezeParts(rest),
    ...toFixedFields(category, entry),
    inputSchema: Object.freeze({ type: "object" }),
    effect: "stateful",
    idempotent: false,
    canonical: cloneFrozen({ target, transform }),
    run: () => undefined,
  } satisfies Action);

const NONE: readonly never[] = Object.freeze([]);
const DEFAULTS = { aliases: NONE, examples: NONE, tags: NONE, idempotent: false };

function toFixedFields(category: string, entry: string) {
  const name = actionName(category, entry);
  return { name, category, entry, scope: "generalist", routing: "routed", peerExposed: false } as const;
}

/** Copies and freezes data. Functions stay as they are. */
function freezeParts<T extends object>(parts: T): T {
  const entries = Object.entries(parts).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    entries.map(([key, value]) => [key, typeof value === "function" ? value : cloneFrozen(value)]),
  ) as T;
}
