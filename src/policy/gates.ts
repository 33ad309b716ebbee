import type { Action } from "../core/action.ts";
import { matchesGlob } from "../core/glob.ts";
import type { Objection } from "./verdict.ts";

/** Actions that exist only while the environment can carry them: no sandbox that works, no exec. */
export interface Gate {
  readonly name: string;
  /** A glob over action names. */
  readonly guards: string;
  /** Why it is shut right now, or undefined while it is open. Asked for every decision, so it must be quick. */
  shut(): string | undefined;
}

export function gateObjection(gates: readonly Gate[], action: Action): Objection | undefined {
  for (const gate of gates) {
    if (!matchesGlob(gate.guards, action.name)) continue;
    const shut = gate.shut();
    if (shut !== undefined)
      return { layer: "gates", effect: "hide", rule: `${gate.name}: ${shut}`, reason: "It is not available here." };
  }
  return undefined;
}
