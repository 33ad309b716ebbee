import { AsyncLocalStorage } from "node:async_hooks";
import type { Caller } from "../core/caller.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { clip, isRecord } from "../core/json.ts";
import { didYouMean } from "../core/nearest.ts";
import type { Runtime } from "../core/runtime.ts";
import { type CallFacts, toCallFacts as factsOfCall } from "../policy/call-facts.ts";
import { type AttemptLimits, createDispatch, type RoutedCall } from "./dispatch.ts";
import {
  createEventDelivery,
  type EventOrigin,
  type RecordRoutingEvent,
  type RoutableEvent,
  type RoutedEvent,
  recordRouted,
  requireHostEvent,
  requireNextDepth,
} from "./event.ts";
import { type CompiledRoute, compileRoutes, type RouteFacts, type RouteRule, type RouteTable } from "./rules.ts";
import {
  cancelledError,
  createRunningTasks,
  type RunningCall,
  type RunningTasks,
  runWithRetries,
} from "./running-tasks.ts";
import {
  createSubscribers,
  type EventDelivery,
  type RoutedEventListener,
  type Subscribers,
  type SubscriptionFilter,
} from "./subscribers.ts";

type EventHandler = (event: RoutableEvent, signal: AbortSignal) => unknown;

interface RouteEventOptions {
  readonly caller?: Caller;
  readonly signal?: AbortSignal;
}

interface HostEventOptions {
  readonly runtime: Runtime;
  readonly note: RecordRoutingEvent;
  readonly rules: () => RouteTable;
  readonly subscribers: Subscribers;
  readonly underWay: RunningTasks;
  readonly depth: () => number | undefined;
  readonly within: (depth: number, work: () => unknown) => unknown;
}

const HANDLER_DEADLINE_MS = 60_000;
const RULES_LISTED = 20;

function createHostEvents(parts: HostEventOptions) {
  const { runtime, note, subscribers, underWay } = parts;
  const handlers = new Map<string, EventHandler>();

  async function runHandler(rule: CompiledRoute, { event, depth }: EventDelivery, outer: AbortSignal | undefined) {
    const { to = "", deadlineMs = HANDLER_DEADLINE_MS, retry } = rule;
    const handler = handlers.get(to);
    if (handler === undefined) throw missingHandlerError(rule, to);
    const what = `handler ${to}`;
    const late = () => new QmError("timed_out", `${what} did not end within ${deadlineMs} ms`);
    const options = { outer, cancelled: () => cancelledError(what), deadlineMs, late };
    try {
      return await underWay.run(options, undefined, (course) => {
        const attempt = () => parts.within(depth, () => handler(event, course.signal));
        return runWithRetries(course, attempt, { retry, onFailure: () => true });
      });
    } catch (thrown) {
      if (thrown instanceof QmError) throw thrown;
      throw new QmError("action_failed", `${what} failed: ${getErrorMessage(thrown)}`, { cause: thrown });
    }
  }

  async function routeEvent(
    source: string,
    type: string,
    data: unknown,
    { caller, signal }: RouteEventOptions = {},
  ): Promise<RoutedEvent> {
    underWay.refuseWhenClosed();
    requireHostEvent(source, type);
    if (signal?.aborted) throw cancelledError(type);
    const heading = { source, type, actor: caller?.actor, isPrivate: false };
    const delivery = createEventDelivery(
      runtime,
      { heading, caller, rule: undefined },
      data,
      requireNextDepth(parts.depth(), type),
    );
    const { event } = delivery;
    const rule = parts.rules().first(source, type, () => toHostFacts(event));
    const origin: EventOrigin = { heading, caller, rule };
    const told = subscribers.matching(heading);
    recordRouted(note, event.id, origin, told.length);
    if (rule === undefined && told.length === 0) throw unroutedError(event, parts.rules().labels);
    for (const subscriber of told) subscriber.deliver(delivery);
    const routed = { eventId: event.id, subscribers: told.length };
    if (rule === undefined) return routed;
    if (rule.to === undefined) return { ...routed, rule: rule.label };
    return { ...routed, rule: rule.label, to: rule.to, result: await runHandler(rule, delivery, signal) };
  }

  function handle(name: string, handler: EventHandler): () => void {
    if (typeof name !== "string" || name === "" || typeof handler !== "function")
      throw new QmError("invalid_arguments", "a handler has a name and is a function");
    if (handlers.has(name)) throw new QmError("conflict", `there is a handler ${JSON.stringify(name)} already`);
    // Of its own, so that taking it away twice cannot take away another that came after it.
    const entry: EventHandler = (event, signal) => handler(event, signal);
    handlers.set(name, entry);
    return () => {
      if (handlers.get(name) === entry) handlers.delete(name);
    };
  }

  return { routeEvent, handle };
}

/** No action is called, and of the actor only the name is known. */
function toHostFacts({ source, type, data, caller }: RoutableEvent): RouteFacts {
  const { actor = "", session = "", turn = "", user = { id: "" }, person = "", tenant = "" } = caller ?? {};
  const ctx = { session, turn, user, person, tenant };
  return { event: { source, type, data }, tool: {}, actor: { name: actor, scope: "" }, ctx };
}

function unroutedError({ source, type }: RoutableEvent, labels: readonly string[]): QmError {
  const named = labels.slice(0, RULES_LISTED).join(", ") + (labels.length > RULES_LISTED ? ", ..." : "");
  return new QmError(
    "not_found",
    `no rule fits ${JSON.stringify(type)} from ${JSON.stringify(source)}, and nobody subscribed to it`,
    {
      hint: `A rule is missing. ${labels.length === 0 ? "There are none" : `There are: ${clip(named, 1000)}`}. Add one with useRules(), or subscribe().`,
    },
  );
}

function missingHandlerError({ label }: CompiledRoute, to: string): QmError {
  return new QmError("not_found", `routing ${label} sends to ${JSON.stringify(to)}, and no handler is called that`, {
    hint: `Register it with handle(${JSON.stringify(to)}, ...), or correct the rule.`,
  });
}

/** Takes calls and events to whoever is to have them. */
export interface Router {
  /**
   * Routes an event of the host's: the first rule that fits names its handler, and subscribers are told. Rejects with
   * `not_found` when nobody takes it, with what the handler threw, with `timed_out` or `cancelled`, and with `conflict`
   * when events have led to one another too often.
   */
  routeEvent(source: string, type: string, data: unknown, options?: RouteEventOptions): Promise<RoutedEvent>;
  /** Names a handler for rules, until the returned function is called. Throws `conflict` when the name is taken. */
  handle(name: string, handler: EventHandler): () => void;
  /** Tells of events, until the returned function is called. Whatever the listener does, nobody waits for it. */
  subscribe(interest: SubscriptionFilter, listener: RoutedEventListener): () => void;
  /** Puts these rules in force in place of those before. Throws `invalid_config` or `invalid_expression`, changing nothing. */
  useRules(rules: readonly RouteRule[]): void;
  /**
   * Runs a call: one that bypasses routing as it is; any other so that subscribers are told, within the deadline and the
   * tries of the first rule that fits. Rejects as `run` does, or with `timed_out`, `cancelled` or `conflict`. `run` may be
   * called again only after it has rejected.
   */
  dispatch<T>(call: RoutedCall, run: (wish: AttemptLimits) => Promise<T>): Promise<T>;
  /** Whether there was such a routed call to cancel. */
  cancel(callId: string, reason?: string): boolean;
  /** The routed calls that have not ended. */
  underWay(): readonly RunningCall[];
  /** Cancels what is under way, and whatever is still to come. Resolves when all of it is answered. */
  close(): Promise<void>;
}

export interface RouterOptions {
  readonly runtime: Runtime;
  readonly note: RecordRoutingEvent;
  readonly onProblem: (problem: string) => void;
  /** What conditions about a call may speak of. Absent: of its actor, the name only. */
  readonly factsOf?: (call: RoutedCall) => CallFacts;
}

export function createRouter(parts: RouterOptions): Router {
  const { runtime, note, factsOf = ({ action, caller, args }) => factsOfCall(action, caller, undefined, args) } = parts;
  // How many events led to what runs now, however far it has come since.
  const depths = new AsyncLocalStorage<number>();
  const depth = () => depths.getStore();
  const within = (at: number, work: () => unknown) => depths.run(at, work);
  const subscribers = createSubscribers({ say, within });
  const underWay = createRunningTasks();
  let table = compileRoutes([], say);
  const rules = () => table;

  function say(problem: string): void {
    try {
      parts.onProblem(problem);
    } catch {
      // Whoever is told of problems shall not cause new ones.
    }
  }

  const hostEvents = createHostEvents({ runtime, note, rules, subscribers, underWay, depth, within });
  return {
    routeEvent: hostEvents.routeEvent,
    handle: hostEvents.handle,
    subscribe(interest, listener) {
      requireFilter(interest, listener);
      return subscribers.add(interest, listener);
    },
    useRules(given) {
      table = compileRoutes(given, say);
    },
    dispatch: createDispatch({ runtime, note, say, factsOf, rules, subscribers, underWay, depth }),
    cancel: underWay.cancel,
    underWay: underWay.calls,
    async close() {
      await underWay.close();
      subscribers.close();
    },
  };
}

function requireFilter(interest: SubscriptionFilter, listener: RoutedEventListener): void {
  if (!isRecord(interest) || typeof listener !== "function")
    throw new QmError("invalid_arguments", "a subscriber says what it wants to be told of, and is a function");
  const known = ["source", "event", "actor"];
  for (const [key, value] of Object.entries(interest)) {
    // A misspelt key would mean everything.
    if (!known.includes(key))
      throw new QmError("invalid_arguments", `nothing can be subscribed to by ${key}${didYouMean(key, known)}`);
    if (value === undefined || (typeof value === "string" && value !== "")) continue;
    throw new QmError("invalid_arguments", `${key} of what is subscribed to is text, or left out`);
  }
}
