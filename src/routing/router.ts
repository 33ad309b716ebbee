import { AsyncLocalStorage } from "node:async_hooks";
import type { Caller } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { clip, isRecord } from "../core/json.ts";
import { didYouMean } from "../core/nearest.ts";
import type { Runtime } from "../core/runtime.ts";
import { type CallFacts, toCallFacts } from "../policy/call-facts.ts";
import { type AttemptLimits, createDispatch, type RoutedCall, type RoutingServices } from "./dispatch.ts";
import {
  createEventDelivery,
  type RecordRoutingEvent,
  type RoutableEvent,
  type RoutedEvent,
  recordRouted,
  requireHostEvent,
  requireNextDepth,
} from "./event.ts";
import { type CompiledRoute, compileRoutes, type RouteFacts, type RouteRule } from "./rules.ts";
import { cancelledError, createRunningTasks, type RunningCall, runWithRetries } from "./running-tasks.ts";
import {
  createSubscribers,
  type EventDelivery,
  type RoutedEventListener,
  type SubscriptionFilter,
} from "./subscribers.ts";

type EventHandler = (event: RoutableEvent, signal: AbortSignal) => unknown;
type RouteEventOptions = { readonly caller?: Caller; readonly signal?: AbortSignal };

export interface Router {
  /**
   * Routes an event of the host: the first rule that fits names its handler, and subscribers are told. Rejects with
   * `not_found` when neither exists, with what the handler threw, with `timed_out` or `cancelled`, and with `conflict`
   * when events caused one another too often.
   */
  routeEvent(source: string, type: string, data: unknown, options?: RouteEventOptions): Promise<RoutedEvent>;
  /** Names a handler for rules, until the returned function is called. Throws `conflict` when the name is taken. */
  handle(name: string, handler: EventHandler): () => void;
  /** Calls the listener for events, until the returned function is called. No call or event waits for it. */
  subscribe(filter: SubscriptionFilter, listener: RoutedEventListener): () => void;
  /** Replaces the rules. Throws `invalid_config` or `invalid_expression`, changing nothing. */
  useRules(rules: readonly RouteRule[]): void;
  /**
   * Runs a call, and tells subscribers, within the deadline and the retries of the first rule that fits. A call that
   * bypasses routing only runs. Rejects as `run` does, or with `timed_out`, `cancelled` or `conflict`. `run` may be called
   * again only after it has rejected.
   */
  dispatch<T>(call: RoutedCall, run: (limits: AttemptLimits) => Promise<T>): Promise<T>;
  /** Answers whether there was such a routed call to cancel. */
  cancel(callId: string, reason?: string): boolean;
  underWay(): readonly RunningCall[];
  /** Cancels running and later work. Resolves when all of it has ended. */
  close(): Promise<void>;
}

export interface RouterOptions {
  readonly runtime: Runtime;
  readonly record: RecordRoutingEvent;
  readonly onProblem: (problem: string) => void;
  /** The facts for conditions about a call. Default: of its actor, only the name. */
  readonly getFacts?: (call: RoutedCall) => CallFacts;
}

export function createRouter(options: RouterOptions): Router {
  const { runtime, record, onProblem } = options;
  const getFacts = options.getFacts ?? (({ action, caller, args }) => toCallFacts(action, caller, undefined, args));
  const depths = new AsyncLocalStorage<number>();
  const getDepth = () => depths.getStore();
  const runAtDepth = (depth: number, work: () => unknown) => depths.run(depth, work);
  const subscribers = createSubscribers({ report, runAtDepth });
  const tasks = createRunningTasks();
  let rules = compileRoutes([], report);
  const getRules = () => rules;

  function report(problem: string): void {
    try {
      onProblem(problem);
    } catch {
      // A broken problem listener must not cause new problems.
    }
  }

  const services = { runtime, record, report, getFacts, getRules, subscribers, tasks, getDepth, runAtDepth };
  return {
    ...createHostEvents(services),
    subscribe(filter, listener) {
      requireFilter(filter, listener);
      return subscribers.add(filter, listener);
    },
    useRules(given) {
      rules = compileRoutes(given, report);
    },
    dispatch: createDispatch(services),
    cancel: tasks.cancel,
    underWay: tasks.listCalls,
    async close() {
      await tasks.close();
      subscribers.close();
    },
  };
}

function requireFilter(filter: SubscriptionFilter, listener: RoutedEventListener): void {
  if (!isRecord(filter) || typeof listener !== "function")
    throw new QmError("invalid_arguments", "subscribe() takes a filter and a function");
  const known = ["source", "event", "actor"];
  for (const [key, value] of Object.entries(filter)) {
    // With a misspelt key ignored, the filter would match everything.
    if (!known.includes(key))
      throw new QmError("invalid_arguments", `a subscription has no filter ${key}${didYouMean(key, known)}`);
    if (value === undefined || (typeof value === "string" && value !== "")) continue;
    throw new QmError("invalid_arguments", `the filter ${key} of a subscription must be text`);
  }
}

const HANDLER_DEADLINE_MS = 60_000;
const RULES_LISTED = 20;

function createHostEvents({ runtime, record, getRules, subscribers, tasks, getDepth, runAtDepth }: RoutingServices) {
  const handlers = new Map<string, EventHandler>();

  async function runHandler(rule: CompiledRoute, { event, depth }: EventDelivery, outer: AbortSignal | undefined) {
    const { to = "", deadlineMs = HANDLER_DEADLINE_MS, retry } = rule;
    const handler = handlers.get(to);
    if (handler === undefined) throw missingHandlerError(rule, to);
    const what = `handler ${to}`;
    const createLateError = () => new QmError("timed_out", `${what} did not end within ${deadlineMs} ms`);
    const options = { outer, createCancelError: () => cancelledError(what), deadlineMs, createLateError };
    try {
      return await tasks.run(options, undefined, (task) => {
        const attempt = () => runAtDepth(depth, () => handler(event, task.controller.signal));
        return runWithRetries(task, attempt, { retry, onFailure: () => true });
      });
    } catch (thrown) {
      if (thrown instanceof QmError) throw thrown;
      throw new QmError("action_failed", `${what} failed: ${getErrorMessage(thrown)}`, { cause: thrown });
    }
  }

  return {
    async routeEvent(source: string, type: string, data: unknown, { caller, signal }: RouteEventOptions = {}) {
      tasks.requireOpen();
      requireHostEvent(source, type);
      if (signal?.aborted) throw cancelledError(type);
      const heading = { source, type, actor: caller?.actor, isPrivate: false };
      const depth = requireNextDepth(getDepth(), type);
      const delivery = createEventDelivery(runtime, { heading, caller, rule: undefined }, data, depth);
      const { event } = delivery;
      const rule = getRules().first(source, type, () => toHostFacts(event));
      const matching = subscribers.matching(heading);
      recordRouted(record, event.id, { heading, caller, rule }, matching.length);
      if (rule === undefined && matching.length === 0) throw unroutedError(event, getRules().labels);
      for (const subscriber of matching) subscriber.deliver(delivery);
      const routed = { eventId: event.id, subscribers: matching.length };
      if (rule === undefined) return routed;
      if (rule.to === undefined) return { ...routed, rule: rule.label };
      return { ...routed, rule: rule.label, to: rule.to, result: await runHandler(rule, delivery, signal) };
    },

    handle(name: string, handler: EventHandler): () => void {
      if (typeof name !== "string" || name === "" || typeof handler !== "function")
        throw new QmError("invalid_arguments", "handle() takes a name and a function");
      if (handlers.has(name)) throw new QmError("conflict", `there is already a handler ${JSON.stringify(name)}`);
      // A function of its own, so that a second removal cannot remove a later registration of the same handler.
      const entry: EventHandler = (event, signal) => handler(event, signal);
      handlers.set(name, entry);
      return () => {
        if (handlers.get(name) === entry) handlers.delete(name);
      };
    },
  };
}

/** Conditions about host events see no action, and of the actor only its name. */
function toHostFacts({ source, type, data, caller }: RoutableEvent): RouteFacts {
  const { actor = "", session = "", turn = "", user = { id: "" }, person = "", tenant = "" } = caller ?? {};
  const ctx = { session, turn, user, person, tenant };
  return { event: { source, type, data }, tool: {}, actor: { name: actor, scope: "" }, ctx };
}

function unroutedError({ source, type }: RoutableEvent, labels: readonly string[]): QmError {
  const listed = labels.slice(0, RULES_LISTED).join(", ") + (labels.length > RULES_LISTED ? ", ..." : "");
  const existing = labels.length === 0 ? "There are none" : `There are: ${clip(listed, 1000)}`;
  const message = `no rule fits ${JSON.stringify(type)} from ${JSON.stringify(source)}, and it has no subscriber`;
  const hint = `A rule is missing. ${existing}. Add one with useRules(), or subscribe().`;
  return new QmError("not_found", message, { hint });
}

function missingHandlerError({ label }: CompiledRoute, to: string): QmError {
  return new QmError("not_found", `routing ${label} sends to ${JSON.stringify(to)}, and there is no such handler`, {
    hint: `Register it with handle(${JSON.stringify(to)}, ...), or correct the rule.`,
  });
}
