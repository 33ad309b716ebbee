/** Whoever is told that a resource has changed. Two of the same `audience` are told once. */
export interface Follower {
  readonly audience: object;
  tell(uri: string): void;
}

/** Who follows which resource. A server is asked to stop telling of one when nobody here follows it any more. */
export interface Subscriptions {
  add(follower: Follower, server: string, uri: string): void;
  /** Answers whether it was the last one to follow it. */
  remove(follower: Follower, server: string, uri: string): boolean;
  /** Removes all of a follower's; answers what nobody follows any more. */
  drop(follower: Follower): readonly { readonly server: string; readonly uri: string }[];
  updated(server: string, uri: string): void;
}

export function createSubscriptions(): Subscriptions {
  const followers = new Map<string, Set<Follower>>();
  const keyOf = (server: string, uri: string) => JSON.stringify([server, uri]);

  const removeBy = (key: string, follower: Follower): boolean => {
    const here = followers.get(key);
    if (!here?.delete(follower) || here.size > 0) return false;
    followers.delete(key);
    return true;
  };

  return {
    add(follower, server, uri) {
      const key = keyOf(server, uri);
      const here = followers.get(key) ?? new Set();
      followers.set(key, here.add(follower));
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
