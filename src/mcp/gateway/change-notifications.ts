import type { JsonObject } from "../../core/json.ts";

/** The lists of MCP, and that of its extension for skills. */
export type ListName = "tools" | "resources" | "templates" | "prompts" | "skills";
export type ListWatcher = ReturnType<typeof createListWatcher>;
const SETTLE_MS = 20;

/** Remembers the lists a client was sent, and calls `onChange` once when the current one is different. */
export function createListWatcher(
  getCurrent: (list: ListName) => Promise<readonly JsonObject[]> | readonly JsonObject[],
  onChange: (list: ListName) => void,
  onProblem: (thrown: unknown) => void,
) {
  const lastLists = new Map<ListName, string>();
  const timers = new Map<ListName, NodeJS.Timeout>();

  async function compare(list: ListName): Promise<void> {
    const now = JSON.stringify(await getCurrent(list));
    const before = lastLists.get(list);
    if (before === undefined || now === before) return;
    // One notification is enough until the client asks for the list again.
    lastLists.delete(list);
    onChange(list);
  }

  return {
    listed(list: ListName, items: readonly JsonObject[]): void {
      lastLists.set(list, JSON.stringify(items));
    },
    /** Compares the list soon, once for all changes until then. */
    scheduleCheck(list: ListName): void {
      if (!lastLists.has(list) || timers.has(list)) return;
      const timer = setTimeout(() => {
        timers.delete(list);
        compare(list).catch(onProblem);
      }, SETTLE_MS);
      timers.set(list, timer.unref());
    },
    close(): void {
      for (const timer of timers.values()) clearTimeout(timer);
      timers.clear();
      lastLists.clear();
    },
  };
}

/** Subscribers with the same `audience` are notified once. */
export type ResourceSubscriber = { readonly audience: object; notify(uri: string): void };
export type ResourceSubscriptions = ReturnType<typeof createResourceSubscriptions>;
const SUBSCRIPTIONS_LIMIT = 1000;

/** The resource subscriptions of all clients. Each subscriber may have `limit` of them. */
export function createResourceSubscriptions(limit = SUBSCRIPTIONS_LIMIT) {
  const subscribers = new Map<string, Set<ResourceSubscriber>>();
  const counts = new WeakMap<ResourceSubscriber, number>();
  const getCount = (subscriber: ResourceSubscriber) => counts.get(subscriber) ?? 0;
  const toKey = (server: string, uri: string) => JSON.stringify([server, uri]);

  const removeKey = (key: string, subscriber: ResourceSubscriber): boolean => {
    const others = subscribers.get(key);
    if (!others?.delete(subscriber)) return false;
    counts.set(subscriber, getCount(subscriber) - 1);
    return others.size === 0 && subscribers.delete(key);
  };

  return {
    /** False: the subscriber has reached its limit. */
    add(subscriber: ResourceSubscriber, server: string, uri: string): boolean {
      const key = toKey(server, uri);
      const others = subscribers.get(key) ?? new Set();
      if (others.has(subscriber)) return true;
      if (getCount(subscriber) >= limit) return false;
      counts.set(subscriber, getCount(subscriber) + 1);
      subscribers.set(key, others.add(subscriber));
      return true;
    },
    /** True: it was the last subscriber, so the server can be told to stop. */
    remove: (subscriber: ResourceSubscriber, server: string, uri: string) => removeKey(toKey(server, uri), subscriber),
    /** Removes all subscriptions of a subscriber. Returns the resources that have no subscriber left. */
    drop(subscriber: ResourceSubscriber): readonly { readonly server: string; readonly uri: string }[] {
      const ended = [...subscribers.keys()].filter((key) => removeKey(key, subscriber));
      return ended.map((key) => {
        const [server, uri] = JSON.parse(key) as [string, string];
        return { server, uri };
      });
    },
    notifyUpdated(server: string, uri: string): void {
      const byAudience = new Map([...(subscribers.get(toKey(server, uri)) ?? [])].map((one) => [one.audience, one]));
      for (const subscriber of byAudience.values()) subscriber.notify(uri);
    },
  };
}
