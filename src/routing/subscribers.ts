import { getErrorMessage } from "../core/errors.ts";
import { matchesGlob } from "../core/name-patterns.ts";
import type { RoutableEvent } from "./event.ts";

/** Which events a subscriber gets. Without an `actor`, no private ones. */
export interface SubscriptionFilter {
  /** A glob. */
  readonly source?: string;
  /** A glob on the type. */
  readonly event?: string;
  /** Needed for the events of a specialist, which are private to its actor. */
  readonly actor?: string;
}

export type RoutedEventListener = (event: RoutableEvent) => unknown;

export interface EventHeading {
  readonly source: string;
  readonly type: string;
  readonly actor: string | undefined;
  /** Delivered only to subscribers whose filter names the actor. */
  readonly isPrivate: boolean;
}

export interface EventDelivery {
  readonly event: RoutableEvent;
  /** In characters. */
  readonly size: number;
  /** How many events led to it. */
  readonly depth: number;
}

export type Subscribers = ReturnType<typeof createSubscribers>;

interface SubscribersOptions {
  readonly report: (problem: string) => void;
  /** Runs the listener so that events it causes are one deeper. */
  readonly runAtDepth: (depth: number, work: () => unknown) => unknown;
}

/** A slow subscriber's queue. Beyond it, events are dropped until the subscriber has caught up. */
const WAITING_EVENTS = 256;
const WAITING_CHARS = 16 * 1024 * 1024;

export function createSubscribers(options: SubscribersOptions) {
  const all = new Set<Subscriber>();
  return {
    /** The returned function ends the subscription and drops its waiting events. */
    add(filter: SubscriptionFilter, listener: RoutedEventListener): () => void {
      const subscriber = createSubscriber(filter, listener, options);
      all.add(subscriber);
      return () => {
        all.delete(subscriber);
        subscriber.end();
      };
    },
    matching: (heading: EventHeading) => (all.size === 0 ? [] : [...all].filter(({ matches }) => matches(heading))),
    get size(): number {
      return all.size;
    },
    close(): void {
      for (const subscriber of all) {
        const left = subscriber.end();
        if (left > 0) options.report(`${subscriber.label} was not told of the last ${left} events`);
      }
      all.clear();
    },
  };
}

type Subscriber = ReturnType<typeof createSubscriber>;

/** Reads the filter now: its owner may change it later. */
function createSubscriber(
  { source, event, actor }: SubscriptionFilter,
  listener: RoutedEventListener,
  { report, runAtDepth }: SubscribersOptions,
) {
  const label = `the subscriber to ${event ?? "*"} from ${source ?? "*"}${actor === undefined ? "" : ` of ${actor}`}`;
  const waiting: EventDelivery[] = [];
  let chars = 0;
  let dropped = 0;
  let delivering = false;
  let busy = false;

  function dropExcess(): void {
    while (waiting.length > WAITING_EVENTS || chars > WAITING_CHARS) {
      const last = waiting.pop();
      chars -= last?.size ?? 0;
      if (dropped++ === 0) report(`${label} is too slow: until it catches up it is not told of ${last?.event.type}`);
    }
  }

  async function deliverAll(): Promise<void> {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const { event, depth, size } = next;
      chars -= size;
      try {
        const answer = runAtDepth(depth, () => listener(event));
        // A synchronous listener is not awaited, so that it keeps up with any number of calls in one turn.
        if (!isThenable(answer)) continue;
        busy = true;
        dropExcess();
        await answer;
      } catch (thrown) {
        report(`${label} failed at ${event.type}: ${getErrorMessage(thrown)}`);
      } finally {
        busy = false;
      }
    }
    delivering = false;
    if (dropped > 1) report(`${label} has caught up; it was not told of ${dropped} events`);
    dropped = 0;
  }

  return {
    label,
    matches(heading: EventHeading): boolean {
      if (actor === undefined ? heading.isPrivate : actor !== heading.actor) return false;
      if (source !== undefined && !matchesGlob(source, heading.source)) return false;
      return event === undefined || matchesGlob(event, heading.type);
    },
    /** Queues the event. Never throws, never waits. */
    deliver(delivery: EventDelivery): void {
      waiting.push(delivery);
      chars += delivery.size;
      if (busy) dropExcess();
      if (delivering) return;
      delivering = true;
      queueMicrotask(() => void deliverAll());
    },
    /** Answers how many events were still waiting. */
    end(): number {
      chars = 0;
      return waiting.splice(0).length;
    },
  };
}

const isThenable = (value: unknown): value is object =>
  ((typeof value === "object" && value !== null) || typeof value === "function") && "then" in value;
