import type { z } from "zod";
import { QmError } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import { findNearest } from "../core/nearest.ts";
import { formatKeyPath, type KeyPath, PROBLEM_LIMIT, type YamlDocument, type YamlProblem } from "../core/yaml.ts";
import { listFileKeys, mayHoldSecret } from "./file-keys.ts";
import { configSchema } from "./schema.ts";

const LISTED_LIMIT = 20;

/** All problems in the order of the file, one a line: `quartermaster.yaml:4:3 policy.denyed: unknown key`. */
export function invalidConfigError(path: string, problems: readonly YamlProblem[]): QmError {
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

/** The message for zod issues whose schema has none. */
export function describeAllowed(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.code === "invalid_value") return `expected ${issue.values.join(", ")}`;
  if (issue.code !== "invalid_type") return undefined;
  const names: Partial<Record<string, string>> = {
    object: "a mapping",
    record: "a mapping",
    array: "a list",
    boolean: "true or false",
  };
  return `expected ${names[issue.expected] ?? issue.expected}`;
}

/** A zod issue as problems of the file: key, value, what is allowed, and a suggestion. */
export function toConfigProblems(issue: z.core.$ZodIssue, yaml: YamlDocument): readonly YamlProblem[] {
  const path = issue.path as KeyPath;
  if (issue.code === "unrecognized_keys") return toUnknownKeyProblems(issue.keys, path, yaml);
  if (issue.code === "invalid_key") {
    const message = `${formatValue(path.at(-1))} is not allowed; ${issue.issues[0]?.message ?? issue.message}`;
    return [{ key: formatKeyPath(path), message, ...yaml.locateKey(path) }];
  }
  const value = getValue(yaml.value, path);
  // Such an issue is about the contents of the mapping, so "a mapping is not allowed" would be wrong.
  if (issue.code === "custom" && isRecord(value))
    return [{ key: formatKeyPath(path), message: issue.message, ...yaml.locateValue(path) }];
  const message = value === undefined ? `missing; ${issue.message}` : `${describeValue(value, path)}; ${issue.message}`;
  return [{ key: formatKeyPath(path), message: message + suggestValue(issue, value), ...yaml.locateValue(path) }];
}

function toUnknownKeyProblems(keys: readonly string[], path: KeyPath, yaml: YamlDocument): readonly YamlProblem[] {
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
  const isPlain = typeof value === "string" || typeof value === "number" || typeof value === "bigint";
  // The value may be the secret itself, also as a number.
  if (isPlain && mayHoldSecret(configSchema, path)) return "this value is not allowed";
  return value === null ? "empty" : `${formatValue(value)} is not allowed`;
}

function formatValue(value: unknown): string {
  if (typeof value === "string") return quoteName(value);
  if (Array.isArray(value)) return "a list";
  return isRecord(value) ? "a mapping" : String(value);
}
