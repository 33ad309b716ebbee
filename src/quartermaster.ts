import { type Catalog, createCatalog } from "./catalog/catalog.ts";
import type { View } from "./catalog/view.ts";
import { type Action, summaryOf } from "./core/action.ts";
import type { Caller } from "./core/caller.ts";
import { QmError } from "./core/errors.ts";
import { type NewEvent, SYSTEM_SESSION } from "./core/events.ts";
import type { ActionName } from "./core/names.ts";
import { nearest } from "./core/nearest.ts";
import { type Outcome, VALUE_LIMIT } from "./core/outcome.ts";
import type { Runtime } from "./core/runtime.ts";
import type { SurfaceKind } from "./core/surface-choice.ts";
import { type Door, invoke } from "./invoke/invoke.ts";
import { createMeter } from "./invoke/meter.ts";
import { failedOutcome } from "./invoke/outcome.ts";
import { callerStamp, createRecorder } from "./invoke/record.ts";
import { createRunner, type RunLimits } from "./invoke/run.ts";
import { type Ledger, openLedger } from "./ledger/ledger.ts";
import { redactor } from "./ledger/redact.ts";
import {
  type CallerOptions,
  callerShape,
  type InvokeOptions,
  invokeShape,
  listShape,
  policyShape,
  type QuartermasterOptions,
  quartermasterShape,
  requireShape,
} from "./options.ts";
import { actorProblems, type CompiledActor } from "./policy/actors.ts";
import { type Explanation, explain } from "./policy/explain.ts";
import { compilePolicy, type Policy, type PolicyOptions } from "./policy/policy.ts";
import { policyWarnings } from "./policy/warnings.ts";
import { createRegistry, type Registry } from "./registry/registry.ts";
import { openSqliteStore, type Store } from "./store/open.ts";
import { autoSurface } from "./surface/auto.ts";
import { flatSurface } from "./surface/flat.ts";
import type { Counter, Surface } from "./surface/surface.ts";
import { type ActionDescription, describeAction } from "./surface/universal/describe-action.ts";
import { type ActionList, type ListQuery, listActions } from "./surface/universal/list-actions.ts";
import { universalSurface } from "./surface/universal/universal.ts";
import { systemRuntime } from "./system-runtime.ts";
import { createViews } from "./views.ts";

/** One action as an operator is shown it. */
export interface InventoryItem extends Pick<Action, "name" | "category" | "effect" | "tags" | "scope"> {
  readonly summary: string;
}

/** The counter: register actions, ask what a caller may use, and run it. */
export interface Quartermaster {
  readonly register: Registry["register"];
  readonly unregister: Registry["unregister"];
  /** Runs an action through the one door. Never rejects. */
  invoke(name: string, args?: unknown, options?: InvokeOptions): Promise<Outcome>;
  /** Throws `unknown_category`, with the valid ones. */
  list(query?: ListQuery, caller?: CallerOptions): ActionList;
  /** Throws `unknown_action`, with suggestions. */
  describe(name: string, caller?: CallerOptions): ActionDescription;
  /** Which layer of the policy says what about a name. For operators: it tells of hidden actions. */
  explain(name: string, caller?: CallerOptions): Explanation;
  /** The names of everything a caller may use, sorted. */
  names(caller?: CallerOptions): readonly ActionName[];
  /** Every action there is, whoever may see it, sorted by name. For operators. */
  inventory(): readonly InventoryItem[];
  /** The categories with something in them for a caller, sorted. */
  categories(caller?: CallerOptions): readonly string[];
  /** The tools to show a caller's model. Rejects with `invalid_config` when its actor lists what does not exist. */
  surface(caller?: CallerOptions, kind?: SurfaceKind): Promise<Surface>;
  readonly catalog: Pick<Catalog, "provide" | "withdraw" | "settled">;
  readonly ledger: Pick<Ledger, "read" | "verify" | "heads" | "flushed">;
  /** Writes down that a configuration file was taken over, or with a reason that it was not. */
  recordConfig(path: string, rejected?: string): void;
  /** Calls back when what callers may see can have changed, until the returned function is called. */
  onChange(listener: () => void): () => void;
  readonly policyVersion: string;
  /** What actors list and is not there, or is another's; such an actor does not start. */
  actorProblems(): readonly string[];
  /** What is written in the policy and has no effect, because no action is called that. */
  policyWarnings(): readonly string[];
  /** Puts another policy in force, for the next decision on. Throws and changes nothing when it is wrong. */
  usePolicy(policy: PolicyOptions): void;
  /** Aborts what runs, writes what is left, closes providers and store. */
  close(): Promise<void>;
}

const DEFAULT_LIMITS: RunLimits = { timeoutMs: 60_000, concurrency: 32, queue: 256 };
const START_LIMIT_MS = 10_000;
const DEFAULT_SURFACE = { kind: "universal", tokenBudget: 8_000 } as const;

/** Wires everything together. Resolves when every provider has answered or failed, or after ten seconds without them. */
export async function createQuartermaster(options: QuartermasterOptions = {}): Promise<Quartermaster> {
  requireShape(quartermasterShape, "options", options);
  const { runtime = systemRuntime } = options;
  const policy = compilePolicy(options.policy);
  const store = await openSqliteStore(options.store ?? ":memory:", { now: runtime.now });
  try {
    return await wire(options, runtime, policy, store);
  } catch (thrown) {
    await store.close();
    throw thrown;
  }
}

async function wire(
  options: QuartermasterOptions,
  runtime: Runtime,
  startingPolicy: Policy,
  store: Store,
): Promise<Quartermaster> {
  const { onProblem = () => {} } = options;
  let policy = startingPolicy;
  const ledger = openLedger({
    store: store.events,
    redact: redactor(options.redact),
    onError: (error) => onProblem(error.message),
  });
  const note = (event: SystemEvent): void => {
    ledger.record({ ...event, at: runtime.now(), session: SYSTEM_SESSION } as NewEvent);
  };
  const listeners = new Set<() => void>();
  const changed = (): void => {
    for (const listener of listeners) listener();
  };

  const registry = createRegistry(({ name, site = "", scope, routing, justification, bypassReason }) =>
    note({
      type: "action.registered",
      data: {
        action: name,
        site,
        scope,
        routing,
        ...(justification === undefined ? {} : { justification }),
        ...(bypassReason === undefined ? {} : { bypassReason }),
      },
    }),
  );
  let started = false;
  const catalog = createCatalog({
    providers: [registry.provider, ...(options.providers ?? [])],
    onChange(change) {
      // What is there from the start is no change.
      if (!started) return;
      note({ type: "catalog.changed", data: change });
      changed();
    },
    onProblem(category, reason) {
      note({ type: "provider.failed", data: { category, reason } });
      onProblem(`${category}: ${reason}`);
    },
  });
  const views = createViews(catalog);
  const runner = createRunner({ ...DEFAULT_LIMITS, ...options.limits });

  const door: Door = {
    runtime,
    get policy() {
      return policy;
    },
    viewOf,
    record: createRecorder(ledger, runtime, () => policy.version),
    meter: createMeter(store.usage, () => policy.budgets),
    runner,
    valueLimit: options.valueLimit ?? VALUE_LIMIT,
    onProblem,
  };
  const underWay = new Set<Promise<Outcome>>();
  const counter: Counter = {
    viewOf,
    invoke(request, signal) {
      const call = invoke(door, { ...request, id: runtime.newId() }, signal).finally(() => underWay.delete(call));
      underWay.add(call);
      return call;
    },
    called(caller, data) {
      ledger.record({ type: "surface.called", at: runtime.now(), ...callerStamp(caller), data });
    },
  };

  function viewOf(caller: Caller): View {
    requireActor(policy, caller.actor);
    if (caller.session === SYSTEM_SESSION) {
      throw new QmError("invalid_arguments", `the session ${SYSTEM_SESSION} is kept for what no caller asked for`, {
        hint: "Use another session.",
      });
    }
    return views.of(policy, caller);
  }

  function problemsOf({ actors }: Policy, starting: Iterable<CompiledActor> = actors.values()): readonly string[] {
    const { actions } = catalog.snapshot();
    return [...new Set([...starting].flatMap((actor) => actorProblems(actor, [...actors.values()], actions)))];
  }

  const quartermaster: Quartermaster = {
    register: registry.register,
    unregister: registry.unregister,
    async invoke(name, args, options) {
      try {
        if (options !== undefined) requireShape(invokeShape, "options", options);
      } catch (thrown) {
        const unknown = { callId: runtime.newId(), durationMs: 0, valueLimit: door.valueLimit, action: undefined };
        return failedOutcome(unknown, thrown);
      }
      const { caller, signal, timeoutMs, via = "library" } = options ?? {};
      const request = { name: typeof name === "string" ? name : "", args, caller: filledIn(caller), via, timeoutMs };
      return counter.invoke(request, signal);
    },
    list(query = {}, caller) {
      requireShape(listShape, "query", query);
      return listActions(viewOf(completed(caller)), query);
    },
    describe: (name, caller) => describeAction(viewOf(completed(caller)), name),
    explain: (name, caller) => explain(policy, catalog.snapshot(), name, completed(caller)),
    names: (caller) =>
      viewOf(completed(caller))
        .actions()
        .map(({ name }) => name),
    inventory: () =>
      catalog.snapshot().actions.map((action) => {
        const { name, category, effect, tags, scope } = action;
        return { name, category, effect, tags, scope, summary: summaryOf(action) };
      }),
    categories: (caller) => viewOf(completed(caller)).categories(),
    async surface(caller, kind) {
      requireShape(quartermasterShape.shape.surface, "surface", kind === undefined ? undefined : { kind });
      const who = completed(caller);
      const actor = requireActor(policy, who.actor);
      requireSound(problemsOf(policy, [actor]));
      const wanted = {
        ...DEFAULT_SURFACE,
        ...options.surface,
        ...actor.surface,
        ...(kind === undefined ? {} : { kind }),
      };
      if (wanted.kind === "auto") return autoSurface(counter, who, wanted.tokenBudget);
      return wanted.kind === "flat" ? flatSurface(counter, who) : universalSurface(counter, who);
    },
    catalog: { provide: catalog.provide, withdraw: catalog.withdraw, settled: catalog.settled },
    ledger: { read: ledger.read, verify: ledger.verify, heads: ledger.heads, flushed: ledger.flushed },
    recordConfig(path, reason) {
      if (reason !== undefined) note({ type: "config.rejected", data: { path, reason } });
      else note({ type: "config.loaded", data: { path, policyVersion: policy.version } });
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    get policyVersion() {
      return policy.version;
    },
    actorProblems: () => problemsOf(policy),
    policyWarnings: () => policyWarnings(policy, catalog.snapshot().actions),
    usePolicy(next) {
      requireShape(policyShape, "policy", next);
      const compiled = compilePolicy(next);
      requireSound(problemsOf(compiled));
      policy = compiled;
      changed();
    },
    async close() {
      runner.close();
      await Promise.all(underWay);
      await catalog.close();
      try {
        await ledger.close();
      } finally {
        await store.close();
      }
    },
  };

  await settledSoon(catalog, onProblem);
  started = true;
  return quartermaster;
}

/** A provider that never answers must not keep everything else from starting; its actions come when they come. */
async function settledSoon(catalog: Catalog, onProblem: (problem: string) => void): Promise<void> {
  const late = AbortSignal.timeout(START_LIMIT_MS);
  await Promise.race([catalog.settled(), new Promise((resolve) => late.addEventListener("abort", resolve))]);
  if (late.aborted) onProblem(`not every provider has listed its actions within ${START_LIMIT_MS / 1000} seconds`);
}

/** The part of an event that the system itself supplies. */
type SystemEvent = {
  [Type in NewEvent["type"]]: Pick<Extract<NewEvent, { type: Type }>, "type" | "data">;
}[NewEvent["type"]];

function completed(caller: CallerOptions | undefined): Caller {
  if (caller !== undefined) requireShape(callerShape, "caller", caller);
  return filledIn(caller);
}

function filledIn(caller: CallerOptions = {}): Caller {
  return { ...caller, actor: caller.actor ?? "default", session: caller.session ?? "local" };
}

function requireSound(problems: readonly string[]): void {
  if (problems.length === 0) return;
  throw new QmError("invalid_config", problems.join("; "), {
    hint: "List existing names, or globs such as file__*. `qm list` shows the names.",
  });
}

function requireActor(policy: Policy, actor: string): CompiledActor {
  const known = policy.actors.get(actor);
  if (known !== undefined) return known;
  const near = nearest(actor, policy.actors.keys());
  throw new QmError("unknown_actor", `no actor ${JSON.stringify(actor)} is configured`, {
    hint: near === undefined ? `Known actors: ${[...policy.actors.keys()].join(", ")}.` : `Did you mean ${near}?`,
  });
}
