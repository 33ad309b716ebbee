import { createHash } from "node:crypto";
import { dirname } from "node:path";
import { getErrorMessage } from "../core/errors.ts";
import { compileCondition, ROUTE_VARIABLES } from "../core/expression.ts";
import { cloneFrozen, getOwn, isRecord } from "../core/json.ts";
import {
  formatKeyPath,
  type KeyPath,
  PROBLEM_LIMIT,
  readYaml,
  type YamlDocument,
  type YamlProblem,
} from "../core/yaml.ts";
import { applyActionRetrieval, findRetrievalConflicts } from "./action-retrieval.ts";
import { describeAllowed, invalidConfigError, toConfigProblems } from "./config-problems.ts";
import { parseFileValue } from "./file-keys.ts";
import { describeMissing, type Environment, listVariables, SECRET_PREFIX } from "./references.ts";
import { type Config, configSchema } from "./schema.ts";

export interface ParseConfigOptions {
  /** Checks references now. Absent, and always for secrets, models, servers, peers and tokens: where they are used. */
  readonly env?: Environment;
  /** Compiles a rule's expression, or throws `invalid_expression`. Absent: expressions are not checked. */
  readonly compileExpression?: (text: string) => unknown;
}

export type ConfigReference = { readonly key: string; readonly variable: string };

export interface LoadedConfig {
  /** Frozen. */
  readonly config: Config;
  /** The file it came from. Absent: there is none, everything is a default. */
  readonly path?: string;
  /** The folder that relative paths in the configuration start from. */
  readonly folder: string;
  readonly references: readonly ConfigReference[];
  /** Whether the document has no content: nothing at all, only comments, or null. */
  readonly isEmpty: boolean;
  /** Equal for equal bytes. */
  readonly fingerprint: string;
}

/** A configuration from the bytes of its file. `path` is for messages and the folder. Throws `invalid_config`. */
export function parseConfig(
  bytes: Uint8Array,
  path: string,
  options: ParseConfigOptions = {},
): LoadedConfig & { readonly path: string } {
  const yaml = readYaml(bytes);
  if (yaml.problems.length > 0) throw invalidConfigError(path, yaml.problems);
  const parsed = parseFileValue(configSchema, applyActionRetrieval(yaml.value ?? {}), describeAllowed);
  const issues = parsed.success ? [] : parsed.issues.slice(0, PROBLEM_LIMIT);
  const references = findReferences(yaml.value, []);
  const problems = [
    ...issues.flatMap((issue) => toConfigProblems(issue, yaml)),
    ...findSemanticProblems(yaml, options.compileExpression),
    ...(options.env === undefined ? [] : findMissingVariables(references, yaml, options.env)),
  ];
  if (!parsed.success || problems.length > 0) throw invalidConfigError(path, problems);
  return {
    config: cloneFrozen(parsed.data) as Config,
    path,
    folder: dirname(path),
    references: references.map(({ at, variable }) => ({ key: formatKeyPath(at), variable })),
    isEmpty: yaml.value === undefined || yaml.value === null,
    fingerprint: hashConfig(bytes),
  };
}

export const hashConfig = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** Problems the schema cannot see. Reads the raw values, so that they are reported together with those of the schema. */
function findSemanticProblems(yaml: YamlDocument, compile: ParseConfigOptions["compileExpression"]) {
  const problems: YamlProblem[] = [];
  const report = (at: KeyPath, message: string) =>
    problems.push({ key: formatKeyPath(at), message, ...yaml.locateValue(at) });
  const tryCompile = (text: unknown, at: KeyPath, compileText = compile) => {
    if (typeof text !== "string" || text === "") return;
    try {
      compileText?.(text);
    } catch (thrown) {
      report(at, getErrorMessage(thrown));
    }
  };

  const { policy, approvals, routing } = toRecord(yaml.value);
  const names = new Set<unknown>();
  for (const [index, { name, rule }] of toRecords(toRecord(policy).rules)) {
    if (typeof name === "string" && names.has(name))
      report(["policy", "rules", index, "name"], "another rule has this name");
    names.add(name);
    tryCompile(rule, ["policy", "rules", index, "rule"]);
  }
  for (const [category, rule] of Object.entries(toRecord(toRecord(approvals).categories)))
    tryCompile(toRecord(rule).auto_approve_if, ["approvals", "categories", category, "auto_approve_if"]);
  for (const [index, { when }] of toRecords(toRecord(routing).rules))
    tryCompile(when, ["routing", "rules", index, "when"], (text) => compileCondition(text, ROUTE_VARIABLES));
  for (const { at, message } of findRetrievalConflicts(yaml.value)) report(at, message);
  return problems;
}

const toRecord = (value: unknown): Readonly<Record<string, unknown>> => (isRecord(value) ? value : {});
const toRecords = (value: unknown): readonly (readonly [number, Readonly<Record<string, unknown>>])[] =>
  Array.isArray(value) ? value.map((item, index) => [index, toRecord(item)] as const) : [];

// An unset secret cannot leak, and a model, server, peer, client or person without a key stops only that one, not the policy.
const NEEDED_LATER: ReadonlySet<unknown> = new Set([
  "secrets",
  "models",
  "servers",
  "peers",
  "gateway",
  "a2a",
  "approvals",
]);
type FoundReference = { readonly at: KeyPath; readonly variable: string };

function findReferences(value: unknown, at: KeyPath): readonly FoundReference[] {
  if (typeof value === "string") return listVariables(value).map((variable) => ({ at, variable }));
  if (Array.isArray(value)) return value.flatMap((item, index) => findReferences(item, [...at, index]));
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([key, part]) => findReferences(part, [...at, key]));
}

function findMissingVariables(references: readonly FoundReference[], yaml: YamlDocument, env: Environment) {
  const isMissing = ({ at, variable }: FoundReference) =>
    !getOwn(env, variable) && !NEEDED_LATER.has(at[0]) && !variable.startsWith(SECRET_PREFIX);
  return references
    .filter(isMissing)
    .slice(0, PROBLEM_LIMIT)
    .map(({ at, variable }) => {
      return { key: formatKeyPath(at), message: describeMissing(variable), ...yaml.locateValue(at) };
    });
}
