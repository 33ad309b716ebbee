export const measureKinds = ["sum", "mean", "min", "max"] as const;

export type MeasureKind = (typeof measureKinds)[number];

export type TallyKind = "number" | "text";

/** What is known of many values without keeping them. */
export interface Tally {
  addNumber(value: number): void;
  addText(value: string): void;
  /** Undefined: nothing of that kind came. Not finite where the result is too large. */
  result(kind: MeasureKind, of: TallyKind): number | string | undefined;
}

export function createTally(): Tally {
  let count = 0;
  let sum = 0;
  let lost = 0;
  let least: number | undefined;
  let greatest: number | undefined;
  let first: string | undefined;
  let last: string | undefined;
  return {
    addNumber(value) {
      count++;
      if (least === undefined || value < least) least = value;
      if (greatest === undefined || value > greatest) greatest = value;
      // What is rounded off is added up by itself (Neumaier), so that ten times 0.1 is 1.
      const next = sum + value;
      lost += Math.abs(sum) >= Math.abs(value) ? sum - next + value : value - next + sum;
      sum = next;
    },
    addText(value) {
      if (first === undefined || value < first) first = value;
      if (last === undefined || value > last) last = value;
    },
    result(kind, of) {
      if (kind === "min") return of === "number" ? least : first;
      if (kind === "max") return of === "number" ? greatest : last;
      if (count === 0) return undefined;
      return kind === "sum" ? sum + lost : (sum + lost) / count;
    },
  };
}
