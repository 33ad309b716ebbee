/** Whoever is told that a resource has changed. Two of the same `audience` are told once. */
export interface Follower {
  readonly audience: object;
  tell(uri: string): void;
}

/** Who follows which resource. A server is asked to stop telling of one when nobody here follows it any more. */
export interface Subscriptions {
  /** Answers whether it was taken: a follower has a limited number. */
  add(follower: Follower, server: string, uri: string): boolean;
  /** Answers whether it was the last one to follow it. */
  remove(follower: Follower, server: string, uri: string): boolean;
  /** Removes all of a follower's; answers what nobody follows any more. */
  drop(follower: Follower): readonly { readonly server: string; readonly uri: string }[];
  updated(server: string, uri: string): void;
}

export const SUBSCRIPTIONS_LIMIT = 1000;

export function createSubscriptions(limit = SUBSCRIPTIONS_LIMIT): Subscriptions {
  const followers = new Map<string, Set<Follower>>();
  const counts = new WeakMap<Follower, number>();
  const countOf = (follower: Follower) => counts.get(follower) ?? 0;
  const keyOf = (server: string, uri: string) => JSON.stringify([server, uri]);

  const removeBy = (key: string, follower: Follower): boolean => {
    const here = followers.get(key);
    if (!here?.delete(follower)) return false;
    counts.set(follower, countOf(follower) - 1);
    if (here.size > 0) return false;
    followers.delete(key);
    return true;
  };

  return {
    add(follower, server, uri) {
      const key = keyOf(server, uri);
      const here = followers.get(key) ?? new Set();
      if (here.has(follower)) return true;
      if (countOf(follower) >= limit) return false;
      counts.set(follower, countOf(follower) + 1);
      followers.set(key, here.add(follower));
      return true;
    },
    remove: (follower, server, uri) => removeBy(keyOf(server, uri), follower),
    drop(follower) {
      return [...followers.keys()]
        .filter((key) => removeBy(key, follower))
        .map((key) => {
          const [server, uri] = JSON.parse(key) as [string, string];
          return { server, uri };
        });
    },
    updated(server, uri) {
      const told = new Set<object>();
      for (const follower of followers.get(keyOf(server, uri)) ?? []) {
        if (told.has(follower.audience)) continue;
        told.add(follower.audience);
        follower.tell(uri);
      }
    },
  };
}
