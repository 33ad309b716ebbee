import { createShelves } from "./activation/shelves.ts";
import { createUseTracker } from "./activation/use-tracker.ts";
import { approvalProvider } from "./approval/provider.ts";
import { createApproving } from "./approving.ts";
import { completed, filledIn, requireActor } from "./callers.ts";
import { createCatalog } from "./catalog/catalog.ts";
import type { View } from "./catalog/view.ts";
import { type Action, summaryOf } from "./core/action.ts";
import type { Caller } from "./core/caller.ts";
import { QmError } from "./core/errors.ts";
import { type NewEvent, SYSTEM_SESSION, type UnstampedEvent } from "./core/events.ts";
import { failedOutcome, VALUE_LIMIT } from "./core/outcome.ts";
import type { Runtime } from "./core/runtime.ts";
import type { SurfaceChoice } from "./core/surface-choice.ts";
import { silentTracer } from "./core/tracing.ts";
import { createCounter } from "./counter.ts";
import { watchDecisions } from "./decision-changes.ts";
import { openDiscovery } from "./discovery.ts";
import { createAnchors } from "./distribution/anchors.ts";
import { createDistributor } from "./distribution/distributor.ts";
import type { Door } from "./invoke/invoke.ts";
import { createMeter } from "./invoke/meter.ts";
import { createPreviewer } from "./invoke/preview.ts";
import { callerStamp, createRecorder } from "./invoke/record.ts";
import { createRunner, type RunLimits } from "./invoke/run.ts";
import { createKeeping } from "./keeping.ts";
import { openLedger } from "./ledger/ledger.ts";
import { secretMasker } from "./ledger/mask.ts";
import { redactor } from "./ledger/redact.ts";
import {
  invokeShape,
  listShape,
  policyShape,
  type QuartermasterOptions,
  quartermasterShape,
  queryShape,
  replayShape,
  requireShape,
  searchShape,
} from "./options.ts";
import { actorProblems, type CompiledActor } from "./policy/actors.ts";
import { canAsk } from "./policy/approval.ts";
import { factsOf } from "./policy/facts.ts";
import { filteredEvent } from "./policy/filtered.ts";
import { compilePolicy, type Policy } from "./policy/policy.ts";
import { policyWarnings } from "./policy/warnings.ts";
import { createPromptAids } from "./prompt-aids.ts";
import type { Quartermaster } from "./quartermaster.ts";
import { createRegistry } from "./registry/registry.ts";
import { createReplaying } from "./replaying.ts";
import { createRouter } from "./routing/router.ts";
import { inTurn, settledSoon } from "./start-and-end.ts";
import type { Store } from "./store/open.ts";
import { openSurface } from "./surface/open.ts";
import { describeAction } from "./surface/universal/describe-action.ts";
import { listActions } from "./surface/universal/list-actions.ts";
import { searchAnswer, searchOf } from "./surface/universal/search-actions.ts";
import { systemProcess } from "./system-runtime.ts";
import { safeTracer } from "./telemetry/safe-tracer.ts";
import { createTurns } from "./turn/turns.ts";
import { createViews, requiredView } from "./views.ts";

const DEFAULT_LIMITS: RunLimits = { timeoutMs: 60_000, concurrency: 32, queue: 256 };

/** Puts the parts together. Takes over the store: it is closed with what is made. */
export async function wire(
  options: QuartermasterOptions,
  runtime: Runtime,
  startingPolicy: Policy,
  store: Store,
): Promise<Quartermaster> {
  const { onProblem = () => {} } = options;
  let policy = startingPolicy;
  const policiesHad = new Set([policy.version]);
  const redact = redactor(options.redact);
  const ledger = openLedger({
    store: store.events,
    redact,
    onError: (error) => onProblem(error.message),
  });
  const note = (event: UnstampedEvent): void => {
    ledger.record({ ...event, at: runtime.now(), session: SYSTEM_SESSION } as NewEvent);
  };
  const noteFor = (caller: Caller, event: UnstampedEvent): void => {
    ledger.record({ ...event, at: runtime.now(), ...callerStamp(caller) } as NewEvent);
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
  let settled = false;
  const approving = createApproving({
    store: store.approvals,
    ledger,
    runtime,
    policy: () => policy,
    hadPolicy: (version) => policiesHad.has(version),
    mask: secretMasker(options.redact?.secrets ?? (() => [])),
    ask: options.approvals?.ask,
    knows: (name) => catalog.snapshot().get(name) !== undefined,
    prune: (before) => turns.prune(before),
    resume(permit) {
      const { callId, action, args, caller, via } = permit.approval;
      return counter.resume({ id: callId, name: action, args, caller, via, permit });
    },
    onProblem,
  });
  const { approvals } = approving;
  const waiting = approvalProvider({
    approvals,
    isNeeded: () => settled && canAsk(policy, catalog.snapshot().actions),
    canAskByArguments: () => policy.rules.some(({ effect, aboutArgs }) => effect === "ask" && aboutArgs),
  });
  let started = false;
  const discovery = await openDiscovery({
    settings: options.search ?? {},
    runtime,
    store,
    actions: () => catalog.snapshot().actions,
    note,
  });
  const keeping = createKeeping({
    settings: options.infospace ?? { enabled: false },
    valueLimit: options.valueLimit ?? VALUE_LIMIT,
    store: store.infospace,
    runtime,
    meaning: discovery.meaning,
    rights: () => views.rights(policy),
    access: (resource, caller) => views.access(policy, caller, resource),
    mayUseAll: (madeFrom, caller) => views.mayUseAll(policy, caller, madeFrom),
    sees: (name, caller) => viewOf(caller).get(name) !== undefined,
    noteFor,
    note,
    onProblem,
  });
  const catalog = createCatalog({
    providers: [registry.provider, waiting, ...keeping.providers, ...(options.providers ?? [])],
    onChange(change) {
      // What is there from the start is no change.
      if (!started) return;
      note({ type: "catalog.changed", data: change });
      discovery.follow();
      waiting.changed();
      changed();
    },
    onProblem(category, reason) {
      note({ type: "provider.failed", data: { category, reason } });
      onProblem(`${category}: ${reason}`);
    },
  });
  const views = createViews(catalog);
  const router = createRouter({
    runtime,
    note: (caller, event) => (caller === undefined ? note(event) : noteFor(caller, event)),
    onProblem,
    factsOf: ({ action, caller, args }) => factsOf(action, caller, policy.actors.get(caller.actor), args),
  });
  router.useRules(options.routing ?? []);
  const distributor = createDistributor({
    destinations: options.destinations ?? {},
    anchors: store.anchors,
    runtime,
    note: noteFor,
    onProblem,
  });
  const anchors = createAnchors(store.anchors);
  const shelves = createShelves(store.shelves, onProblem);
  const uses = createUseTracker({ store: store.actionUse, now: runtime.now, onProblem });
  const runner = createRunner({ ...DEFAULT_LIMITS, ...options.limits });

  const turns = createTurns({
    store: store.turns,
    approvals,
    runtime,
    self: systemProcess,
    async note(caller, event) {
      await ledger.flushed(ledger.record({ ...event, at: runtime.now(), ...callerStamp(caller) } as NewEvent));
    },
  });
  const { replay, rehearse } = createReplaying({
    runtime,
    ledger,
    catalog,
    discovery,
    anchors,
    live: keeping.live,
    uses,
    policy: () => policy,
    valueLimit: options.valueLimit ?? VALUE_LIMIT,
    surfaceOf,
  });

  const door: Door = {
    runtime,
    get policy() {
      return policy;
    },
    viewOf,
    record: createRecorder(ledger, runtime, () => policy.version),
    meter: createMeter(store.usage, () => policy.budgets),
    runner,
    gatekeeper: approving.gatekeeper,
    router,
    live: keeping.live,
    handles: keeping.handles,
    anchors,
    distributor,
    keeper: keeping.keeper,
    lineage: keeping.lineage,
    redact,
    preview: createPreviewer(),
    tracer: safeTracer(options.tracer ?? silentTracer),
    valueLimit: options.valueLimit ?? VALUE_LIMIT,
    onProblem,
  };
  const counter = createCounter(door, discovery, keeping.live, noteFor);

  function viewOf(caller: Caller, live?: readonly Action[]): View {
    return requiredView(policy, caller, views, live);
  }

  const aids = createPromptAids({
    settings: options.search ?? {},
    viewOf,
    discovery,
    surfaceOf: (caller) => surfaceOf(requireActor(policy, caller.actor)),
    record: noteFor,
  });

  function surfaceOf(actor: CompiledActor): SurfaceChoice {
    return { ...options.surface, ...actor.surface };
  }

  function noteFiltered(): void {
    const event = filteredEvent(policy, catalog.snapshot().actions);
    if (event !== undefined) note(event);
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
      const { caller, signal, via = "library", ...wishes } = options ?? {};
      const request = { name: typeof name === "string" ? name : "", args, caller: filledIn(caller), via, ...wishes };
      return counter.invoke(request, signal);
    },
    list(query = {}, caller) {
      requireShape(listShape, "query", query);
      return listActions(viewOf(completed(caller)), query, discovery.hint());
    },
    async search(query, caller, signal) {
      requireShape(searchShape, "query", query);
      const who = completed(caller);
      const view = viewOf(who);
      const found = await counter.search(who, searchOf(view, query), signal);
      return searchAnswer(view, found, query.detail).data;
    },
    async hints(query, caller) {
      requireShape(queryShape, "query", query);
      return aids.hints(query, completed(caller));
    },
    directory: (caller) => aids.directory(completed(caller)),
    async promptAids(query, caller) {
      requireShape(queryShape, "query", query);
      return aids.blocks(query, completed(caller));
    },
    embeddings: discovery.embeddings,
    describe: (name, caller) => describeAction(viewOf(completed(caller)), name),
    explain: (name, caller) => views.explain(policy, completed(caller), name),
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
      const choice = { ...surfaceOf(actor), ...(kind === undefined ? {} : { kind }) };
      return openSurface({ counter, shelves, uses, now: runtime.now }, who, choice, caller?.session !== undefined);
    },
    catalog: { provide: catalog.provide, withdraw: catalog.withdraw, settled: catalog.settled },
    ledger: { read: ledger.read, verify: ledger.verify, heads: ledger.heads, flushed: ledger.flushed },
    recordConfig(path, reason, loosened = []) {
      const more = loosened.length === 0 ? {} : { loosened: [...loosened] };
      if (reason !== undefined) note({ type: "config.rejected", data: { path, reason } });
      else note({ type: "config.loaded", data: { path, policyVersion: policy.version, ...more } });
    },
    watchDecisions: () => watchDecisions(() => ({ policy, snapshot: catalog.snapshot() })),
    note(event, caller) {
      if (caller === undefined) note(event);
      else noteFor(completed(caller), event);
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
      policiesHad.add(policy.version);
      waiting.changed();
      noteFiltered();
      changed();
    },
    approvals,
    turns: { begin: turns.begin, resume: turns.resume, get: turns.get, list: turns.list },
    async replay(query, options = {}) {
      requireShape(replayShape, "query", query);
      if (options.policy !== undefined) requireShape(policyShape, "policy", options.policy);
      return replay(query, options);
    },
    rehearse,
    notes: keeping.notes,
    router: {
      ...router,
      routeEvent: (source, type, data, { caller, ...rest } = {}) =>
        router.routeEvent(source, type, data, {
          ...rest,
          ...(caller === undefined ? {} : { caller: completed(caller) }),
        }),
    },
    anchors,
    async close() {
      runner.close();
      approving.gatekeeper.close();
      await inTurn([approving.worker.close, router.close, counter.idle, distributor.close]);
      await inTurn([
        async () => turns.close(),
        keeping.close,
        catalog.close,
        discovery.close,
        uses.close,
        ledger.close,
        store.close,
      ]);
    },
  };

  await settledSoon(catalog, onProblem);
  settled = true;
  waiting.changed();
  started = true;
  noteFiltered();
  discovery.follow();
  keeping.start();
  if (options.approvals?.worker !== false) approving.worker.start();
  return quartermaster;
}

function requireSound(problems: readonly string[]): void {
  if (problems.length === 0) return;
  throw new QmError("invalid_config", problems.join("; "), {
    hint: "List existing names, or globs such as file__*. `qm list` shows the names.",
  });
}
