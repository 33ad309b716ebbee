import { createHash } from "node:crypto";
import { dirname } from "node:path";
import { getErrorMessage } from "../core/errors.ts";
import { compileCondition, ROUTE_VARIABLES } from "../core/expression.ts";
import { cloneFrozen, getOwn, isRecord } from "../core/json.ts";
import {
  type ConfigProblem,
  describeAllowed,
  formatKeyPath,
  invalidConfigError,
  type KeyPath,
  PROBLEM_LIMIT,
  toConfigProblems,
} from "./config-problems.ts";
import { describeMissing, type Environment, listVariables, SECRET_PREFIX } from "./references.ts";
import { type Config, configSchema } from "./schema.ts";
import { readYaml, type YamlDocument } from "./yaml.ts";

export interface ParseConfigOptions {
  /**
   * With it, a reference to a variable that is unset or empty is a problem now, except in `secrets`, and in `servers`,
   * `gateway` and `approvals`, where it keeps one server, client or person from working and nothing else. Stored secrets are looked for where they
   * are used. Absent: only at the point of use.
   */
  readonly env?: Environment;
  /** Compiles a rule's expression, or throws `invalid_expression`. Absent: expressions are taken as they are. */
  readonly compileExpression?: (text: string) => unknown;
}

/** An unfilled `${env:NAME}` in the configuration. */
export interface ConfigReference {
  readonly key: string;
  readonly variable: string;
}

export interface LoadedConfig {
  /** Frozen. */
  readonly config: Config;
  /** The file it came from. Absent: there is none, everything is a default. */
  readonly path?: string;
  /** What the configuration's relative paths are relative to. */
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
  const parsed = configSchema.safeParse(yaml.value ?? {}, { error: describeAllowed });
  const issues = parsed.success ? [] : parsed.error.issues.slice(0, PROBLEM_LIMIT);
  const references = findReferences(yaml.value, []);
  const problems = [
    ...issues.flatMap((issue) => toConfigProblems(issue, yaml)),
    ...findRuleProblems(yaml, options.compileExpression),
    ...findApprovalProblems(yaml, options.compileExpression),
    ...findRoutingProblems(yaml),
    ...(options.env === undefined ? [] : findMissingVariables(references, yaml, options.env)),
  ];
  if (!parsed.success || problems.length > 0) throw invalidConfigError(path, problems);
  return {
    config: cloneFrozen(parsed.data),
    path,
    folder: dirname(path),
    references: references.map(({ at, variable }) => ({ key: formatKeyPath(at), variable })),
    isEmpty: yaml.value === undefined || yaml.value === null,
    fingerprint: hashConfig(bytes),
  };
}

export function hashConfig(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** What the schema cannot see. Looks at the raw rules, so as to be reported beside what the schema finds. */
function findRuleProblems(
  yaml: YamlDocument,
  compile: ParseConfigOptions["compileExpression"],
): readonly ConfigProblem[] {
  const policy = isRecord(yaml.value) ? yaml.value.policy : undefined;
  const rules: readonly unknown[] = isRecord(policy) && Array.isArray(policy.rules) ? policy.rules : [];
  const problems: ConfigProblem[] = [];
  const names = new Set<string>();
  for (const [index, rule] of rules.entries()) {
    if (!isRecord(rule)) continue;
    const report = (key: string, message: string) => {
      const at = ["policy", "rules", index, key];
      problems.push({ key: formatKeyPath(at), message, ...yaml.locateValue(at) });
    };
    if (typeof rule.name === "string") {
      if (names.has(rule.name)) report("name", "another rule has this name");
      names.add(rule.name);
    }
    if (typeof rule.rule === "string" && rule.rule !== "") {
      try {
        compile?.(rule.rule);
      } catch (thrown) {
        report("rule", getErrorMessage(thrown));
      }
    }
  }
  return problems;
}

function findApprovalProblems(
  yaml: YamlDocument,
  compile: ParseConfigOptions["compileExpression"],
): readonly ConfigProblem[] {
  const approvals = isRecord(yaml.value) ? yaml.value.approvals : undefined;
  const categories = isRecord(approvals) && isRecord(approvals.categories) ? approvals.categories : {};
  return Object.entries(categories).flatMap(([category, rule]) => {
    if (!isRecord(rule) || typeof rule.auto_approve_if !== "string") return [];
    try {
      compile?.(rule.auto_approve_if);
      return [];
    } catch (thrown) {
      const at = ["approvals", "categories", category, "auto_approve_if"];
      return [{ key: formatKeyPath(at), message: getErrorMessage(thrown), ...yaml.locateValue(at) }];
    }
  });
}

function findRoutingProblems(yaml: YamlDocument): readonly ConfigProblem[] {
  const routing = isRecord(yaml.value) ? yaml.value.routing : undefined;
  const rules: readonly unknown[] = isRecord(routing) && Array.isArray(routing.rules) ? routing.rules : [];
  return rules.flatMap((rule, index) => {
    if (!isRecord(rule) || typeof rule.when !== "string" || rule.when === "") return [];
    try {
      compileCondition(rule.when, ROUTE_VARIABLES);
      return [];
    } catch (thrown) {
      const at = ["routing", "rules", index, "when"];
      return [{ key: formatKeyPath(at), message: getErrorMessage(thrown), ...yaml.locateValue(at) }];
    }
  });
}

/** What is not there cannot leak; and one server without its key is no reason to go without the policy. */
const NEEDED_LATER: ReadonlySet<unknown> = new Set(["secrets", "servers", "gateway", "approvals"]);

interface FoundReference {
  readonly at: KeyPath;
  readonly variable: string;
}

function findReferences(value: unknown, at: KeyPath): readonly FoundReference[] {
  if (typeof value === "string") return listVariables(value).map((variable) => ({ at, variable }));
  if (Array.isArray(value)) return value.flatMap((item, index) => findReferences(item, [...at, index]));
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([key, part]) => findReferences(part, [...at, key]));
}

function findMissingVariables(
  references: readonly FoundReference[],
  yaml: YamlDocument,
  env: Environment,
): readonly ConfigProblem[] {
  return references
    .filter(
      ({ at, variable }) => !getOwn(env, variable) && !NEEDED_LATER.has(at[0]) && !variable.startsWith(SECRET_PREFIX),
    )
    .slice(0, PROBLEM_LIMIT)
    .map(({ at, variable }) => ({
      key: formatKeyPath(at),
      message: describeMissing(variable),
      ...yaml.locateValue(at),
    }));
}
