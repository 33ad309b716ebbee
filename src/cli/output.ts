import type { Problem } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";
import type { Io, TextStream } from "./context.ts";
import { escapeUnsafe, fitToWidth, measureWidth, quoteShellWord, safeJson, toOneLine } from "./terminal-text.ts";

/** An error as a person at a terminal reads it: what is wrong, why, and what to type next. */
function formatCliProblem(problem: Problem): readonly string[] {
  const details = [
    ...(typeof problem.reason === "string" ? [problem.reason] : []),
    ...formatNames("Did you mean", problem.suggestions),
    ...formatNames("Valid", problem.valid),
    ...(typeof problem.would_run === "string" ? [`What it would do: ${problem.would_run}`] : []),
    ...formatExample(problem),
    ...suggestNextStep(problem),
  ];
  return [
    `qm: ${escapeUnsafe(problem.error)}`,
    ...details.map((line) => `    ${escapeUnsafe(line).replaceAll("\n", "\n    ")}`),
  ];
}

function formatNames(what: string, names: unknown): readonly string[] {
  return Array.isArray(names) && names.length > 0 ? [`${what}: ${names.join(", ")}`] : [];
}

function formatExample({ action, example: args }: Problem): readonly string[] {
  if (!isRecord(args)) return [];
  const call = quoteShellWord(safeJson(args));
  return [
    typeof action === "string" ? `For example: qm invoke ${quoteShellWord(action)} ${call}` : `For example: ${call}`,
  ];
}

/** The hints of these speak to a model about its tools; at a terminal the same is a command. */
function suggestNextStep({ code, hint, action, call_id }: Problem): readonly string[] {
  const name = typeof action === "string" ? quoteShellWord(action) : "<action>";
  // The ledger knows also of rules about arguments, which an explanation cannot judge.
  const why = typeof call_id === "string" ? `qm events --call ${quoteShellWord(call_id)}` : `qm explain ${name}`;
  // What refuses something else than a call has a hint of its own.
  const isCall = typeof action === "string" || typeof call_id === "string";
  switch (code) {
    case "unknown_action":
      return ["`qm list` shows the names; `qm explain <action>` shows why one is hidden."];
    case "unknown_category":
      return ["`qm list` without a category shows everything."];
    case "invalid_arguments":
      return typeof action === "string" ? [`\`qm describe ${name}\` shows every argument.`] : toHintLines(hint);
    case "denied":
      if (!isCall) return toHintLines(hint);
      return [`It was not run. \`${why}\` shows which rule says so.`];
    case "budget_exceeded":
      return ["It was not run. Raise policy.budgets, or use another --session."];
    case "quota_exceeded":
      return [
        "`qm notes list` shows what is kept, `qm notes rm` removes it; infospace.quota says how much may be kept.",
      ];
    default:
      return toHintLines(hint);
  }
}

function toHintLines(hint: string | undefined): readonly string[] {
  return hint === undefined ? [] : [hint];
}

const GAP = "  ";
const NARROWEST_LAST = 12;

/** A cell is plain data, or data with a colour that is put on after the width is known. */
export type TableCell = string | { readonly text: string; readonly paint: (text: string) => string };

interface TableOptions {
  /** Absent: as wide as it gets. */
  readonly width?: number | undefined;
  readonly indent?: number;
  readonly paintHead?: (text: string) => string;
}

/**
 * Lines of a table no wider than the terminal: the last column gives way first, then the others from the widest on.
 * Cells may hold anything; what a terminal would act on is neutralised.
 */
export function formatTable(
  head: readonly string[],
  rows: readonly (readonly TableCell[])[],
  options: TableOptions = {},
) {
  const { width, indent = 0, paintHead = (text) => text } = options;
  const cells = rows.map((row) =>
    row.map((cell) => ({ paint: getCellPaint(cell), text: toOneLine(getCellText(cell)) })),
  );
  const titles = head.some((title) => title !== "") ? [head.map((text) => ({ paint: paintHead, text }))] : [];
  const natural = head.map((_, column) =>
    [...titles, ...cells].reduce((widest, row) => Math.max(widest, measureWidth(row[column]?.text ?? "")), 0),
  );
  const widths = width === undefined ? natural : fitColumns(natural, width - indent);
  return [...titles, ...cells].map((row) => {
    const line = row.map(({ text, paint }, column) => {
      const shown = fitToWidth(text, widths[column] ?? 0);
      const padding = column === row.length - 1 ? 0 : (widths[column] ?? 0) - measureWidth(shown);
      return paint(shown) + " ".repeat(Math.max(0, padding));
    });
    return (" ".repeat(indent) + line.join(GAP)).trimEnd();
  });
}

function fitColumns(natural: readonly number[], width: number): readonly number[] {
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

function getCellText(cell: TableCell): string {
  return typeof cell === "string" ? cell : cell.text;
}

function getCellPaint(cell: TableCell): (text: string) => string {
  return typeof cell === "string" ? (text) => text : cell.paint;
}

interface OutputOptions {
  /** One JSON document on stdout instead of words. */
  readonly json: boolean;
  /** False: `--no-color`. */
  readonly color: boolean;
}

type Paint = (text: string) => string;

/** What a command says. Data goes to stdout, everything about it to stderr. */
export interface CommandOutput {
  readonly isJson: boolean;
  /** The width of the terminal. Absent: stdout is not one, lines may be of any length. */
  readonly width: number | undefined;
  /** A line for a person, on stdout. Whoever makes it neutralises the data in it. */
  line(text?: string): void;
  /** The whole answer, or one object of a stream, as one line. */
  json(value: unknown): void;
  /** A result as the action gave it: text as it is, unless a terminal would act on it, else JSON. */
  result(data: unknown): void;
  table(head: readonly string[], rows: readonly (readonly TableCell[])[], indent?: number): void;
  /** A line beside the answer, on stderr. */
  note(text: string): void;
  /** What went wrong: words on stderr, or `{error}` on stdout. */
  problem(problem: Problem): void;
  readonly bold: Paint;
  readonly dim: Paint;
  readonly good: Paint;
  readonly warn: Paint;
  readonly bad: Paint;
}

export function createOutput({ stdout, stderr, env }: Pick<Io, "stdout" | "stderr" | "env">, options: OutputOptions) {
  const isColored = !options.json && canUseColor(stdout, env, options.color);
  const paint = (code: number): Paint =>
    isColored ? (text) => (text === "" ? "" : `\u001B[${code}m${text}\u001B[0m`) : (text) => text;
  const line = (text = "") => stdout.write(`${text}\n`);
  const bold = paint(1);
  const width = stdout.isTTY ? (stdout.columns ?? 80) : undefined;

  const output: CommandOutput = {
    isJson: options.json,
    width,
    line,
    json: (value) => line(safeJson(value)),
    result(data) {
      if (typeof data !== "string") return line(safeJson(data, 2));
      if (stdout.isTTY) return line(escapeUnsafe(data).replace(/\n$/, ""));
      stdout.write(data);
    },
    table: (head, rows, indent = 0) => formatTable(head, rows, { width, indent, paintHead: bold }).forEach(line),
    note: (text) => stderr.write(`${text}\n`),
    problem(problem) {
      if (options.json) return line(safeJson({ error: problem }));
      for (const text of formatCliProblem(problem)) stderr.write(`${text}\n`);
    },
    bold,
    dim: paint(2),
    good: paint(32),
    warn: paint(33),
    bad: paint(31),
  };
  return output;
}

/** https://no-color.org and https://force-color.org: set and not empty. What the user typed comes first. */
function canUseColor({ isTTY }: TextStream, env: Io["env"], color: boolean): boolean {
  if (!color || env.NO_COLOR) return false;
  if (env.FORCE_COLOR) return env.FORCE_COLOR !== "0";
  return isTTY && env.TERM !== "dumb";
}

/** Why there is no result, or not yet. */
export function printOutcomeProblem(out: CommandOutput, outcome: Exclude<Outcome, { readonly status: "done" }>): void {
  if (outcome.status !== "waiting") out.problem({ ...outcome.error });
  else if (out.isJson) out.json({ status: outcome.status, action: outcome.action, approval: outcome.approval });
  else for (const line of formatWaiting(outcome)) out.note(line);
}

function formatWaiting({ reason, approval }: Extract<Outcome, { readonly status: "waiting" }>): readonly string[] {
  const { id, level, expiresAt, preview } = approval;
  return [
    `qm: it waits, and was not run. ${escapeUnsafe(reason)} Level ${escapeUnsafe(level)}, until ${expiresAt}.`,
    ...(preview === undefined ? [] : [`    What it would do: ${escapeUnsafe(preview).replaceAll("\n", "\n    ")}`]),
    `    \`qm approvals approve ${id}\` agrees to it, \`qm approvals deny ${id}\` says no.`,
  ];
}
