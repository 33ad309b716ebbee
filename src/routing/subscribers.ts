import { getErrorMessage } from "../core/errors.ts";
import { matchesGlob } from "../core/name-patterns.ts";
import type { RoutableEvent } from "./event.ts";

/** What a subscriber wants to be told of. Everything absent: whatever is not private. */
export interface SubscriptionFilter {
  /** A glob. */
  readonly source?: string;
  /** A glob on the type. */
  readonly event?: string;
  /** Whose events. Needed for those of a specialist, which only its own actor is told of. */
  readonly actor?: string;
}

export type RoutedEventListener = (event: RoutableEvent) => unknown;

/** What decides who is told. */
export interface EventHeading {
  readonly source: string;
  readonly type: string;
  readonly actor: string | undefined;
  /** Told to nobody but who asked for this very actor. */
  readonly isPrivate: boolean;
}

export interface EventSubscriber {
  /** Puts it at the end of what this subscriber is still to be told. Never throws, never waits. */
  deliver(delivery: EventDelivery): void;
}

export interface EventDelivery {
  readonly event: RoutableEvent;
  /** In characters. */
  readonly size: number;
  /** How many events led to it. */
  readonly depth: number;
}

export interface Subscribers {
  /** Nothing is told any more, not even what was waiting, once the returned function was called. */
  add(interest: SubscriptionFilter, listener: RoutedEventListener): () => void;
  matching(heading: EventHeading): readonly EventSubscriber[];
  readonly size: number;
  /** Ends every subscription. */
  close(): void;
}

export interface SubscribersOptions {
  readonly say: (problem: string) => void;
  /** Calls the listener so that what it routes is known to have come of this. */
  readonly within: (depth: number, work: () => unknown) => unknown;
}

/** What may wait while a subscriber takes its time. Beyond it, it is told nothing until it has caught up. */
const WAITING_EVENTS = 256;
const WAITING_CHARS = 16 * 1024 * 1024;

export function createSubscribers(parts: SubscribersOptions): Subscribers {
  const all = new Set<ActiveSubscriber>();
  return {
    add({ source, event, actor }, listener) {
      const subscriber = createSubscriber({ source, event, actor }, listener, parts);
      all.add(subscriber);
      return () => {
        all.delete(subscriber);
        subscriber.end();
      };
    },
    matching: (heading) => (all.size === 0 ? [] : [...all].filter((subscriber) => subscriber.wants(heading))),
    get size() {
      return all.size;
    },
    close() {
      for (const subscriber of all) {
        const left = subscriber.end();
        if (left > 0) parts.say(`${subscriber.label} was not told of the last ${left} events`);
      }
      all.clear();
    },
  };
}

interface ActiveSubscriber extends EventSubscriber {
  readonly label: string;
  wants(heading: EventHeading): boolean;
  /** Answers how many it was still to be told. */
  end(): number;
}

function createSubscriber(
  { source, event, actor }: { readonly [Key in keyof SubscriptionFilter]: SubscriptionFilter[Key] | undefined },
  listener: RoutedEventListener,
  { say, within }: SubscribersOptions,
): ActiveSubscriber {
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
      if (dropped++ === 0) say(`${label} is too slow: until it catches up it is not told of ${last?.event.type}`);
    }
  }

  /** One after another, each when the one before it has been dealt with. */
  async function deliverAll(): Promise<void> {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const { event, depth, size } = next;
      chars -= size;
      try {
        const answer = within(depth, () => listener(event));
        // What answers at once is not waited for, so that it keeps up with any number of calls in one go.
        if (!isObject(answer) || !("then" in answer)) continue;
        busy = true;
        dropExcess();
        await answer;
      } catch (thrown) {
        say(`${label} failed at ${event.type}: ${getErrorMessage(thrown)}`);
      } finally {
        busy = false;
      }
    }
    delivering = false;
    if (dropped > 1) say(`${label} has caught up; it was not told of ${dropped} events`);
    dropped = 0;
  }

  return {
    label,
    wants(heading) {
      if (actor === undefined ? heading.isPrivate : actor !== heading.actor) return false;
      if (source !== undefined && !matchesGlob(source, heading.source)) return false;
      return event === undefined || matchesGlob(event, heading.type);
    },
    deliver(delivery) {
      waiting.push(delivery);
      chars += delivery.size;
      if (busy) dropExcess();
      if (delivering) return;
      delivering = true;
      queueMicrotask(() => void deliverAll());
    },
    end() {
      chars = 0;
      return waiting.splice(0).length;
    },
  };
}

function isObject(value: unknown): value is object {
  return (typeof value === "object" && value !== null) || typeof value === "function";
}
