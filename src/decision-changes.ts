import type { Snapshot } from "./catalog/snapshot.ts";
import { yieldToEventLoop } from "./core/async.ts";
import { type Explanation, explain } from "./policy/explain.ts";
import type { Policy } from "./policy/policy.ts";

/** A policy and the actions it was asked about, at one time. */
interface DecisionBasis {
  readonly policy: Policy;
  readonly snapshot: Snapshot;
}

const PAIR_LIMIT = 20_000;
const PAIRS_AT_ONCE = 100;
const LISTED = 20;

/** Remembers the basis of decisions as it is now. The returned function tells which decisions are less strict by then. */
export function watchDecisions(basis: () => DecisionBasis): () => Promise<readonly string[]> {
  const before = basis();
  return () => findOpenedActions(before, basis());
}

/**
 * Which actions each actor may use now, with less in their way than before, as the policy itself decides. Actions and actors
 * that are new are not compared. Compares a bounded number of pairs and lets other work run in between.
 */
async function findOpenedActions(before: DecisionBasis, after: DecisionBasis): Promise<readonly string[]> {
  const found: string[] = [];
  let compared = 0;
  const actors = [...after.policy.actors.keys()].filter((actor) => before.policy.actors.has(actor));
  for (const actor of actors) {
    // A session that no caller has: rules that speak of one person or tenant cannot be tried for all of them.
    const caller = { actor, session: "" };
    for (const { name } of after.snapshot.actions) {
      if (before.snapshot.get(name) === undefined) continue;
      if (compared === PAIR_LIMIT) return listed(found, `only ${PAIR_LIMIT} decisions were compared`);
      if (++compared % PAIRS_AT_ONCE === 0) await yieldToEventLoop();
      const [was, is] = [before, after].map(({ policy, snapshot }) => stateOf(explain(policy, snapshot, name, caller)));
      if (was !== undefined && is !== undefined && order.indexOf(is) > order.indexOf(was))
        found.push(`${name} was ${was} for the actor ${actor} and is ${is}`);
    }
  }
  return listed(found);
}

const order = ["hidden", "denied", "asked about", "allowed"] as const;

function stateOf({ visible, decision }: Explanation): (typeof order)[number] {
  if (!visible) return "hidden";
  return decision === "allow" ? "allowed" : decision === "ask" ? "asked about" : "denied";
}

function listed(found: readonly string[], ...notes: readonly string[]): readonly string[] {
  const more = found.length > LISTED ? [`${found.length - LISTED} more decisions are less strict`] : [];
  return [...found.slice(0, LISTED), ...more, ...notes];
}
