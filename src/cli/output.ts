import { escapeUnsafe, quoteShellWord, toOneLine, toVisibleJson } from "../core/display-text.ts";
import type { ErrorCode, Problem } from "../core/errors.ts";
import { FIT_HINT } from "../core/hint.ts";
import { getOwn, isRecord } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Io } from "./context.ts";
import { fitToWidth, measureWidth, safeJson } from "./terminal-text.ts";

type Paint = (text: string) => string;

/** The output of a command. Data goes to stdout, everything about it to stderr. */
export interface CommandOutput extends Readonly<Record<"bold" | "dim" | "good" | "warn" | "bad", Paint>> {
  readonly isJson: boolean;
  /** The width of the terminal. Undefined: stdout is not a terminal, lines may have any length. */
  readonly width: number | undefined;
  /** Lines on stdout, without any an empty one. The caller escapes unsafe characters in them. */
  line(...lines: readonly string[]): void;
  /** The whole answer, or one object of a stream, as one line. */
  json(value: unknown): void;
  /** The whole answer: `value` with --json, otherwise the text. */
  answer(value: unknown, text: string): void;
  /** The result of an action: text unchanged (escaped on a terminal), anything else as JSON. */
  result(data: unknown): void;
  table(head: readonly string[], rows: TableRows, options?: TableOptions): void;
  note(text: string): void;
  /** An error: text on stderr, or `{error}` on stdout with --json. */
  problem(problem: Problem): void;
}

type Streams = Pick<Io, "stdout" | "stderr" | "env">;

export function createOutput({ stdout, stderr, env }: Streams, isJson: boolean, color: boolean): CommandOutput {
  const isColored = !isJson && canUseColor(stdout.isTTY, env, color);
  const paint = (code: number): Paint =>
    isColored ? (text) => (text === "" ? "" : `\u001B[${code}m${text}\u001B[0m`) : (text) => text;
  const line = (...lines: readonly string[]) => stdout.write(`${lines.join("\n")}\n`);
  const json = (value: unknown) => line(safeJson(value));
  const bold = paint(1);
  const width = stdout.isTTY ? (stdout.columns ?? 80) : undefined;
  return {
    isJson,
    width,
    line,
    json,
    answer: (value, text) => (isJson ? json(value) : line(text)),
    result(data) {
      if (typeof data !== "string") return line(safeJson(data, 2));
      if (stdout.isTTY) return line(escapeUnsafe(data).replace(/\n$/, ""));
      stdout.write(data);
    },
    table(head, rows, options) {
      for (const text of formatTable(head, rows, { ...options, width, paintHead: bold })) line(text);
    },
    note: (text) => stderr.write(`${text}\n`),
    problem(problem) {
      if (isJson) return json({ error: problem });
      for (const text of formatCliProblem(problem)) stderr.write(`${text}\n`);
    },
    bold,
    dim: paint(2),
    good: paint(32),
    warn: paint(33),
    bad: paint(31),
  };
}

/** https://no-color.org and https://force-color.org: set and not empty. `--no-color` comes first. */
function canUseColor(isTTY: boolean, env: Io["env"], color: boolean): boolean {
  if (!color || env.NO_COLOR) return false;
  if (env.FORCE_COLOR) return env.FORCE_COLOR !== "0";
  return isTTY && env.TERM !== "dumb";
}

/** The lines of an error for a person: what is wrong, why, and what to type next. */
function formatCliProblem(problem: Problem): readonly string[] {
  const { reason, would_run, suggestions, valid, pending } = problem;
  const details = [
    ...(typeof reason === "string" ? [reason] : []),
    ...formatNames("Did you mean", suggestions),
    ...formatNames("Valid", valid),
    ...(Array.isArray(pending) ? [formatPendingServers(pending)] : []),
    ...(typeof would_run === "string" ? [`What it would do: ${would_run}`] : []),
    ...formatExample(problem),
    ...suggestNextStep(problem),
  ];
  const indented = details.map((line) => `    ${escapeUnsafe(line).replaceAll("\n", "\n    ")}`);
  return [`qm: ${escapeUnsafe(problem.error)}`, ...indented];
}

function formatNames(label: string, names: unknown): readonly string[] {
  return Array.isArray(names) && names.length > 0 ? [`${label}: ${names.join(", ")}`] : [];
}

/** The servers whose tools are not known yet, and the command that asks them. */
export const formatPendingServers = (names: readonly string[]): string =>
  `Not known yet: the tools of ${names.join(", ")}. Run \`qm servers start ${names.join(" ")}\` to ask for them.`;

/** Whether the hint is not the general one, which names parts of the answer that a terminal does not show. */
const hasOwnAdvice = ({ hint }: Problem): boolean => hint !== undefined && hint !== FIT_HINT;

function formatExample({ action, example }: Problem): readonly string[] {
  if (!isRecord(example)) return [];
  const command = typeof action === "string" ? `qm invoke ${quoteShellWord(action)} ` : "";
  return [`For example: ${command}${quoteShellWord(safeJson(example))}`];
}

/** The hints of some codes tell a model which tool to call. At a terminal the next step is a command. */
function suggestNextStep(problem: Problem): readonly string[] {
  const { code, hint, action, call_id, renamed, listed_by } = problem;
  const name = typeof action === "string" ? quoteShellWord(action) : "<action>";
  const isNamed = typeof action === "string";
  // The ledger also has rules about arguments, which `qm explain` cannot judge.
  const audit =
    typeof call_id === "string" ? `events --call ${quoteShellWord(call_id)}` : isNamed ? `explain ${name}` : undefined;
  const steps: { readonly [Code in ErrorCode]?: string | undefined } = {
    unknown_action:
      typeof listed_by === "string"
        ? `\`${listed_by}\` shows the names.`
        : "`qm list` shows the names; `qm explain <action>` shows why one is hidden.",
    unknown_category: isRecord(renamed) ? hint : "`qm list` without a category shows everything.",
    invalid_arguments: isNamed
      ? `${hasOwnAdvice(problem) ? `${hint} ` : ""}\`qm describe ${name}\` shows every argument.`
      : undefined,
    denied: audit === undefined ? undefined : `It was not run. \`qm ${audit}\` shows which rule denied it.`,
    budget_exceeded:
      "It was not run. Raise the budget under policy.budgets or actors.<name>.budgets, or use another --session.",
    quota_exceeded: "`qm notes list` shows the notes, `qm notes rm` removes some; infospace.quota sets the limit.",
  };
  const step = getOwn(steps, code) ?? hint;
  return step === undefined ? [] : [step];
}

const GAP = "  ";

/** A cell may have a colour, which is applied after the width is known. */
export type TableCell = string | { readonly text: string; readonly paint: Paint };
type TableRows = readonly (readonly TableCell[])[];
interface TableOptions {
  /** The columns that identify a row, which are never cut. Default: the first. */
  readonly whole?: readonly number[];
  readonly indent?: number;
}
type TableLayout = TableOptions & { readonly width?: number | undefined; readonly paintHead?: Paint };
type PaintedText = { readonly text: string; readonly paint: Paint };

/**
 * The lines of a table no wider than `width`. The last column shrinks first, then the others from the widest on. A cell of a
 * `whole` column that does not fit is followed by a line break, and only such a cell can be wider than the terminal. Unsafe
 * characters in cells are escaped.
 */
export function formatTable(head: readonly string[], rows: TableRows, layout: TableLayout = {}): readonly string[] {
  const { width, indent = 0, whole = [0], paintHead = (text) => text } = layout;
  const toCell = (cell: TableCell): PaintedText =>
    typeof cell === "string"
      ? { paint: (text: string) => text, text: toOneLine(cell) }
      : { ...cell, text: toOneLine(cell.text) };
  const cells = rows.map((row) => row.map(toCell));
  const titles = head.some((title) => title !== "") ? [head.map((text) => ({ paint: paintHead, text }))] : [];
  const natural = head.map((_, column) =>
    [...titles, ...cells].reduce((widest, row) => Math.max(widest, measureWidth(row[column]?.text ?? "")), 0),
  );
  const widths = width === undefined ? natural : fitColumns(natural, width - indent, whole);
  const starts = widths.map((_, column) =>
    widths.slice(0, column).reduce((sum, each) => sum + each + GAP.length, indent),
  );
  const formatRow = (row: readonly PaintedText[], uncut: readonly number[]) => {
    const fitted = row.map(({ text, paint }, column) => {
      const shown = uncut.includes(column) ? text : fitToWidth(text, widths[column] ?? 0);
      return { start: starts[column] ?? 0, size: measureWidth(shown), text: paint(shown) };
    });
    return placeCells(fitted, width ?? Number.POSITIVE_INFINITY);
  };
  return [...titles.flatMap((row) => formatRow(row, [])), ...cells.flatMap((row) => formatRow(row, whole))];
}

type PlacedCell = { readonly start: number; readonly size: number; readonly text: string };

/** The lines of one row. A new line begins where the column has already been passed, or the cell would leave the terminal. */
function placeCells(cells: readonly PlacedCell[], width: number): readonly string[] {
  const lines: string[] = [];
  let line = "";
  let used = 0;
  for (const { start, size, text } of cells) {
    if (size === 0) continue;
    const at = Math.max(0, Math.min(start, width - size));
    if (used > 0 && used + GAP.length > at) {
      lines.push(line);
      line = "";
      used = 0;
    }
    line += " ".repeat(at - used) + text;
    used = at + size;
  }
  return [...lines, line];
}

/** Shrinks columns until they fit, in steps: a long name leaves some room to what is said about it. */
function fitColumns(natural: readonly number[], width: number, whole: readonly number[]): readonly number[] {
  const widths = [...natural];
  const last = widths.length - 1;
  const excess = () => widths.reduce((sum, each) => sum + each, GAP.length * last) - width;
  const shrink = (columns: readonly number[], least: number) => {
    for (const column of columns.toSorted((a, b) => (widths[b] ?? 0) - (widths[a] ?? 0))) {
      const now = widths[column] ?? 0;
      widths[column] = Math.max(Math.min(now, least), now - Math.max(0, excess()));
    }
  };
  const others = [...widths.keys()].slice(0, -1);
  const cut = others.filter((column) => !whole.includes(column));
  const kept = others.filter((column) => whole.includes(column));
  shrink([last], 24);
  shrink(cut, 10);
  shrink(kept, 32);
  shrink([last], 12);
  // Room for short facts, such as a time or a state.
  shrink(cut, 8);
  shrink(kept, 10);
  shrink(cut, 6);
  shrink(kept, 6);
  shrink([last], 1);
  return widths;
}

export function printOutcomeProblem(out: CommandOutput, outcome: Exclude<Outcome, { readonly status: "done" }>) {
  if (outcome.status !== "waiting") return out.problem({ ...outcome.error });
  const { status, action, reason, approval, progress } = outcome;
  if (out.isJson) return out.json({ status, action, approval });
  const { id, inner, level, expiresAt, preview } = approval;
  const what =
    inner === undefined ? "not run yet: it waits for approval" : `not finished: ${toOneLine(inner)} waits for approval`;
  out.note(`qm: ${what}. ${escapeUnsafe(reason)} Level ${escapeUnsafe(level)}, until ${expiresAt}.`);
  if (preview !== undefined) out.note(`    What it would do: ${escapeUnsafe(preview).replaceAll("\n", "\n    ")}`);
  out.note(`    Run \`qm approvals approve ${id}\` to allow it, or \`qm approvals deny ${id}\` to refuse.`);
  if (inner !== undefined) printContinuation(out, id, isRecord(progress) ? progress : {});
}

const SHOWN_APPROVALS = 20;

/** How a call continues that waits for calls inside it. `id`: the approval that is printed already. */
function printContinuation(out: CommandOutput, id: string, { waiting_items, continue_with }: Record<string, unknown>) {
  const others = Object.values(isRecord(waiting_items) ? waiting_items : {}).filter((each) => each !== id);
  const shown = others.slice(0, SHOWN_APPROVALS).map((each) => toOneLine(String(each)));
  if (shown.length > 0) out.note(`    These wait, too: ${shown.join(", ")}.`);
  if (others.length > shown.length) out.note("    Run `qm approvals list` for the rest.");
  if (continue_with === undefined) out.note("    Then repeat this call. It continues with the result.");
  else out.note(`    Then repeat this call with these arguments added: ${toVisibleJson(continue_with)}`);
}
