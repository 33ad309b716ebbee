import type { Provider } from "../catalog/provider.ts";
import type { Action, Handler } from "../core/action.ts";
import { QmError } from "../core/errors.ts";
import { frozenCopy, isRecord, type JsonObject } from "../core/json.ts";
import { type ActionName, actionName, quoted } from "../core/names.ts";
import { guardSchema } from "../core/schema-guard.ts";
import { checkedBy, type InputSchema, toJsonSchema } from "../core/standard-schema.ts";
import { type FieldProblem, registrationProblems } from "./check.ts";
import { callSite } from "./site.ts";
import type { ToolRegistration } from "./tool.ts";

/** Tools that a consumer registers in code. */
export interface Registry {
  /** Throws `invalid_registration` naming the tool, each wrong field with its value, and where it was registered. */
  register<const Schema extends InputSchema>(tool: ToolRegistration<Schema>): ActionName;
  /** Answers whether it was there. */
  unregister(name: string): boolean;
  readonly provider: Provider;
}

const CATEGORY = "tool";

export function createRegistry(onRegistered: (action: Action) => void = () => {}): Registry {
  const tools = new Map<string, Action>();
  const spellings = new Map<string, Action>();
  const watchers = new Set<() => void>();
  const changed = (): void => {
    for (const watcher of watchers) watcher();
  };

  function register<const Schema extends InputSchema>(tool: ToolRegistration<Schema>): ActionName {
    const site = callSite(register);
    const problems = isRecord(tool)
      ? registrationProblems(tool)
      : [{ field: "tool", value: String(tool), problem: "is not an object" }];
    const all = [...problems, ...(isRecord(tool) ? clashes(tool, spellings) : [])];
    if (all.length > 0) throw refusal(tool, all, site);
    const action = toAction(tool as unknown as ToolRegistration<InputSchema>, site);
    onRegistered(action);
    tools.set(action.entry, action);
    for (const spelling of [action.entry, ...action.aliases]) spellings.set(spelling, action);
    changed();
    return action.name;
  }

  return {
    register,
    unregister(name) {
      const known = tools.get(name);
      if (known === undefined) return false;
      tools.delete(name);
      for (const spelling of [known.entry, ...known.aliases]) spellings.delete(spelling);
      changed();
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

function clashes(tool: Record<string, unknown>, spellings: ReadonlyMap<string, Action>): readonly FieldProblem[] {
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

function refusal(tool: unknown, problems: readonly FieldProblem[], site: string): QmError {
  const name = isRecord(tool) && typeof tool.name === "string" ? quoted(tool.name) : "without a name";
  const lines = problems.map(({ field, value, problem }) => `${field} (${value}) ${problem}`);
  return new QmError("invalid_registration", `tool ${name}: ${lines.join("; ")} [registered at ${site}]`, {
    details: { tool: name, site, problems: problems.map((problem): JsonObject => ({ ...problem })) },
  });
}

function approvalOf({ requiresApproval: rule }: ToolRegistration<InputSchema>): Pick<Action, "requiresApproval"> {
  if (rule === undefined) return {};
  return { requiresApproval: typeof rule === "object" ? frozenCopy(rule) : rule };
}

function toAction(tool: ToolRegistration<InputSchema>, site: string): Action {
  return Object.freeze({
    name: actionName(CATEGORY, tool.name),
    category: CATEGORY,
    entry: tool.name,
    description: tool.description.trim(),
    inputSchema: frozenCopy(guardSchema(toJsonSchema(tool.inputSchema), "arguments")),
    ...(tool.outputSchema === undefined
      ? {}
      : { outputSchema: frozenCopy(guardSchema(toJsonSchema(tool.outputSchema), "result")) }),
    effect: tool.effect,
    tags: frozenCopy([...new Set(tool.tags ?? [])]),
    aliases: frozenCopy([...new Set(tool.aliases ?? [])]),
    examples: frozenCopy(tool.examples ?? []),
    scope: tool.scope,
    routing: tool.routing ?? "routed",
    ...(tool.justification === undefined ? {} : { justification: tool.justification }),
    ...(tool.bypassRouting === undefined ? {} : { bypassReason: tool.bypassRouting.reason }),
    ...approvalOf(tool),
    ...(tool.normalize === undefined ? {} : { normalize: Object.freeze({ ...tool.normalize }) }),
    peerExposed: tool.peerExposed ?? false,
    ...(tool.loading === undefined ? {} : { loading: tool.loading }),
    idempotent: tool.idempotent ?? false,
    ...(tool.timeout === undefined ? {} : { timeoutMs: tool.timeout }),
    ...(tool.concurrency === undefined ? {} : { concurrency: tool.concurrency }),
    site,
    run: checkedBy(tool.inputSchema, tool.handler as Handler),
  } satisfies Action);
}
