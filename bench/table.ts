import type { Spread } from "./measure.ts";

/** Rows of text under a heading, the first column to the left and the rest to the right. */
export interface Table {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly notes?: readonly string[];
}

export function printed({ title, head, rows, notes = [] }: Table): string {
  const lines = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  const aligned = lines.map((line) =>
    line
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
  const rule = widths.map((width) => "-".repeat(width)).join("  ");
  return [title, "", aligned[0], rule, ...aligned.slice(1), ...notes.map((note) => `  ${note}`), ""].join("\n");
}

export function times(factor: Spread): string {
  return `x${short(factor.median)} (${short(factor.min)}–${short(factor.max)})`;
}

export function micros(time: Spread): string {
  return `${short(time.median)} us (${short(time.min)}–${short(time.max)})`;
}

/** Three digits that count, without an exponent. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return "–";
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}
