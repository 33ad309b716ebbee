import type { ActionName } from "../core/names.ts";

/** The layers in the order in which they are asked. */
export const layers = ["tool-policy", "gates", "tag-rules", "visibility", "actor", "budget", "approval"] as const;

export type Layer = (typeof layers)[number];

/**
 * What one layer objects. `hide`: as if the action did not exist; `deny`: visible, but not to be run; `ask`: a person
 * must agree first. A layer without objection says nothing.
 */
export interface Objection {
  readonly layer: Layer;
  readonly effect: "hide" | "deny" | "ask";
  /** Which rule of the layer, by name or text, for operators and the ledger. */
  readonly rule: string;
  /** The operation that the objection is about, where it is not the action itself but what that runs. */
  readonly about?: ActionName;
  /** For the caller. Says nothing about rules. */
  readonly reason: string;
}
