import type { Problem } from "../core/errors.ts";
import type { Io, TextOut } from "./io.ts";
import { problemLines } from "./problem.ts";
import { type Cell, tableLines } from "./table.ts";
import { plain, safeJson } from "./text.ts";

export interface OutputOptions {
  /** One JSON document on stdout instead of words. */
  readonly json: boolean;
  /** False: `--no-color`. */
  readonly color: boolean;
}

type Paint = (text: string) => string;

/** What a command says. Data goes to stdout, everything about it to stderr. */
export interface Output {
  readonly isJson: boolean;
  /** The width of the terminal. Absent: stdout is not one, lines may be of any length. */
  readonly width: number | undefined;
  /** A line for a person, on stdout. Whoever makes it neutralises the data in it. */
  line(text?: string): void;
  /** The whole answer, or one object of a stream, as one line. */
  json(value: unknown): void;
  /** A result as the action gave it: text as it is, unless a terminal would act on it, else JSON. */
  result(data: unknown): void;
  table(head: readonly string[], rows: readonly (readonly Cell[])[], indent?: number): void;
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
  const isColored = !options.json && wantsColor(stdout, env, options.color);
  const paint = (code: number): Paint =>
    isColored ? (text) => (text === "" ? "" : `\u001B[${code}m${text}\u001B[0m`) : (text) => text;
  const line = (text = "") => stdout.write(`${text}\n`);
  const bold = paint(1);
  const width = stdout.isTTY ? (stdout.columns ?? 80) : undefined;

  const output: Output = {
    isJson: options.json,
    width,
    line,
    json: (value) => line(safeJson(value)),
    result(data) {
      if (typeof data !== "string") return line(safeJson(data, 2));
      if (stdout.isTTY) return line(plain(data).replace(/\n$/, ""));
      stdout.write(data);
    },
    table: (head, rows, indent = 0) => tableLines(head, rows, { width, indent, paintHead: bold }).forEach(line),
    note: (text) => stderr.write(`${text}\n`),
    problem(problem) {
      if (options.json) return line(safeJson({ error: problem }));
      for (const text of problemLines(problem)) stderr.write(`${text}\n`);
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
function wantsColor({ isTTY }: TextOut, env: Io["env"], color: boolean): boolean {
  if (!color || env.NO_COLOR) return false;
  if (env.FORCE_COLOR) return env.FORCE_COLOR !== "0";
  return isTTY && env.TERM !== "dumb";
}
