import { createActivationLists } from "../activation/activation-store.ts";
import { createUsageTracker } from "../activation/usage-tracker.ts";
import { createApprovalProvider } from "../approval/approval-provider.ts";
import { createTurnService } from "../approval/turn-service.ts";
import { createCatalog } from "../catalog/catalog.ts";
import { createToolRegistry } from "../catalog/tool-registry.ts";
import type { View } from "../catalog/view.ts";
import { type Action, summarizeAction } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import { type NewEvent, SYSTEM_SESSION, type UnstampedEvent } from "../core/events.ts";
import { createFailedOutcome, VALUE_LIMIT } from "../core/outcome.ts";
import type { Runtime } from "../core/runtime.ts";
import type { SurfaceChoice } from "../core/surface-choice.ts";
import { silentTracer } from "../core/tracing.ts";
import { createAnchors } from "../distribution/anchors.ts";
import { createDistributor } from "../distribution/distributor.ts";
import { createBudgetMeter } from "../invoke/budget-meter.ts";
import { createCallRecorder, toCallerFields } from "../invoke/call-record.ts";
import type { InvokePipeline } from "../invoke/invoke.ts";
import { createPreviewer, createRunner, type RunLimits } from "../invoke/runner.ts";
import { openLedger } from "../ledger/ledger.ts";
import { createEventRedactor, createSecretMasker } from "../ledger/redact.ts";
import { type CompiledActor, findActorProblems } from "../policy/actors.ts";
import { canAsk } from "../policy/approval-rules.ts";
import { toCallFacts } from "../policy/call-facts.ts";
import { compilePolicy, findPolicyWarnings, type Policy } from "../policy/policy.ts";
import { createFilteredEvent } from "../policy/tool-policy.ts";
import { createRouter } from "../routing/router.ts";
import type { Store } from "../store/open-store.ts";
import { openSurface } from "../surface/open-surface.ts";
import { describeAction, listActions } from "../surface/universal/browse-actions.ts";
import { toSearchAnswer, toSearchRequest } from "../surface/universal/search-actions.ts";
import { createSafeTracer } from "../telemetry/safe-tracer.ts";
import { createApprovalSystem } from "./approval-system.ts";
import {
  applyCallerDefaults,
  createViews,
  parseCaller,
  requireActor,
  requireView,
  watchDecisions,
} from "./caller-access.ts";
import { createPromptAids, openDiscovery } from "./discovery.ts";
import { createInfospaceService } from "./infospace-service.ts";
import {
  invokeSchema,
  listSchema,
  policySchema,
  type QuartermasterOptions,
  querySchema,
  replaySchema,
  checkOptions,
  searchQuerySchema,
} from "./options.ts";
import type { Quartermaster } from "./quartermaster.ts";
import { createReplayService } from "./replay-service.ts";
import { closeAll, createSurfaceBackend, waitForProviders } from "./surface-backend.ts";
import { systemProcess } from "./system-runtime.ts";

const DEFAULT_LIMITS: RunLimits = { timeoutMs: 60_000, concurrency: 32, queue: 256 };

/** Puts the parts together. Takes over the store: it is closed with what is made. */
export async function wireQuartermaster(
  options: QuartermasterOptions,
  runtime: Runtime,
  startingPolicy: Policy,
  store: Store,
): Promise<Quartermaster> {
  const { onProblem = () => {} } = options;
  let policy = startingPolicy;
  const pastPolicyVersions = new Set([policy.version]);
  const redact = createEventRedactor(options.redact);
  const ledger = openLedger({
    store: store.events,
    redact,
    onError: (error) => onProblem(error.message),
  });
  const note = (event: UnstampedEvent): void => {
    ledger.record({ ...event, at: runtime.now(), session: SYSTEM_SESSION } as NewEvent);
  };
  const noteFor = (caller: Caller, event: UnstampedEvent): void => {
    ledger.record({ ...event, at: runtime.now(), ...toCallerFields(caller) } as NewEvent);
  };
  const listeners = new Set<() => void>();
  const notifyListeners = (): void => {
    for (const listener of listeners) listener();
  };

  const registry = createToolRegistry(({ name, site = "", scope, routing, justification, bypassReason }) =>
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
  const approvalSystem = createApprovalSystem({
    store: store.approvals,
    ledger,
    runtime,
    policy: () => policy,
    hadPolicy: (version) => pastPolicyVersions.has(version),
    mask: createSecretMasker(options.redact?.secrets ?? (() => [])),
    ask: options.approvals?.ask,
    knows: (name) => catalog.snapshot().get(name) !== undefined,
    prune: (before) => turns.prune(before),
    resume(permit) {
      const { callId, action, args, caller, via } = permit.approval;
      return counter.resume({ id: callId, name: action, args, caller, via, permit });
    },
    onProblem,
  });
  const { approvals } = approvalSystem;
  const approvalActions = createApprovalProvider({
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
  const infospaceService = createInfospaceService({
    settings: options.infospace ?? { enabled: false },
    valueLimit: options.valueLimit ?? VALUE_LIMIT,
    store: store.infospace,
    runtime,
    meaning: discovery.meaning,
    rights: () => views.rights(policy),
    access: (resource, caller) => views.access(policy, caller, resource),
    mayUseAll: (madeFrom, caller) => views.mayUseAll(policy, caller, madeFrom),
    sees: (name, caller) => getView(caller).get(name) !== undefined,
    noteFor,
    note,
    onProblem,
  });
  const catalog = createCatalog({
    providers: [registry.provider, approvalActions, ...infospaceService.providers, ...(options.providers ?? [])],
    onChange(change) {
      // What is there from the start is no change.
      if (!started) return;
      note({ type: "catalog.changed", data: change });
      discovery.follow();
      approvalActions.changed();
      notifyListeners();
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
    factsOf: ({ action, caller, args }) => toCallFacts(action, caller, policy.actors.get(caller.actor), args),
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
  const shelves = createActivationLists(store.activation, onProblem);
  const uses = createUsageTracker({ store: store.actionUse, now: runtime.now, onProblem });
  const runner = createRunner({ ...DEFAULT_LIMITS, ...options.limits });

  const turns = createTurnService({
    store: store.turns,
    approvals,
    runtime,
    self: systemProcess,
    async note(caller, event) {
      await ledger.flush(ledger.record({ ...event, at: runtime.now(), ...toCallerFields(caller) } as NewEvent));
    },
  });
  const { replay, rehearse } = createReplayService({
    runtime,
    ledger,
    catalog,
    discovery,
    anchors,
    live: infospaceService.live,
    uses,
    policy: () => policy,
    valueLimit: options.valueLimit ?? VALUE_LIMIT,
    surfaceOf: getSurfaceChoice,
  });

  const pipeline: InvokePipeline = {
    runtime,
    get policy() {
      return policy;
    },
    viewOf: getView,
    record: createCallRecorder(ledger, runtime, () => policy.version),
    meter: createBudgetMeter(store.usage, () => policy.budgets),
    runner,
    gatekeeper: approvalSystem.gatekeeper,
    router,
    live: infospaceService.live,
    handles: infospaceService.handles,
    anchors,
    distributor,
    keeper: infospaceService.keeper,
    lineage: infospaceService.lineage,
    redact,
    preview: createPreviewer(),
    tracer: createSafeTracer(options.tracer ?? silentTracer),
    valueLimit: options.valueLimit ?? VALUE_LIMIT,
    onProblem,
  };
  const counter = createSurfaceBackend(pipeline, discovery, infospaceService.live, noteFor);

  function getView(caller: Caller, live?: readonly Action[]): View {
    return requireView(policy, caller, views, live);
  }

  const aids = createPromptAids({
    settings: options.search ?? {},
    viewOf: getView,
    discovery,
    surfaceOf: (caller) => getSurfaceChoice(requireActor(policy, caller.actor)),
    record: noteFor,
  });

  function getSurfaceChoice(actor: CompiledActor): SurfaceChoice {
    return { ...options.surface, ...actor.surface };
  }

  function noteFiltered(): void {
    const event = createFilteredEvent(policy, catalog.snapshot().actions);
    if (event !== undefined) note(event);
  }

  function listActorProblems(
    { actors }: Policy,
    starting: Iterable<CompiledActor> = actors.values(),
  ): readonly string[] {
    const { actions } = catalog.snapshot();
    return [...new Set([...starting].flatMap((actor) => findActorProblems(actor, [...actors.values()], actions)))];
  }

  const quartermaster: Quartermaster = {
    register: registry.register,
    unregister: registry.unregister,
    async invoke(name, args, options) {
      try {
        if (options !== undefined) checkOptions(invokeSchema, "options", options);
      } catch (thrown) {
        const unknown = { callId: runtime.newId(), durationMs: 0, valueLimit: pipeline.valueLimit, action: undefined };
        return createFailedOutcome(unknown, thrown);
      }
      const { caller, signal, via = "library", ...wishes } = options ?? {};
      const request = {
        name: typeof name === "string" ? name : "",
        args,
        caller: applyCallerDefaults(caller),
        via,
        ...wishes,
      };
      return counter.invoke(request, signal);
    },
    list(query = {}, caller) {
      checkOptions(listSchema, "query", query);
      return listActions(getView(parseCaller(caller)), query, discovery.hint());
    },
    async search(query, caller, signal) {
      checkOptions(searchQuerySchema, "query", query);
      const who = parseCaller(caller);
      const view = getView(who);
      const found = await counter.search(who, toSearchRequest(view, query), signal);
      return toSearchAnswer(view, found, query.detail).data;
    },
    async hints(query, caller) {
      checkOptions(querySchema, "query", query);
      return aids.hints(query, parseCaller(caller));
    },
    directory: (caller) => aids.directory(parseCaller(caller)),
    async promptAids(query, caller) {
      checkOptions(querySchema, "query", query);
      return aids.blocks(query, parseCaller(caller));
    },
    embeddings: discovery.embeddings,
    describe: (name, caller) => describeAction(getView(parseCaller(caller)), name),
    explain: (name, caller) => views.explain(policy, parseCaller(caller), name),
    names: (caller) =>
      getView(parseCaller(caller))
        .actions()
        .map(({ name }) => name),
    inventory: () =>
      catalog.snapshot().actions.map((action) => {
        const { name, category, effect, tags, scope } = action;
        return { name, category, effect, tags, scope, summary: summarizeAction(action) };
      }),
    categories: (caller) => getView(parseCaller(caller)).categories(),
    async surface(caller, kind) {
      checkOptions(surfaceSchema, "surface", kind === undefined ? undefined : { kind });
      const who = parseCaller(caller);
      const actor = requireActor(policy, who.actor);
      requireNoProblems(listActorProblems(policy, [actor]));
      const choice = { ...getSurfaceChoice(actor), ...(kind === undefined ? {} : { kind }) };
      return openSurface({ counter, shelves, uses, now: runtime.now }, who, choice, caller?.session !== undefined);
    },
    catalog: { provide: catalog.provide, withdraw: catalog.withdraw, settled: catalog.settled },
    ledger: { read: ledger.read, verify: ledger.verify, heads: ledger.heads, flush: ledger.flush },
    recordConfig(path, reason, loosened = []) {
      const more = loosened.length === 0 ? {} : { loosened: [...loosened] };
      if (reason !== undefined) note({ type: "config.rejected", data: { path, reason } });
      else note({ type: "config.loaded", data: { path, policyVersion: policy.version, ...more } });
    },
    watchDecisions: () => watchDecisions(() => ({ policy, snapshot: catalog.snapshot() })),
    note(event, caller) {
      if (caller === undefined) note(event);
      else noteFor(parseCaller(caller), event);
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    get policyVersion() {
      return policy.version;
    },
    actorProblems: () => listActorProblems(policy),
    policyWarnings: () => findPolicyWarnings(policy, catalog.snapshot().actions),
    usePolicy(next) {
      checkOptions(policySchema, "policy", next);
      const compiled = compilePolicy(next);
      requireNoProblems(listActorProblems(compiled));
      policy = compiled;
      pastPolicyVersions.add(policy.version);
      approvalActions.changed();
      noteFiltered();
      notifyListeners();
    },
    approvals,
    turns: { begin: turns.begin, resume: turns.resume, get: turns.get, list: turns.list },
    async replay(query, options = {}) {
      checkOptions(replaySchema, "query", query);
      if (options.policy !== undefined) checkOptions(policySchema, "policy", options.policy);
      return replay(query, options);
    },
    rehearse,
    notes: infospaceService.notes,
    router: {
      ...router,
      routeEvent: (source, type, data, { caller, ...rest } = {}) =>
        router.routeEvent(source, type, data, {
          ...rest,
          ...(caller === undefined ? {} : { caller: parseCaller(caller) }),
        }),
    },
    anchors,
    async close() {
      runner.close();
      approvalSystem.gatekeeper.close();
      await closeAll([approvalSystem.worker.close, router.close, counter.idle, distributor.close]);
      await closeAll([
        async () => turns.close(),
        infospaceService.close,
        catalog.close,
        discovery.close,
        uses.close,
        ledger.close,
        store.close,
      ]);
    },
  };

  await waitForProviders(catalog, onProblem);
  settled = true;
  approvalActions.changed();
  started = true;
  noteFiltered();
  discovery.follow();
  infospaceService.start();
  if (options.approvals?.worker !== false) approvalSystem.worker.start();
  return quartermaster;
}

function requireNoProblems(problems: readonly string[]): void {
  if (problems.length === 0) return;
  throw new QmError("invalid_config", problems.join("; "), {
    hint: "List existing names, or globs such as file__*. `qm list` shows the names.",
  });
}
