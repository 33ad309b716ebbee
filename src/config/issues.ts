import type { z } from "zod";
import { isRecord } from "../core/json.ts";
import { quoted } from "../core/names.ts";
import { nearest } from "../core/nearest.ts";
import { keysAt } from "./json-schema.ts";
import { type ConfigProblem, type KeyPath, keyText, PROBLEM_LIMIT } from "./problems.ts";
import type { YamlReading } from "./yaml.ts";

/** What is allowed, for the kinds of value whose schema does not say it itself. Passed to zod beside the value. */
export function allowedText(issue: z.core.$ZodRawIssue): string | undefined {
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
export function problemsOf(issue: z.core.$ZodIssue, yaml: YamlReading): readonly ConfigProblem[] {
  const path = issue.path as KeyPath;
  if (issue.code === "unrecognized_keys") return unknownKeys(issue.keys, path, yaml);
  if (issue.code === "invalid_key") {
    const allowed = issue.issues[0]?.message ?? issue.message;
    return [{ key: keyText(path), message: `${shown(path.at(-1))} is not allowed; ${allowed}`, ...yaml.keyAt(path) }];
  }
  const value = valueAt(yaml.value, path);
  // What is wrong with a mapping as a whole is not that it is one.
  if (issue.code === "custom" && isRecord(value))
    return [{ key: keyText(path), message: issue.message, ...yaml.valueAt(path) }];
  const message = value === undefined ? `missing; ${issue.message}` : `${said(value, path)}; ${issue.message}`;
  return [{ key: keyText(path), message: message + meant(issue, value), ...yaml.valueAt(path) }];
}

function unknownKeys(keys: readonly string[], path: KeyPath, yaml: YamlReading): readonly ConfigProblem[] {
  const known = keysAt(path);
  return keys.slice(0, PROBLEM_LIMIT).map((key) => {
    const near = nearest(key, known);
    const advice = near === undefined ? `known here: ${known.join(", ")}` : `did you mean ${near}?`;
    const at = [...path, key];
    return { key: keyText(at), message: `unknown key; ${advice}`, ...yaml.keyAt(at) };
  });
}

function meant(issue: z.core.$ZodIssue, value: unknown): string {
  if (issue.code !== "invalid_value" || typeof value !== "string") return "";
  const near = nearest(value, issue.values.map(String));
  return near === undefined ? "" : `; did you mean ${near}?`;
}

function valueAt(root: unknown, path: KeyPath): unknown {
  let value = root;
  for (const segment of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, segment)) return undefined;
    value = (value as Record<string | number, unknown>)[segment];
  }
  return value;
}

function said(value: unknown, path: KeyPath): string {
  // What stands there may be the secret itself.
  const isSecret = path[0] === "secrets" || path.at(-1) === "api_key";
  if (isSecret && typeof value === "string") return "this text is not allowed";
  return value === null ? "empty" : `${shown(value)} is not allowed`;
}

function shown(value: unknown): string {
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return "a list";
  return isRecord(value) ? "a mapping" : String(value);
}
