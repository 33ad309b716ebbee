import { short, type Table } from "./table.ts";

/** A limit that a figure must keep. */
export interface Target {
  readonly name: string;
  /** Undefined: it could not be measured here. */
  readonly measured: number | undefined;
  readonly sign: "<" | "≤" | "≥";
  readonly limit: number;
  readonly unit: string;
}

/** What one part of a bench gives. */
export interface BenchResult {
  readonly tables: readonly Table[];
  readonly targets: readonly Target[];
}

export function targetTable(targets: readonly Target[], notes: readonly string[] = []): Table {
  const rows = targets.length === 0 ? [["none in this part"]] : targets.map(row);
  return { title: "Targets", head: ["", "measured", "target", ""], rows, notes };
}

function row({ name, measured, sign, limit, unit }: Target): readonly string[] {
  const text = (value: number): string => `${short(value)} ${unit}`.trim();
  if (measured === undefined) return [name, "–", `${sign} ${text(limit)}`, "not measured"];
  const isMet = sign === "<" ? measured < limit : sign === "≤" ? measured <= limit : measured >= limit;
  return [name, text(measured), `${sign} ${text(limit)}`, isMet ? "met" : "NOT MET"];
}
