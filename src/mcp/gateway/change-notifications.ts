import type { JsonObject } from "../../core/json.ts";

/** The lists that MCP has. */
export type ListName = "tools" | "resources" | "templates" | "prompts";

/** Remembers what a client was shown, to tell it when that is different now, and only then. */
export interface ListWatcher {
  listed(what: ListName, items: readonly JsonObject[]): void;
  /** The list can be another one. Looks soon, once for all that happens meanwhile. */
  scheduleCheck(what: ListName): void;
  close(): void;
}

interface ListWatcherOptions {
  current(what: ListName): Promise<readonly JsonObject[]> | readonly JsonObject[];
  changed(what: ListName): void;
  onProblem(thrown: unknown): void;
}

const SETTLE_MS = 20;

export function createListWatcher({ current, changed, onProblem }: ListWatcherOptions): ListWatcher {
  const lastLists = new Map<ListName, string>();
  const timers = new Map<ListName, NodeJS.Timeout>();

  async function compare(what: ListName): Promise<void> {
    const now = JSON.stringify(await current(what));
    const before = lastLists.get(what);
    if (before === undefined || now === before) return;
    // Until it asks again, the client has been told; telling it once is enough.
    lastLists.delete(what);
    changed(what);
  }

  return {
    listed(what, items) {
      lastLists.set(what, JSON.stringify(items));
    },
    scheduleCheck(what) {
      if (!lastLists.has(what) || timers.has(what)) return;
      const timer = setTimeout(() => {
        timers.delete(what);
        compare(what).catch(onProblem);
      }, SETTLE_MS);
      timers.set(what, timer.unref());
    },
    close() {
      for (const timer of timers.values()) clearTimeout(timer);
      timers.clear();
      lastLists.clear();
    },
  };
}

/** Whoever is told that a resource has changed. Two of the same `audience` are told once. */
export interface ResourceSubscriber {
  readonly audience: object;
  notify(uri: string): void;
}

/** Who follows which resource. A server is asked to stop telling of one when nobody here follows it any more. */
export interface ResourceSubscriptions {
  /** Answers whether it was taken: a follower has a limited number. */
  add(follower: ResourceSubscriber, server: string, uri: string): boolean;
  /** Answers whether it was the last one to follow it. */
  remove(follower: ResourceSubscriber, server: string, uri: string): boolean;
  /** Removes all of a follower's; answers what nobody follows any more. */
  drop(follower: ResourceSubscriber): readonly { readonly server: string; readonly uri: string }[];
  notifyUpdated(server: string, uri: string): void;
}

const SUBSCRIPTIONS_LIMIT = 1000;

export function createResourceSubscriptions(limit = SUBSCRIPTIONS_LIMIT): ResourceSubscriptions {
  const followers = new Map<string, Set<ResourceSubscriber>>();
  const counts = new WeakMap<ResourceSubscriber, number>();
  const getCount = (follower: ResourceSubscriber) => counts.get(follower) ?? 0;
  const toKey = (server: string, uri: string) => JSON.stringify([server, uri]);

  const removeKey = (key: string, follower: ResourceSubscriber): boolean => {
    const here = followers.get(key);
    if (!here?.delete(follower)) return false;
    counts.set(follower, getCount(follower) - 1);
    if (here.size > 0) return false;
    followers.delete(key);
    return true;
  };

  return {
    add(follower, server, uri) {
      const key = toKey(server, uri);
      const here = followers.get(key) ?? new Set();
      if (here.has(follower)) return true;
      if (getCount(follower) >= limit) return false;
      counts.set(follower, getCount(follower) + 1);
      followers.set(key, here.add(follower));
      return true;
    },
    remove: (follower, server, uri) => removeKey(toKey(server, uri), follower),
    drop(follower) {
      return [...followers.keys()]
        .filter((key) => removeKey(key, follower))
        .map((key) => {
          const [server, uri] = JSON.parse(key) as [string, string];
          return { server, uri };
        });
    },
    notifyUpdated(server, uri) {
      const notified = new Set<object>();
      for (const follower of followers.get(toKey(server, uri)) ?? []) {
        if (notified.has(follower.audience)) continue;
        notified.add(follower.audience);
        follower.notify(uri);
      }
    },
  };
}
