import { fileURLToPath } from "node:url";
import type {
  Action,
  ApprovalRule,
  CallContext,
  Effect,
  Example,
  Handler,
  JsonSchema,
  LoadingMode,
} from "../core/action.ts";
import { QmError } from "../core/errors.ts";
import { cloneFrozen, isRecord, type JsonObject } from "../core/json.ts";
import { type ActionName, actionName, quoteName } from "../core/names.ts";
import type { ArgumentForms } from "../core/normalize-arguments.ts";
import { guardSchema } from "../core/schema-guard.ts";
import { addSchemaCheck, type InputSchema, type SchemaOutput, toJsonSchema } from "../core/standard-schema.ts";
import type { Provider } from "./define-action.ts";
import { findRegistrationProblems, type RegistrationProblem } from "./registration-checks.ts";

interface CommonRegistration<Schema extends InputSchema> {
  /** Unique among registered tools; actors refer to it. Listed as `tool__<name>`. */
  readonly name: string;
  /** What it does and when to use it, for the model. */
  readonly description: string;
  /** JSON Schema of an object, or a Standard Schema such as zod's. */
  readonly inputSchema: Schema;
  readonly outputSchema?: InputSchema;
  readonly handler: (args: SchemaOutput<Schema>, context: CallContext) => unknown;
  readonly effect: Effect;
  readonly requiresApproval?: ApprovalRule;
  /** Arguments with more than one spelling: `{ path: "path", "options.link": "url" }`. Rules and the handler see one. */
  readonly normalize?: ArgumentForms;
  readonly tags?: readonly string[];
  readonly loading?: LoadingMode;
  readonly examples?: readonly Example[];
  /** Other spellings that resolve to it, such as a name it had before. */
  readonly aliases?: readonly string[];
  /** Milliseconds after which a call is answered `timed_out` and its signal aborted. */
  readonly timeout?: number;
  readonly concurrency?: number;
  readonly idempotent?: boolean;
}

/** Touches what is shared: always routed, so that others can see and react. */
interface GeneralistRegistration {
  readonly scope: "generalist";
  readonly routing?: "routed";
  readonly bypassRouting?: undefined;
  readonly justification?: string;
  /** Whether other agents may be offered it. */
  readonly peerExposed?: boolean;
}

/** Private to the one actor that lists it by name. */
interface RoutedSpecialistRegistration {
  readonly scope: "specialist";
  readonly routing?: "routed";
  readonly bypassRouting?: undefined;
  /** Why this is one actor's own work and not shared. */
  readonly justification: string;
  readonly peerExposed?: false;
}

/** Private and run inline: nobody else can see the call happen, though it is recorded like any other. */
interface BypassSpecialistRegistration {
  readonly scope: "specialist";
  readonly routing: "bypass";
  /** Why it must not pass through the router. */
  readonly bypassRouting: { readonly reason: string };
  readonly justification: string;
  readonly peerExposed?: false;
}

/** What `register()` takes. The pair generalist and bypass has no member: it is refused. */
export type ToolRegistration<Schema extends InputSchema = JsonSchema> = CommonRegistration<Schema> &
  (GeneralistRegistration | RoutedSpecialistRegistration | BypassSpecialistRegistration);

/** The `file:line` that called `entrance`, for errors and the ledger: a registration is found again by it. */
function findCallSite(entrance: (...args: never[]) => unknown): string {
  const holder: { stack?: string } = {};
  Error.captureStackTrace(holder, entrance);
  const frame = holder.stack?.split("\n").find((line) => line.trimStart().startsWith("at ")) ?? "";
  const place = /\(?((?:file:\/\/)?[^()\s][^()]*?):(\d+):\d+\)?$/.exec(frame.trim().replace(/^at (?:async )?/, ""));
  if (place === null) return "unknown place";
  const [, where = "", line = ""] = place;
  return `${where.startsWith("file://") ? fileURLToPath(where) : where.replace(/^.* \(/, "")}:${line}`;
}

/** Tools that a consumer registers in code. */
export interface ToolRegistry {
  /** Throws `invalid_registration` naming the tool, each wrong field with its value, and where it was registered. */
  register<const Schema extends InputSchema>(tool: ToolRegistration<Schema>): ActionName;
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

  function register<const Schema extends InputSchema>(tool: ToolRegistration<Schema>): ActionName {
    const site = findCallSite(register);
    const problems = isRecord(tool)
      ? findRegistrationProblems(tool)
      : [{ field: "tool", value: String(tool), problem: "is not an object" }];
    const all = [...problems, ...(isRecord(tool) ? findClashes(tool, spellings) : [])];
    if (all.length > 0) throw createRegistrationError(tool, all, site);
    const action = toAction(tool as unknown as ToolRegistration<InputSchema>, site);
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
      capability: "do what this application registered for you",
      list: () => [...tools.values()],
      watch(onChange) {
        watchers.add(onChange);
        return () => watchers.delete(onChange);
      },
    },
  };
}

function findClashes(
  tool: Record<string, unknown>,
  spellings: ReadonlyMap<string, Action>,
): readonly RegistrationProblem[] {
  const names = [{ field: "name", spelling: tool.name }];
  const aliases = Array.isArray(tool.aliases)
    ? tool.aliases.map((spelling: unknown) => ({ field: "aliases", spelling }))
    : [];
  return [...names, ...aliases].flatMap(({ field, spelling }) => {
    const other = typeof spelling === "string" ? spellings.get(spelling) : undefined;
    return other === undefined
      ? []
      : [{ field, value: JSON.stringify(spelling), problem: `is already registered at ${other.site}` }];
  });
}

function createRegistrationError(tool: unknown, problems: readonly RegistrationProblem[], site: string): QmError {
  const name = isRecord(tool) && typeof tool.name === "string" ? quoteName(tool.name) : "without a name";
  const lines = problems.map(({ field, value, problem }) => `${field} (${value}) ${problem}`);
  return new QmError("invalid_registration", `tool ${name}: ${lines.join("; ")} [registered at ${site}]`, {
    details: { tool: name, site, problems: problems.map((problem): JsonObject => ({ ...problem })) },
  });
}

function pickApprovalRule({ requiresApproval: rule }: ToolRegistration<InputSchema>): Pick<Action, "requiresApproval"> {
  if (rule === undefined) return {};
  return { requiresApproval: typeof rule === "object" ? cloneFrozen(rule) : rule };
}

function toAction(tool: ToolRegistration<InputSchema>, site: string): Action {
  return Object.freeze({
    name: actionName(CATEGORY, tool.name),
    category: CATEGORY,
    entry: tool.name,
    description: tool.description.trim(),
    inputSchema: cloneFrozen(guardSchema(toJsonSchema(tool.inputSchema), "arguments")),
    ...(tool.outputSchema === undefined
      ? {}
      : { outputSchema: cloneFrozen(guardSchema(toJsonSchema(tool.outputSchema), "result")) }),
    effect: tool.effect,
    tags: cloneFrozen([...new Set(tool.tags ?? [])]),
    aliases: cloneFrozen([...new Set(tool.aliases ?? [])]),
    examples: cloneFrozen(tool.examples ?? []),
    scope: tool.scope,
    routing: tool.routing ?? "routed",
    ...(tool.justification === undefined ? {} : { justification: tool.justification }),
    ...(tool.bypassRouting === undefined ? {} : { bypassReason: tool.bypassRouting.reason }),
    ...pickApprovalRule(tool),
    ...(tool.normalize === undefined ? {} : { normalize: Object.freeze({ ...tool.normalize }) }),
    peerExposed: tool.peerExposed ?? false,
    ...(tool.loading === undefined ? {} : { loading: tool.loading }),
    idempotent: tool.idempotent ?? false,
    ...(tool.timeout === undefined ? {} : { timeoutMs: tool.timeout }),
    ...(tool.concurrency === undefined ? {} : { concurrency: tool.concurrency }),
    site,
    run: addSchemaCheck(tool.inputSchema, tool.handler as Handler),
  } satisfies Action);
}
