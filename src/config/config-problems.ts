import type { z } from "zod";
import { QmError } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import { findNearest } from "../core/nearest.ts";
import { listFileKeys } from "./file-keys.ts";
import { configSchema } from "./schema.ts";
import type { YamlDocument } from "./yaml.ts";

/** Where in the file, counted from 1. */
export interface ConfigPosition {
  readonly line: number;
  readonly column: number;
}

/** One thing that is wrong with a configuration. */
export interface ConfigProblem extends ConfigPosition {
  /** `policy.rules[0].effect`; empty for the file as a whole. */
  readonly key: string;
  readonly message: string;
}

export type KeyPath = readonly (string | number)[];

/** A path as a person writes it: `policy.rules[0].effect`. */
export function formatKeyPath(path: KeyPath): string {
  return path
    .map((segment, index) => (typeof segment === "number" ? `[${segment}]` : formatSegment(segment, index)))
    .join("");
}

function formatSegment(segment: string, index: number): string {
  const shown = /^[\w-]{1,80}$/.test(segment) ? segment : quoteName(segment);
  return index === 0 ? shown : `.${shown}`;
}

/** No one reads on after so many, and finding the place of each costs time. */
export const PROBLEM_LIMIT = 100;

const LISTED_LIMIT = 20;

/** All problems in one `invalid_config`, in the order of the file: `quartermaster.yaml:4:3 policy.denyed: unknown key`. */
export function invalidConfigError(path: string, problems: readonly ConfigProblem[]): QmError {
  const sorted = problems.toSorted((a, b) => a.line - b.line || a.column - b.column).slice(0, PROBLEM_LIMIT);
  const lines = sorted
    .slice(0, LISTED_LIMIT)
    .map(({ line, column, key, message }) => `${path}:${line}:${column} ${key === "" ? "" : `${key}: `}${message}`);
  const ending = sorted.length > LISTED_LIMIT ? ["and more"] : [];
  return new QmError("invalid_config", [...lines, ...ending].join("\n"), {
    hint: "node_modules/quartermaster/docs/config.md has every key with its type, default and meaning.",
    details: { path, problems: sorted.map((problem) => ({ ...problem })) },
  });
}

/** What is allowed, for the kinds of value whose schema does not say it itself. Passed to zod beside the value. */
export function describeAllowed(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.code === "invalid_value") return `expected ${issue.values.join(", ")}`;
  if (issue.code !== "invalid_type") return undefined;
  switch (issue.expected) {
    case "object":
    case "record":
      return "expected a mapping";
    case "array":
      return "expected a list";
    case "boolean":
      return "expected true or false";
    default:
      return `expected ${issue.expected}`;
  }
}

/** A schema's complaint as problems of the file: key, value, what is allowed, and what was probably meant. */
export function toConfigProblems(issue: z.core.$ZodIssue, yaml: YamlDocument): readonly ConfigProblem[] {
  const path = issue.path as KeyPath;
  if (issue.code === "unrecognized_keys") return toUnknownKeyProblems(issue.keys, path, yaml);
  if (issue.code === "invalid_key") {
    const allowed = issue.issues[0]?.message ?? issue.message;
    return [
      {
        key: formatKeyPath(path),
        message: `${formatValue(path.at(-1))} is not allowed; ${allowed}`,
        ...yaml.locateKey(path),
      },
    ];
  }
  const value = getValue(yaml.value, path);
  // What is wrong with a mapping as a whole is not that it is one.
  if (issue.code === "custom" && isRecord(value))
    return [{ key: formatKeyPath(path), message: issue.message, ...yaml.locateValue(path) }];
  const message = value === undefined ? `missing; ${issue.message}` : `${describeValue(value, path)}; ${issue.message}`;
  return [{ key: formatKeyPath(path), message: message + suggestValue(issue, value), ...yaml.locateValue(path) }];
}

function toUnknownKeyProblems(keys: readonly string[], path: KeyPath, yaml: YamlDocument): readonly ConfigProblem[] {
  const known = listFileKeys(configSchema, path);
  return keys.slice(0, PROBLEM_LIMIT).map((key) => {
    const near = findNearest(key, known);
    const advice = near === undefined ? `known here: ${known.join(", ")}` : `did you mean ${near}?`;
    const at = [...path, key];
    return { key: formatKeyPath(at), message: `unknown key; ${advice}`, ...yaml.locateKey(at) };
  });
}

function suggestValue(issue: z.core.$ZodIssue, value: unknown): string {
  if (issue.code !== "invalid_value" || typeof value !== "string") return "";
  const near = findNearest(value, issue.values.map(String));
  return near === undefined ? "" : `; did you mean ${near}?`;
}

function getValue(root: unknown, path: KeyPath): unknown {
  let value = root;
  for (const segment of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, segment)) return undefined;
    value = (value as Record<string | number, unknown>)[segment];
  }
  return value;
}

function describeValue(value: unknown, path: KeyPath): string {
  // What stands there may be the secret itself.
  const isSecret = path[0] === "secrets" || path.at(-1) === "api_key";
  if (isSecret && typeof value === "string") return "this text is not allowed";
  return value === null ? "empty" : `${formatValue(value)} is not allowed`;
}

function formatValue(value: unknown): string {
  if (typeof value === "string") return quoteName(value);
  if (Array.isArray(value)) return "a list";
  return isRecord(value) ? "a mapping" : String(value);
}
