import type { ActorEnvelope, CallActorOptions } from "../actor/envelope.ts";
import type { Sessions } from "../actor/session-service.ts";
import type { Approvals } from "../approval/approval.ts";
import type { Turns } from "../approval/turn-service.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { ToolRegistry } from "../catalog/tool-registry.ts";
import type { View } from "../catalog/view.ts";
import type { Caller } from "../core/caller.ts";
import { QmError } from "../core/errors.ts";
import type { UnstampedEvent } from "../core/events.ts";
import { omitUndefined } from "../core/json.ts";
import type { ActionName } from "../core/names.ts";
import { createFailedOutcome, type Outcome } from "../core/outcome.ts";
import type { SurfaceKind } from "../core/surface-choice.ts";
import type { Anchors } from "../distribution/anchors.ts";
import type { Notes } from "../infospace/notes.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { PruneOptions, PruneReport } from "../ledger/prune.ts";
import { findActorProblems } from "../policy/actors.ts";
import type { Explanation } from "../policy/explain.ts";
import { compilePolicy, findPolicyWarnings, type Policy, type PolicyOptions } from "../policy/policy.ts";
import { findRuleProblems, type RuleProblem } from "../policy/rule-problems.ts";
import { listWorlds } from "../policy/worlds.ts";
import type { Methods } from "../providers/skill/method/method-runs.ts";
import type { SkillTrust } from "../providers/skill/skill-trust.ts";
import type { Replay } from "../replay/replay.ts";
import type { Router } from "../routing/router.ts";
import type { Directory } from "../search/directory.ts";
import { openSqliteStore } from "../store/open-store.ts";
import { openSurface } from "../surface/open-surface.ts";
import { toPendingNames } from "../surface/pending-note.ts";
import type { Surface } from "../surface/surface.ts";
import type { SystemPrompt } from "../surface/system-prompt.ts";
import {
  type ActionDescription,
  type ActionList,
  describeAction,
  type ListQuery,
  listActions,
} from "../surface/universal/browse-actions.ts";
import {
  type ActionSearch,
  type FoundActions,
  toSearchAnswer,
  toSearchRequest,
} from "../surface/universal/search-actions.ts";
import { type InventoryItem, toInventoryItem, toUsableSkill, type UsableSkill } from "./action-summaries.ts";
import { applyCallerDefaults, parseCaller, requireActor, watchDecisions } from "./caller-access.ts";
import type { Embeddings } from "./discovery.ts";
import {
  type CallerOptions,
  callerSchema,
  checkActorOptions,
  checkInvokeOptions,
  checkOptions,
  type InvokeOptions,
  listSchema,
  policyOptionsSchema,
  promptSchema,
  type QuartermasterOptions,
  querySchema,
  replaySchema,
  resolveOptions,
  searchQuerySchema,
  surfaceOptionsSchema,
} from "./options.ts";
import type { Peers } from "./peer-system.ts";
import type { PromptOptions } from "./prompts.ts";
import { systemProcess, systemRuntime } from "./system-runtime.ts";
import { type Parts, wireParts } from "./wiring.ts";

/**
 * The gateway: registers actions, tells callers which they may use, and runs them. Every method that takes a caller answers
 * `unknown_actor` for an actor that is not configured, and `invalid_config` for one that lists an unknown action.
 */
export interface Quartermaster {
  readonly register: ToolRegistry["register"];
  readonly unregister: ToolRegistry["unregister"];
  /** Runs an action through the pipeline that every call takes. Never rejects. */
  invoke(name: string, args?: unknown, options?: InvokeOptions): Promise<Outcome>;
  /** Throws `unknown_category`, with the valid ones. */
  list(query?: ListQuery, caller?: CallerOptions): ActionList;
  /** Throws `unknown_action`, with suggestions. */
  describe(name: string, caller?: CallerOptions): ActionDescription;
  /** Finds actions by what they do, best first. Rejects with `search_off` or `unknown_category`. */
  search(query: ActionSearch, caller?: CallerOptions, signal?: AbortSignal): Promise<FoundActions>;
  /** A prompt block with the actions that match a query. Empty if none does. */
  hints(query: string, caller?: CallerOptions): Promise<string>;
  /** A prompt block with the caller's actions, in groups. */
  directory(caller?: CallerOptions): Directory;
  /** The prompt blocks that the options enable, to append to the constant part of a prompt. */
  promptAids(query: string, caller?: CallerOptions): Promise<string>;
  /** The system prompt for a caller's model: how to use its tools, then what changes from turn to turn. */
  prompt(caller?: CallerOptions, options?: PromptOptions): Promise<SystemPrompt>;
  readonly embeddings: Embeddings;
  /** Which layer of the policy decides about an action, and how. For operators: it reveals hidden actions. */
  explain(name: string, caller?: CallerOptions): Explanation;
  names(caller?: CallerOptions): readonly ActionName[];
  /** Every action, hidden ones too, sorted by name. For operators. */
  inventory(): readonly InventoryItem[];
  categories(caller?: CallerOptions): readonly string[];
  /** The actions with files that the caller may read now without approval, for MCP's skills. Sorted by name. */
  skills(caller?: CallerOptions): readonly UsableSkill[];
  /** The tools to show a caller's model. */
  surface(caller?: CallerOptions, kind?: SurfaceKind): Promise<Surface>;
  /**
   * Sends a message to an actor and answers how its turn ended. Rejects with `unknown_actor`, `invalid_config` and
   * `no_model` if the actor cannot be called, and with `conflict` while another turn of the session is open.
   */
  callActor(name: string, message: string, options?: CallActorOptions): Promise<ActorEnvelope>;
  /** Continues a suspended turn, or answers it again while answers of people are missing. Rejects as `turns.resume`. */
  resumeActor(resumeToken: string, options?: CallActorOptions): Promise<ActorEnvelope>;
  readonly sessions: Sessions;
  readonly approvals: Approvals;
  /** Runs of skills of the type `method`. For operators. */
  readonly methods: Methods;
  readonly peers: Peers;
  /** Turns that wait for people. Any process can resume them. */
  readonly turns: Turns;
  /** Decides recorded calls again under the present policy, with the recorded results. Runs nothing. */
  readonly replay: Replay["replay"];
  /** A surface whose calls are answered from a script, for trying an agent out. */
  readonly rehearse: Replay["rehearse"];
  readonly notes: Notes;
  /** Which skills are trusted, and the decisions about them. For operators. */
  openSkillTrust(): Promise<SkillTrust>;
  /** Routes the host's events to handlers, and lists and observes running calls. */
  readonly router: Omit<Router, "dispatch" | "close">;
  /** Replaces the tokens that a model was shown by the values they stand for. */
  readonly anchors: Anchors;
  readonly catalog: Pick<Catalog, "provide" | "withdraw" | "settled">;
  readonly ledger: Pick<Ledger, "read" | "verify" | "heads" | "flush"> & {
    /** Removes old events and records that, so that the ledger can still be verified. For operators. */
    prune(options: PruneOptions): Promise<PruneReport>;
  };
  /** Records that a configuration file was loaded and what it loosened, or, with a reason, that it was rejected. */
  recordConfig(path: string, rejected?: string, loosened?: readonly string[]): void;
  /** Remembers the present policy and catalog. The returned function lists the decisions that are less strict since. */
  watchDecisions(): () => Promise<readonly string[]>;
  /** Records an event outside of calls, for example of a server or a client. For hosts. */
  note(event: UnstampedEvent, caller?: CallerOptions): void;
  /** Calls back when callers may see other actions than before, until the returned function is called. */
  onChange(listener: () => void): () => void;
  readonly policyVersion: string;
  /** Actions that actors list and that do not exist or belong to another actor. Such an actor cannot be used. */
  actorProblems(): readonly string[];
  /** Parts of the policy without effect, because they match no action. `mayFit` excuses patterns of later actions. */
  policyWarnings(mayFit?: (pattern: string) => boolean): readonly string[];
  /** Rules that read unknown fields or arguments, or object to every action. `isComplete`: no action is missing. */
  ruleProblems(isComplete?: boolean): readonly RuleProblem[];
  /** Puts another policy in force, from the next decision on. Throws and changes nothing if it is invalid. */
  usePolicy(policy: PolicyOptions): void;
  /** Aborts running calls, writes pending events, closes providers and store. */
  close(): Promise<void>;
}

/** Resolves when every provider has listed its actions or failed, or after ten seconds without them. */
export async function createQuartermaster(options: QuartermasterOptions = {}): Promise<Quartermaster> {
  const resolved = resolveOptions(options);
  const { runtime = systemRuntime } = resolved;
  const policy = compilePolicy(resolved.policy);
  const store = await openSqliteStore(resolved.store ?? ":memory:", { now: runtime.now, self: systemProcess });
  try {
    return exposeParts(await wireParts(resolved, runtime, policy, store));
  } catch (thrown) {
    await store.close();
    throw thrown;
  }
}

function exposeParts(parts: Parts): Quartermaster {
  const { registry, backend, catalog, views, discovery, prompts, ledger, router, record } = parts;
  const { turns, actors } = parts;
  const getView = (caller?: CallerOptions): View => backend.getView(parseCaller(caller));

  /** A caller whose actor can be used. Throws `unknown_actor` and `invalid_config`. */
  function requireCaller(options?: CallerOptions): Caller {
    const caller = parseCaller(options);
    views.check(parts.policy, caller);
    return caller;
  }

  const toCall = (name: unknown, args: unknown, caller?: CallerOptions, via = "library") => ({
    name: typeof name === "string" ? name : "",
    args,
    caller: caller === undefined ? { actor: "default", session: "local" } : applyCallerDefaults(caller),
    via,
  });

  function listActorProblems(policy: Policy): readonly string[] {
    const all = [...policy.actors.values()];
    const { actions, pending } = catalog.snapshot();
    const known = { actions: parts.peers.replaceActors(actions, policy), pending };
    const problems = all.flatMap((actor) => findActorProblems(actor, all, known));
    return [...new Set(problems.map(({ details }) => details))];
  }

  return {
    register: registry.register,
    unregister: registry.unregister,
    async invoke(name, args, options) {
      if (options === undefined) return backend.invoke(toCall(name, args), undefined);
      try {
        checkInvokeOptions(options);
      } catch (thrown) {
        const { runtime, valueLimit } = parts;
        return createFailedOutcome({ callId: runtime.newId(), durationMs: 0, valueLimit, action: undefined }, thrown);
      }
      const { caller, signal, via = "library", ...rest } = options;
      return backend.invoke(Object.assign(toCall(name, args, caller, via), rest), signal);
    },
    list(query = {}, caller) {
      checkOptions(listSchema, "query", query);
      const view = getView(caller);
      return { ...listActions(view, query, discovery.hint()), ...toPendingNames(view, query.category) };
    },
    async search(query, options, signal) {
      checkOptions(searchQuerySchema, "query", query);
      const caller = parseCaller(options);
      const view = backend.getView(caller);
      const found = await backend.search(caller, toSearchRequest(view, query), signal);
      return { ...toSearchAnswer(view, found, query.detail).data, ...toPendingNames(view, query.category) };
    },
    async hints(query, caller) {
      checkOptions(querySchema, "query", query);
      return prompts.hints(query, requireCaller(caller));
    },
    directory: (caller) => prompts.directory(requireCaller(caller)),
    async promptAids(query, caller) {
      checkOptions(querySchema, "query", query);
      return prompts.blocks(query, requireCaller(caller));
    },
    async prompt(caller, options = {}) {
      checkOptions(promptSchema, "options", options);
      return prompts.prompt(requireCaller(caller), options);
    },
    embeddings: discovery.embeddings,
    describe: (name, caller) => describeAction(getView(caller), name),
    explain: (name, caller) => views.explain(parts.policy, requireCaller(caller), name),
    names: (caller) => Array.from(getView(caller).actions(), ({ name }) => name),
    inventory: () =>
      catalog.snapshot().actions.map((action) => toInventoryItem(action, listWorlds(parts.policy.worlds, action))),
    categories: (caller) => getView(caller).categories(),
    skills(options) {
      const caller = parseCaller(options);
      const visible = backend.getView(caller).actions();
      return visible.flatMap((action) => {
        const skill = toUsableSkill(action);
        return skill !== undefined && views.isRunnable(parts.policy, caller, action) ? [skill] : [];
      });
    },
    async surface(options, kind) {
      checkOptions(surfaceOptionsSchema, "surface", omitUndefined({ kind }));
      const caller = requireCaller(options);
      const actor = requireActor(parts.policy, caller.actor);
      const choice = { ...parts.getSurfaceChoice(actor), ...omitUndefined({ kind }) };
      const { lists, uses, runtime } = parts;
      const isOwnSession = options?.session !== undefined;
      return openSurface({ backend, lists, uses, now: runtime.now }, caller, choice, isOwnSession);
    },
    catalog: { provide: catalog.provide, withdraw: catalog.withdraw, settled: catalog.settled },
    ledger: {
      read: ledger.read,
      verify: ledger.verify,
      heads: ledger.heads,
      flush: ledger.flush,
      prune: parts.retention.prune,
    },
    recordConfig(path, reason, loosened = []) {
      const more = loosened.length === 0 ? {} : { loosened: [...loosened] };
      if (reason !== undefined) record(undefined, { type: "config.rejected", data: { path, reason } });
      else record(undefined, { type: "config.loaded", data: { path, policyVersion: parts.policy.version, ...more } });
    },
    watchDecisions: () => watchDecisions(() => ({ policy: parts.policy, snapshot: catalog.snapshot() })),
    note: (event, caller) => void record(caller && requireCaller(caller), event),
    onChange(listener) {
      parts.listeners.add(listener);
      return () => parts.listeners.delete(listener);
    },
    get policyVersion() {
      return parts.policy.version;
    },
    actorProblems: () => listActorProblems(parts.policy),
    policyWarnings: (mayFit) => findPolicyWarnings(parts.policy, catalog.snapshot().actions, mayFit),
    ruleProblems: (isComplete = true) => findRuleProblems(parts.policy, catalog.snapshot().actions, isComplete),
    usePolicy(options) {
      checkOptions(policyOptionsSchema, "policy", options);
      const policy = compilePolicy(options);
      const problems = listActorProblems(policy);
      const hint = "List existing names, or globs such as file__*. {qm list --inventory} shows the names.";
      if (problems.length > 0) throw new QmError("invalid_config", problems.join("; "), { hint });
      parts.usePolicy(policy);
    },
    async callActor(name, message, options = {}) {
      const { caller: given, signal, onEvent } = checkActorOptions(options);
      const caller = parseCaller({ session: parts.runtime.newId(), ...given, actor: name });
      return actors.callActor(caller, message, omitUndefined({ signal, onEvent }));
    },
    resumeActor: async (token, options = {}) => actors.resumeActor(token, checkActorOptions(options)),
    sessions: actors.sessions,
    approvals: {
      ...parts.approvals,
      withdraw: async (id, caller, reason) => parts.approvals.withdraw(id, requireCaller(caller), reason),
      async outcome(id, { caller, ...options } = {}) {
        return parts.approvals.outcome(id, { ...options, ...(caller && { caller: requireCaller(caller) }) });
      },
      async look(id, { caller, ...options } = {}) {
        return parts.approvals.look(id, { ...options, ...(caller && { caller: requireCaller(caller) }) });
      },
    },
    methods: parts.methods,
    peers: parts.peers.views,
    turns: {
      get: turns.get,
      list: turns.list,
      begin: async (caller, memo) => turns.begin(requireCaller(caller), memo),
      async resume(token, { caller, ...options } = {}) {
        return turns.resume(token, { ...options, ...(caller && { caller: requireCaller(caller) }) });
      },
    },
    async replay(query, options = {}) {
      checkOptions(replaySchema, "query", query);
      if (options.policy !== undefined) checkOptions(policyOptionsSchema, "policy", options.policy);
      return (await parts.openReplay()).replay(query, options);
    },
    async rehearse(calls, options = {}) {
      if (options.caller !== undefined) checkOptions(callerSchema, "caller", options.caller);
      return (await parts.openReplay()).rehearse(calls, options);
    },
    notes: parts.notes,
    openSkillTrust: parts.openSkillTrust,
    router: {
      ...router,
      routeEvent: async (source, type, data, { caller, ...rest } = {}) =>
        router.routeEvent(source, type, data, { ...rest, ...(caller && { caller: requireCaller(caller) }) }),
    },
    anchors: {
      render: async (caller, text) => parts.anchors.render(requireCaller(caller), text),
      fill: async (caller, args) => parts.anchors.fill(requireCaller(caller), args),
    },
    close: parts.close,
  };
}
