import { AsyncLocalStorage } from "node:async_hooks";
import { QmError } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import { didYouMean } from "../core/nearest.ts";
import type { Runtime } from "../core/runtime.ts";
import { type Facts, factsOf as factsOfCall } from "../policy/facts.ts";
import type { Note } from "./announce.ts";
import { createDispatch, type RoutedCall, type RunWish } from "./calls.ts";
import type { RoutedEvent } from "./event.ts";
import { createHostEvents, type EventHandler, type RouteEventOptions } from "./host-events.ts";
import { compileRules, type RouteRule } from "./rules.ts";
import { createSubscribers, type Interest, type Listener } from "./subscribers.ts";
import { type CallUnderWay, createUnderWay } from "./under-way.ts";

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
  subscribe(interest: Interest, listener: Listener): () => void;
  /** Puts these rules in force in place of those before. Throws `invalid_config` or `invalid_expression`, changing nothing. */
  useRules(rules: readonly RouteRule[]): void;
  /**
   * Runs a call: one that bypasses routing as it is; any other so that subscribers are told, within the deadline and the
   * tries of the first rule that fits. Rejects as `run` does, or with `timed_out`, `cancelled` or `conflict`. `run` may be
   * called again only after it has rejected.
   */
  dispatch<T>(call: RoutedCall, run: (wish: RunWish) => Promise<T>): Promise<T>;
  /** Whether there was such a routed call to cancel. */
  cancel(callId: string, reason?: string): boolean;
  /** The routed calls that have not ended. */
  underWay(): readonly CallUnderWay[];
  /** Cancels what is under way, and whatever is still to come. Resolves when all of it is answered. */
  close(): Promise<void>;
}

export interface RouterParts {
  readonly runtime: Runtime;
  readonly note: Note;
  readonly onProblem: (problem: string) => void;
  /** What conditions about a call may speak of. Absent: of its actor, the name only. */
  readonly factsOf?: (call: RoutedCall) => Facts;
}

export function createRouter(parts: RouterParts): Router {
  const { runtime, note, factsOf = ({ action, caller, args }) => factsOfCall(action, caller, undefined, args) } = parts;
  // How many events led to what runs now, however far it has come since.
  const depths = new AsyncLocalStorage<number>();
  const depth = () => depths.getStore();
  const within = (at: number, work: () => unknown) => depths.run(at, work);
  const subscribers = createSubscribers({ say, within });
  const underWay = createUnderWay();
  let book = compileRules([], say);
  const rules = () => book;

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
      requireInterest(interest, listener);
      return subscribers.add(interest, listener);
    },
    useRules(given) {
      book = compileRules(given, say);
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

function requireInterest(interest: Interest, listener: Listener): void {
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
