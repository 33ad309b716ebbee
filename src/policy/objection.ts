import type { ActionName } from "../core/names.ts";

/** In the order in which they are checked. */
export const policyLayers = [
  "tool-policy",
  "gates",
  "tag-rules",
  "visibility",
  "actor",
  "world",
  "budget",
  "approval",
] as const;
export type PolicyLayer = (typeof policyLayers)[number];

/** The settings that an objection comes from, for programs that suggest a change. Its `rule` is text for people. */
export interface ObjectionFacts {
  /** The list of the tool policy that objects, and its entry. `allowed`: the list lacks the action. */
  readonly list?: "allowed" | "denied" | "requireTags";
  readonly entry?: string;
  /** The configuration key that opens the gate. */
  readonly setting?: string;
  /** The first of the worlds that the action belongs to. */
  readonly world?: string;
  /** Only a person who accepts the action is missing. */
  readonly needsAcceptance?: true;
}

/** `hide`: as if the action did not exist. `deny`: visible, but must not run. `ask`: a person must approve first. */
export interface Objection extends ObjectionFacts {
  readonly layer: PolicyLayer;
  readonly effect: "hide" | "deny" | "ask";
  /** The rule's name or text, for operators and the ledger. */
  readonly rule: string;
  /** The operation that the action runs, if the objection is to that. */
  readonly about?: ActionName;
  /** For the caller. Does not reveal rules. */
  readonly reason: string;
  /** Set when the rule reached its work limit and counts as true. */
  readonly unevaluated?: true;
  /** For `ask`: who must approve. Default: `user`. */
  readonly level?: string;
  /** For `ask`. Default: the policy's. */
  readonly expiresInMs?: number | undefined;
}

const severity = { ask: 0, deny: 1, hide: 2 } as const;

/** The more severe of two objections. Two that ask are merged: the first, with the stricter level and the shorter time. */
export function pickStrongerObjection(first: Objection | undefined, second: Objection): Objection {
  if (first === undefined) return second;
  if (first.effect !== "ask" || second.effect !== "ask") {
    return severity[second.effect] > severity[first.effect] ? second : first;
  }
  const { level: one = "user", expiresInMs: short } = first;
  const { level: other = "user", expiresInMs: long } = second;
  const expiresInMs = short === undefined || long === undefined ? (short ?? long) : Math.min(short, long);
  return { ...first, level: pickStricterLevel(one, other), expiresInMs };
}

/** The order of two custom levels is unknown, so it takes an administrator. */
function pickStricterLevel(one: string, other: string): string {
  if (one === other || other === "user") return one;
  return one === "user" ? other : "admin";
}
