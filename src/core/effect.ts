/**
 * What running an action can do, from harmless to far-reaching. Stated by whoever supplies the action, never guessed
 * from its name.
 *
 * - `pure`: computes from its arguments
 * - `read`: looks at something outside itself and changes nothing
 * - `write`: changes data that this system holds
 * - `external`: acts on somebody else's system
 * - `stateful`: starts or changes something that keeps running
 */
export const effects = ["pure", "read", "write", "external", "stateful"] as const;

export type Effect = (typeof effects)[number];

export function effectRank(effect: Effect): number {
  return effects.indexOf(effect);
}

/** Whether running it may leave a trace outside the answer. */
export function changesSomething(effect: Effect): boolean {
  return effectRank(effect) > effectRank("read");
}
