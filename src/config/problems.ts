import { QmError } from "../core/errors.ts";
import { quoted } from "../core/names.ts";

/** Where in the file, counted from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** One thing that is wrong with a configuration. */
export interface ConfigProblem extends Position {
  /** `policy.rules[0].effect`; empty for the file as a whole. */
  readonly key: string;
  readonly message: string;
}

export type KeyPath = readonly (string | number)[];

/** A path as a person writes it: `policy.rules[0].effect`. */
export function keyText(path: KeyPath): string {
  return path.map((segment, index) => (typeof segment === "number" ? `[${segment}]` : dotted(segment, index))).join("");
}

function dotted(segment: string, index: number): string {
  const shown = /^[\w-]{1,80}$/.test(segment) ? segment : quoted(segment);
  return index === 0 ? shown : `.${shown}`;
}

/** No one reads on after so many, and finding the place of each costs time. */
export const PROBLEM_LIMIT = 100;

const SHOWN_LIMIT = 20;

/** All problems in one `invalid_config`, in the order of the file: `quartermaster.yaml:4:3 policy.denyed: unknown key`. */
export function invalidConfig(path: string, problems: readonly ConfigProblem[]): QmError {
  const sorted = problems.toSorted((a, b) => a.line - b.line || a.column - b.column).slice(0, PROBLEM_LIMIT);
  const lines = sorted
    .slice(0, SHOWN_LIMIT)
    .map(({ line, column, key, message }) => `${path}:${line}:${column} ${key === "" ? "" : `${key}: `}${message}`);
  const ending = sorted.length > SHOWN_LIMIT ? ["and more"] : [];
  return new QmError("invalid_config", [...lines, ...ending].join("\n"), {
    hint: "node_modules/quartermaster/docs/config.md has every key with its type, default and meaning.",
    details: { path, problems: sorted.map((problem) => ({ ...problem })) },
  });
}
