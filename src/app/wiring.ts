import { createActivationLists, createLocalActivationList } from "../activation/activation-store.ts";
import { createUsageTracker } from "../activation/usage-tracker.ts";
import { createApprovalProvider } from "../approval/approval-provider.ts";
import { createTurnService } from "../approval/turn-service.ts";
import { createCatalog } from "../catalog/catalog.ts";
import { joinLiveResources } from "../catalog/snapshot.ts";
import { createToolRegistry } from "../catalog/tool-registry.ts";
import type { Caller } from "../core/caller.ts";
import { type NewEvent, SYSTEM_SESSION, type UnstampedEvent } from "../core/events.ts";
import { createHintWords } from "../core/hint.ts";
import { omitUndefined } from "../core/json.ts";
import type { Runtime } from "../core/runtime.ts";
import type { SurfaceChoice } from "../core/surface-choice.ts";
import { silentTracer } from "../core/tracing.ts";
import { createAnchors } from "../distribution/anchors.ts";
import { createDistributor } from "../distribution/distributor.ts";
import { createBudgetMeter } from "../invoke/budget-meter.ts";
import { createCallRecorder, toCallerFields } from "../invoke/call-record.ts";
import type { InvokePipeline } from "../invoke/invoke.ts";
import { createPreviewer, createRunner } from "../invoke/runner.ts";
import { openLedger } from "../ledger/ledger.ts";
import { createSecretMasker } from "../ledger/mask.ts";
import { createEventRedactor } from "../ledger/redact.ts";
import type { CompiledActor } from "../policy/actors.ts";
import { canAsk } from "../policy/approval-rules.ts";
import { toCallFacts } from "../policy/call-facts.ts";
import type { Policy } from "../policy/policy.ts";
import { createFilterWatcher } from "../policy/tool-policy.ts";
import type { Replay } from "../replay/replay.ts";
import { createRouter } from "../routing/router.ts";
import type { Store } from "../store/open-store.ts";
import { openSurface } from "../surface/open-surface.ts";
import { createSafeTracer } from "../telemetry/safe-tracer.ts";
import { createActorSystem } from "./actor-system.ts";
import { createApprovalSystem } from "./approval-system.ts";
import { createViews, requireActor } from "./caller-access.ts";
import { createDisabledInfospace } from "./disabled-infospace.ts";
import { openDiscovery } from "./discovery.ts";
import type { InfospaceServiceOptions } from "./infospace-service.ts";
import { createInterruptedCalls } from "./interrupted-calls.ts";
import { createMethodSystem } from "./method-system.ts";
import type { ResolvedOptions } from "./options.ts";
import { createPeerSystem } from "./peer-system.ts";
import { createPrompts } from "./prompts.ts";
import { createRetention } from "./retention.ts";
import { createSkillSystem } from "./skill-system.ts";
import { closeAll, createSurfaceBackend, waitForProviders } from "./surface-backend.ts";
import { systemProcess } from "./system-runtime.ts";

export type Parts = Awaited<ReturnType<typeof wireParts>>;

/** Creates the parts of a quartermaster and starts them. Takes over the store: `close` closes it too. */
export async function wireParts(options: ResolvedOptions, runtime: Runtime, startingPolicy: Policy, store: Store) {
  const { onProblem = () => {}, valueLimit, destinations = {} } = options;
  let policy = startingPolicy;
  const policyVersions = new Set([policy.version]);
  const redact = createEventRedactor(options.redact);
  const ledger = openLedger({ store: store.events, redact, onError: (error) => onProblem(error.message) });

  /** Writes an event to the ledger. Without a caller it belongs to the system's own session. */
  function record(caller: Caller | undefined, event: UnstampedEvent): number {
    const fields = caller === undefined ? { session: SYSTEM_SESSION } : toCallerFields(caller);
    return ledger.record({ ...event, at: runtime.now(), ...fields } as NewEvent);
  }

  /** Resolves when the event survives this process. */
  const recordDurably = (caller: Caller, event: UnstampedEvent) => ledger.flush(record(caller, event));
  const base = { runtime, record, onProblem };
  const listeners = new Set<() => void>();
  function notifyListeners(): void {
    for (const listener of listeners) listener();
  }

  const registry = createToolRegistry(({ name, site = "", scope, routing, justification, bypassReason }) => {
    const data = omitUndefined({ action: name, site, scope, routing, justification, bypassReason });
    record(undefined, { type: "action.registered", data });
  });
  const mask = createSecretMasker(options.redact?.secrets ?? (() => []));
  let isFilterDue = false;
  let isSettled = false;
  let isStarted = false;
  const { approvals, gatekeeper, worker } = createApprovalSystem({
    store: store.approvals,
    ledger,
    runtime,
    policy: () => policy,
    hadPolicy: (version) => policyVersions.has(version),
    mask,
    ask: options.approvals?.ask,
    knows: (name) => catalog.snapshot().get(name) !== undefined,
    prune: (before) => Promise.all([turns, store.methodRuns, store.peerTasks].map((each) => each.prune(before))),
    resume(permit) {
      const { callId, action, args, caller, via, method } = permit.approval;
      const call = { id: callId, name: action, args, caller, via, permit, method };
      return backend.resume(call).finally(methodSystem.worker.nudge);
    },
    onProblem,
  });
  const approvalActions = createApprovalProvider({
    approvals,
    isNeeded: () => isSettled && canAsk(policy, catalog.snapshot().actions),
    canAskByArguments: () => policy.rules.some(({ effect, aboutArgs }) => effect === "ask" && aboutArgs),
  });
  const actions = () => catalog.snapshot().actions;
  const note = (event: UnstampedEvent) => void record(undefined, event);
  const discovery = await openDiscovery({ settings: options.search, runtime, store, actions, note });
  const infospaceOptions: InfospaceServiceOptions = {
    ...base,
    settings: options.infospace,
    onSay: options.onSay,
    valueLimit,
    store: store.infospace,
    meaning: discovery.meaning,
    rights: () => views.rights(policy),
    access: (resource, caller) => views.access(policy, caller, resource),
    mayUseAll: (madeFrom, caller) => views.mayUseAll(policy, caller, madeFrom),
    checkCaller: (caller) => views.check(policy, caller),
    sees: (name, caller) => getView(caller).get(name) !== undefined,
  };
  const loadInfospace = async () => (await import("./infospace-service.ts")).createInfospaceService(infospaceOptions);
  const infospace = options.infospace.enabled ? await loadInfospace() : createDisabledInfospace(loadInfospace);
  const memory = options.memory.enabled ? await loadMemory() : undefined;

  async function loadMemory() {
    const { createMemoryService } = await import("./memory-service.ts");
    const access: InfospaceServiceOptions["access"] = (entry, caller) => views.access(policy, caller, entry);
    return createMemoryService({ store: store.memory, runtime, meaning: discovery.meaning, access, mask });
  }

  const loadRag = async () => {
    const { createRagService } = await import("./rag-service.ts");
    return createRagService({
      store: store.rag,
      meaning: discovery.meaning,
      mask,
      rights: {
        mayUse: infospaceOptions.access,
        // Recalling must not be a way around an approval.
        mayRead: (caller, { action, args }) => views.decide(policy, caller, action, args)?.kind === "allow",
        listCallSources: infospace.lineage.sources,
        addCallSources: infospace.lineage.add,
      },
    });
  };
  const rag = options.rag?.enabled ? await loadRag() : undefined;
  const knowledge = [memory, rag].filter((each) => each !== undefined);
  const live = joinLiveResources([infospace.live, ...knowledge.map((each) => each.live)]);
  const methodSystem = createMethodSystem({
    ...base,
    store,
    approvals,
    ledger,
    lineage: infospace.lineage,
    notes: infospace.notes,
    knows: (name) => catalog.snapshot().get(name) !== undefined,
    call: (request) => backend.resume(request),
  });
  const skillSystem = createSkillSystem({ ...base, options, store, methods: methodSystem.services });
  const skills = await skillSystem.openProviders();
  const peers = createPeerSystem({
    ...base,
    peers: options.peers ?? {},
    models: options.models,
    hopsLimit: options.limits.hops,
    policy: () => policy,
    record: recordDurably,
    runTurn: (delegation) => actors.runDelegatedTurn(delegation),
    store,
    approvals,
    anchors: { fill: (caller, args) => anchors.fill(caller, args) },
    findAction: (name) => catalog.snapshot().get(name),
    getView: (caller) => getView(caller),
    ledger,
    invoke: (call, signal) => backend.invoke(call, signal),
  });
  const known = knowledge.flatMap(({ providers }) => providers);
  const ours = [registry.provider, approvalActions, ...infospace.providers, ...known, ...skills];
  // A host's own provider of the category replaces ours.
  const given = options.providers ?? [];
  const isReplaced = given.some(({ category }) => category === peers.provider.category);
  const catalog = createCatalog({
    providers: [...ours, ...(isReplaced ? [] : [peers.provider]), ...given],
    onChange(change) {
      // The first listing of each provider is not a change.
      if (!isStarted) return;
      record(undefined, { type: "catalog.changed", data: change });
      // Once for all tools that are registered in a row.
      if (!isFilterDue) queueMicrotask(recordFiltered);
      isFilterDue = true;
      discovery.follow();
      approvalActions.changed();
      notifyListeners();
    },
    onProblem(category, reason) {
      record(undefined, { type: "provider.failed", data: { category, reason } });
      onProblem(`${category}: ${reason}`);
    },
  });
  const views = createViews(catalog);
  const getView: InvokePipeline["getView"] = (caller, live) => views.get(policy, caller, live);
  const router = createRouter({
    ...base,
    getFacts: ({ action, caller, args }) => toCallFacts(action, caller, policy.actors.get(caller.actor), args),
  });
  router.useRules(options.routing ?? []);
  const distributor = createDistributor({ destinations, anchors: store.anchors, runtime, note: record, onProblem });
  const anchors = createAnchors(store.anchors);
  const lists = createActivationLists(store.activation, onProblem);
  const uses = createUsageTracker(store.actionUse, runtime.now, onProblem);
  const runner = createRunner(options.limits);
  const turns = createTurnService({
    store: store.turns,
    approvals,
    runtime,
    self: systemProcess,
    note: recordDurably,
  });

  const shared = { runtime, router, anchors, valueLimit };
  const getHintWords = (via: string, caller: Caller) =>
    createHintWords(via, (name) => getView(caller).get(name) !== undefined, discovery.isOn);
  const running = { ...shared, getView, runner, distributor, redact, onProblem, getHintWords };
  const pipeline: InvokePipeline = {
    ...running,
    hopsLimit: options.limits.hops,
    get policy() {
      return policy;
    },
    record: createCallRecorder(ledger, runtime, () => policy.version),
    meter: createBudgetMeter(store.usage, () => policy),
    approvalGate: gatekeeper,
    live,
    learn: catalog.learn,
    handles: infospace.handles,
    resultStore: infospace.keeper,
    lineage: infospace.lineage,
    preview: createPreviewer(),
    model: options.models.get("default"),
    tracer: createSafeTracer(options.tracer ?? silentTracer),
  };
  const backend = createSurfaceBackend(pipeline, discovery, live, record);
  const getSurfaceChoice = (actor: CompiledActor): SurfaceChoice => ({ ...options.surface, ...actor.surface });
  const prompts = createPrompts({
    settings: options.search,
    backend,
    discovery,
    uses,
    now: runtime.now,
    actorOf(caller) {
      const actor = requireActor(policy, caller.actor);
      return { surface: getSurfaceChoice(actor), settings: actor.settings };
    },
    record,
  });
  const actors = createActorSystem({
    ...base,
    store,
    ledger,
    approvals,
    turns,
    anchors,
    infospace,
    backend,
    meter: pipeline.meter,
    models: options.models,
    hopsLimit: options.limits.hops,
    decide: (name, args, caller) => views.decide(policy, caller, name, args),
    buildPrompt: (caller, query) => prompts.prompt(caller, { query }),
    getActor(caller) {
      views.check(policy, caller);
      return requireActor(policy, caller.actor);
    },
    openSurface: (backend, caller, actor) =>
      openSurface({ backend, lists, uses, now: runtime.now }, caller, getSurfaceChoice(actor), true),
  });

  /** Replay has views of its own: under another policy it would clear those of the policy in force. */
  async function openReplay(): Promise<Replay> {
    const { createReplay } = await import("../replay/replay.ts");
    return createReplay({
      ...shared,
      ledger,
      policy: () => policy,
      viewOf: createViews(catalog).get,
      live,
      exists: (name) => catalog.snapshot().get(name) !== undefined,
      search: { canSearch: discovery.isOn, searchHint: discovery.waitForHint, find: discovery.find },
      openSurface(backend, caller, then, kind) {
        const choice = { ...getSurfaceChoice(requireActor(then, caller.actor)), ...omitUndefined({ kind }) };
        // A replay records no use and activates nothing, but sees what was used in real calls.
        const localLists = { open: async (_key: string, limit: number) => createLocalActivationList(limit) };
        const silentUses = { ...uses, recordUse: () => {} };
        return openSurface({ backend, lists: localLists, uses: silentUses, now: runtime.now }, caller, choice, true);
      },
    });
  }

  const watchFilter = createFilterWatcher();
  function recordFiltered(): void {
    isFilterDue = false;
    const event = watchFilter(policy, catalog.snapshot().actions);
    if (event !== undefined) record(undefined, event);
  }

  await waitForProviders(catalog, onProblem);
  isSettled = true;
  approvalActions.changed();
  isStarted = true;
  recordFiltered();
  discovery.follow();
  infospace.start();
  const retention = createRetention({ settings: options.ledger, ledger, store, runtime, onProblem });
  const interrupted = createInterruptedCalls({ store: store.events, ledger, runtime, onProblem });
  if (options.approvals?.worker !== false) {
    worker.start();
    retention.start();
    interrupted.start();
    if (skills.length > 0) methodSystem.worker.start();
  }

  let replay: Promise<Replay> | undefined;
  const services = {
    ...shared,
    ledger,
    record,
    listeners,
    registry,
    approvals,
    methods: methodSystem.methods,
    peers,
    discovery,
    prompts,
    catalog,
    views,
    retention,
  };
  const sessions = { actors, lists, uses, turns, backend, getSurfaceChoice, notes: infospace.notes };
  return {
    ...services,
    ...sessions,
    get policy() {
      return policy;
    },
    usePolicy(next: Policy) {
      policy = next;
      policyVersions.add(policy.version);
      approvalActions.changed();
      peers.provider.changed();
      recordFiltered();
      notifyListeners();
    },
    openSkillTrust: skillSystem.openTrust,
    openReplay: () => {
      replay ??= openReplay();
      return replay;
    },
    async close() {
      runner.close();
      gatekeeper.close();
      const workers = [worker.close, methodSystem.worker.close, retention.close, interrupted.close];
      await closeAll([actors.close, ...workers, router.close, backend.idle, methodSystem.close, distributor.close]);
      const inUse = [...knowledge, infospace, catalog, discovery, uses, ledger, store];
      await closeAll([async () => turns.close(), ...inUse.map(({ close }) => close)]);
    },
  };
}
