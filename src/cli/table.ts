import { fitted, oneLine, widthOf } from "./text.ts";

const GAP = "  ";
const NARROWEST_LAST = 12;

/** A cell is plain data, or data with a colour that is put on after the width is known. */
export type Cell = string | { readonly text: string; readonly paint: (text: string) => string };

export interface TableOptions {
  /** Absent: as wide as it gets. */
  readonly width?: number | undefined;
  readonly indent?: number;
  readonly paintHead?: (text: string) => string;
}

/**
 * Lines of a table no wider than the terminal: the last column gives way first, then the others from the widest on.
 * Cells may hold anything; what a terminal would act on is neutralised.
 */
export function tableLines(head: readonly string[], rows: readonly (readonly Cell[])[], options: TableOptions = {}) {
  const { width, indent = 0, paintHead = (text) => text } = options;
  const cells = rows.map((row) => row.map((cell) => ({ paint: paintOf(cell), text: oneLine(textOf(cell)) })));
  const titles = head.some((title) => title !== "") ? [head.map((text) => ({ paint: paintHead, text }))] : [];
  const natural = head.map((_, column) =>
    [...titles, ...cells].reduce((widest, row) => Math.max(widest, widthOf(row[column]?.text ?? "")), 0),
  );
  const widths = width === undefined ? natural : narrowed(natural, width - indent);
  return [...titles, ...cells].map((row) => {
    const line = row.map(({ text, paint }, column) => {
      const shown = fitted(text, widths[column] ?? 0);
      const padding = column === row.length - 1 ? 0 : (widths[column] ?? 0) - widthOf(shown);
      return paint(shown) + " ".repeat(Math.max(0, padding));
    });
    return (" ".repeat(indent) + line.join(GAP)).trimEnd();
  });
}

function narrowed(natural: readonly number[], width: number): readonly number[] {
  const widths = [...natural];
  const last = widths.length - 1;
  const excess = () => widths.reduce((sum, each) => sum + each, GAP.length * last) - width;
  const shrink = (column: number, least: number) => {
    const now = widths[column] ?? 0;
    widths[column] = Math.max(Math.min(now, least), now - Math.max(0, excess()));
  };
  shrink(last, NARROWEST_LAST);
  const others = [...widths.keys()].slice(0, -1).sort((a, b) => (widths[b] ?? 0) - (widths[a] ?? 0));
  for (const column of others) shrink(column, 6);
  shrink(last, 1);
  return widths;
}

function textOf(cell: Cell): string {
  return typeof cell === "string" ? cell : cell.text;
}

function paintOf(cell: Cell): (text: string) => string {
  return typeof cell === "string" ? (text) => text : cell.paint;
}
