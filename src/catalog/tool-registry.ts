import { fileURLToPath } from "node:url";
import type { Action, CallContext, Handler, JsonSchema } from "../core/action.ts";
import { QmError } from "../core/errors.ts";
import type { Streamed, WithContent } from "../core/handler-result.ts";
import { cloneFrozen, isRecord, type JsonObject, omitUndefined } from "../core/json.ts";
import { type ActionName, actionName, quoteName } from "../core/names.ts";
import { guardSchema } from "../core/schema-guard.ts";
import {
  addSchemaCheck,
  type InputSchema,
  type SchemaInput,
  type SchemaOutput,
  toJsonSchema,
} from "../core/standard-schema.ts";
import type { Provider } from "./define-action.ts";
import { findRegistrationProblems, type RegistrationProblem } from "./registration-checks.ts";

/** Fits the input side of the schema: the result is checked as it is, and never transformed. */
type HandlerResult<Output> = Output extends JsonSchema ? unknown : MaybePromise<Answer<SchemaInput<Output>>>;
type MaybePromise<T> = T | Promise<T>;
/** The last form is an `AnnotatedRecord`. */
type Answer<T> = T | WithContent | Streamed | { readonly record: T | WithContent; readonly annotations: object };

interface CommonRegistration<Schema extends InputSchema, Output extends InputSchema>
  extends Pick<Action, "effect">,
    Partial<
      Pick<Action, "requiresApproval" | "tags" | "loading" | "examples" | "concurrency" | "idempotent" | "runsAction">
    > {
  /** Unique among registered tools; actors refer to it. Listed as `tool__<name>`. */
  readonly name: string;
  readonly description: string;
  /** JSON Schema of an object, or a Standard Schema such as zod's. */
  readonly inputSchema: Schema;
  /** The schema of the result. A Standard Schema also types what the handler returns. */
  readonly outputSchema?: Output;
  readonly handler: (args: SchemaOutput<Schema>, context: CallContext) => HandlerResult<Output>;
  /** Arguments with more than one spelling: `{ path: "path", "options.link": "url" }`. Rules and the handler see one. */
  readonly normalize?: NonNullable<Action["normalize"]>;
  /** Other names that resolve to it, such as a former one. */
  readonly aliases?: readonly string[];
  /** Milliseconds after which a call fails with `timed_out` and its signal aborts. */
  readonly timeout?: number;
}

/** Works on shared data, so it is always routed: others can see the call and react. */
interface GeneralistRegistration extends RoutedRegistration {
  readonly scope: "generalist";
  readonly justification?: string;
  /** Whether other agents may be offered it. */
  readonly peerExposed?: boolean;
}

/** Private to the one actor that lists it by name. */
interface SpecialistRegistration {
  readonly scope: "specialist";
  /** Why this work is private to one actor. */
  readonly justification: string;
  readonly peerExposed?: false;
}

type RoutedRegistration = { readonly routing?: "routed"; readonly bypassRouting?: undefined };

/** Subscribers do not see the calls. They are recorded like any other. */
interface BypassRegistration {
  readonly routing: "bypass";
  /** Why it must not pass through the router. */
  readonly bypassRouting: { readonly reason: string };
}

/** The argument of `register()`. A generalist that bypasses routing is refused. */
export type ToolRegistration<
  Schema extends InputSchema = JsonSchema,
  Output extends InputSchema = JsonSchema,
> = CommonRegistration<Schema, Output> &
  (GeneralistRegistration | (SpecialistRegistration & (RoutedRegistration | BypassRegistration)));

/** The `file:line` that called `entrance`, for errors and the ledger. */
function findCallSite(entrance: (...args: never[]) => unknown): string {
  const holder: { stack?: string } = {};
  Error.captureStackTrace(holder, entrance);
  const frame = holder.stack?.split("\n").find((line) => line.trimStart().startsWith("at ")) ?? "";
  const place = /\(?((?:file:\/\/)?[^()\s][^()]*?):(\d+):\d+\)?$/.exec(frame.trim().replace(/^at (?:async )?/, ""));
  if (place === null) return "unknown place";
  const [, where = "", line = ""] = place;
  return `${where.startsWith("file://") ? fileURLToPath(where) : where.replace(/^.* \(/, "")}:${line}`;
}

export interface ToolRegistry {
  /** Throws `invalid_registration` with every wrong field and the place of the registration. */
  register<const Schema extends InputSchema, const Output extends InputSchema = JsonSchema>(
    tool: ToolRegistration<Schema, Output>,
  ): ActionName;
  /** Answers whether it was there. */
  unregister(name: string): boolean;
  readonly provider: Provider;
}

const CATEGORY = "tool";

export function createToolRegistry(onRegistered: (action: Action) => void = () => {}): ToolRegistry {
  const tools = new Map<string, Action>();
  const spellings = new Map<string, Action>();
  const watchers = new Set<() => void>();
  const notifyWatchers = (): void => {
    for (const watcher of watchers) watcher();
  };

  function register<const Schema extends InputSchema, const Output extends InputSchema = JsonSchema>(
    tool: ToolRegistration<Schema, Output>,
  ): ActionName {
    const site = findCallSite(register);
    const problems = isRecord(tool)
      ? findRegistrationProblems(tool)
      : [{ field: "tool", value: String(tool), problem: "is not an object" }];
    const all = [...problems, ...(isRecord(tool) ? findClashes(tool, spellings) : [])];
    if (all.length > 0) throw createRegistrationError(tool, all, site);
    const action = toAction(tool as unknown as ToolRegistration<InputSchema, InputSchema>, site);
    onRegistered(action);
    tools.set(action.entry, action);
    for (const spelling of [action.entry, ...action.aliases]) spellings.set(spelling, action);
    notifyWatchers();
    return action.name;
  }

  return {
    register,
    unregister(name) {
      const known = tools.get(name);
      if (known === undefined) return false;
      tools.delete(name);
      for (const spelling of [known.entry, ...known.aliases]) spellings.delete(spelling);
      notifyWatchers();
      return true;
    },
    provider: {
      category: CATEGORY,
      capability: "Use the tools that this application registered.",
      list: () => [...tools.values()],
      watch(onChange) {
        watchers.add(onChange);
        return () => watchers.delete(onChange);
      },
    },
  };
}

function findClashes(tool: Record<string, unknown>, spellings: ReadonlyMap<string, Action>) {
  const aliases: readonly unknown[] = Array.isArray(tool.aliases) ? tool.aliases : [];
  return [tool.name, ...aliases].flatMap((spelling, index) => {
    const other = typeof spelling === "string" ? spellings.get(spelling) : undefined;
    if (other === undefined) return [];
    const field = index === 0 ? "name" : "aliases";
    return [{ field, value: JSON.stringify(spelling), problem: `is already registered at ${other.site}` }];
  });
}

function createRegistrationError(tool: unknown, problems: readonly RegistrationProblem[], site: string): QmError {
  const name = isRecord(tool) && typeof tool.name === "string" ? quoteName(tool.name) : "without a name";
  const lines = problems.map(
    ({ field, value, problem }) => `${field}${value === undefined ? "" : ` (${value})`} ${problem}`,
  );
  return new QmError("invalid_registration", `tool ${name}: ${lines.join("; ")} [registered at ${site}]`, {
    details: { tool: name, site, problems: problems.map((problem): JsonObject => ({ ...problem })) },
  });
}

function toAction(tool: ToolRegistration<InputSchema, InputSchema>, site: string): Action {
  const {
    outputSchema,
    justification,
    bypassRouting,
    requiresApproval: rule,
    normalize,
    loading,
    concurrency,
    runsAction,
  } = tool;
  const optional = omitUndefined({
    outputSchema: outputSchema && cloneFrozen(guardSchema(toJsonSchema(outputSchema), "result")),
    justification,
    bypassReason: bypassRouting?.reason,
    requiresApproval: typeof rule === "object" ? cloneFrozen(rule) : rule,
    normalize: normalize && Object.freeze({ ...normalize }),
    loading,
    timeoutMs: tool.timeout,
    concurrency,
    runsAction: runsAction && cloneFrozen(runsAction),
  });
  return Object.freeze({
    ...optional,
    name: actionName(CATEGORY, tool.name),
    category: CATEGORY,
    entry: tool.name,
    description: tool.description.trim(),
    inputSchema: cloneFrozen(guardSchema(toJsonSchema(tool.inputSchema), "arguments")),
    effect: tool.effect,
    tags: cloneFrozen([...new Set(tool.tags ?? [])]),
    aliases: cloneFrozen([...new Set(tool.aliases ?? [])]),
    examples: cloneFrozen(tool.examples ?? []),
    scope: tool.scope,
    routing: tool.routing ?? "routed",
    peerExposed: tool.peerExposed ?? false,
    idempotent: tool.idempotent ?? false,
    site,
    run: addSchemaCheck(tool.inputSchema, tool.handler as Handler),
  } satisfies Action);
}
