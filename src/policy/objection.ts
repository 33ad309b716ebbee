import type { ActionName } from "../core/names.ts";

/** The layers in the order in which they are asked. */
export const policyLayers = ["tool-policy", "gates", "tag-rules", "visibility", "actor", "budget", "approval"] as const;

export type PolicyLayer = (typeof policyLayers)[number];

/**
 * What one layer objects. `hide`: as if the action did not exist; `deny`: visible, but not to be run; `ask`: a person
 * must agree first. A layer without objection says nothing.
 */
export interface Objection {
  readonly layer: PolicyLayer;
  readonly effect: "hide" | "deny" | "ask";
  /** Which rule of the layer, by name or text, for operators and the ledger. */
  readonly rule: string;
  /** The operation that the objection is about, where it is not the action itself but what that runs. */
  readonly about?: ActionName;
  /** For the caller. Says nothing about rules. */
  readonly reason: string;
  /** Set when the rule reached its work limit and counts as one that holds. */
  readonly unevaluated?: true;
  /** Of one that asks: who must agree. Absent: `user`. */
  readonly level?: string;
  /** Of one that asks: how long the question stands. Absent: as the policy says. */
  readonly expiresInMs?: number | undefined;
}

const severity = { ask: 0, deny: 1, hide: 2 } as const;

/**
 * The objection that counts of two: the more forbidding one. Of two that ask it is the first, but who must agree is whoever
 * the more demanding of them names, and the question stands as long as the shorter lets it.
 */
export function pickStrongerObjection(first: Objection | undefined, second: Objection): Objection {
  if (first === undefined) return second;
  if (first.effect !== "ask" || second.effect !== "ask") {
    return severity[second.effect] > severity[first.effect] ? second : first;
  }
  const { level: one = "user", expiresInMs: short } = first;
  const { level: other = "user", expiresInMs: long } = second;
  return {
    ...first,
    level: pickStricterLevel(one, other),
    expiresInMs: short === undefined || long === undefined ? (short ?? long) : Math.min(short, long),
  };
}

/** Of two levels of an installation's own nobody knows which is more, so it takes both: an administrator. */
function pickStricterLevel(one: string, other: string): string {
  if (rankLevel(one) === rankLevel(other)) return one === other ? one : "admin";
  return rankLevel(other) > rankLevel(one) ? other : one;
}

/** Levels of an installation's own lie between the two that everybody has. */
function rankLevel(level: string): number {
  return level === "user" ? 0 : level === "admin" ? 2 : 1;
}
