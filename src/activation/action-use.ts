/** How much an action is used: every use counts one and halves with each half-life, as it all stood at a moment. */
export interface ActionUse {
  readonly action: string;
  readonly weight: number;
  readonly at: Date;
}

/** Where it outlives the process how much of each action was used, for one owner at a time. */
export interface ActionUseStore {
  /** Everything that was used for an owner, in no order. */
  read(owner: string): Promise<readonly ActionUse[]>;
  /** Adds to what is there. Loses nothing however many processes add at the same time. */
  add(owner: string, uses: readonly ActionUse[]): Promise<void>;
}

export const HALF_LIFE_MS = 7 * 24 * 60 * 60 * 1000;

/** What is left of it at another moment. A clock that went back makes nothing heavier. */
export function weightAt({ weight, at }: Pick<ActionUse, "weight" | "at">, moment: Date): number {
  return weight * 2 ** (-Math.max(0, moment.getTime() - at.getTime()) / HALF_LIFE_MS);
}

/** Two uses of the same action as one, as of the later of the two. */
export function together(one: ActionUse, other: ActionUse): ActionUse {
  const at = one.at > other.at ? one.at : other.at;
  return { action: one.action, weight: weightAt(one, at) + weightAt(other, at), at };
}
