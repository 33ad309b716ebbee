import type { Spread } from "./measure.ts";

/** A measured figure. It is formatted when it is printed. */
export interface Figure extends Spread {
  readonly unit: "times" | "us";
}

export interface Table {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly (string | number | Figure)[])[];
  readonly notes?: readonly string[];
}

/** Aligns the first column to the left and the others to the right. */
export function printed({ title, head, rows, notes = [] }: Table): string {
  const lines = [head, ...rows.map((row) => row.map(cell))];
  const widths = head.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  const aligned = lines.map((line) =>
    line
      .map((text, column) => (column === 0 ? text.padEnd(widths[0] ?? 0) : text.padStart(widths[column] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
  const rule = widths.map((width) => "-".repeat(width)).join("  ");
  return [title, "", aligned[0], rule, ...aligned.slice(1), ...notes.map((note) => `  ${note}`), ""].join("\n");
}

export const times = (factor: Spread): Figure => ({ unit: "times", ...factor });

export const micros = (time: Spread): Figure => ({ unit: "us", ...time });

function cell(value: string | number | Figure): string {
  if (typeof value === "string") return value;
  if (typeof value === "number") return short(value);
  const median = value.unit === "us" ? `${short(value.median)} us` : `x${short(value.median)}`;
  return `${median} (${short(value.min)}–${short(value.max)})`;
}

/** Three significant digits, without an exponent. */
export function short(value: number): string {
  if (!Number.isFinite(value)) return "–";
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}
