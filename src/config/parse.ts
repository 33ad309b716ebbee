import { createHash } from "node:crypto";
import { dirname } from "node:path";
import { messageOf } from "../core/errors.ts";
import { compileCondition, ROUTE_VARIABLES } from "../core/expression.ts";
import { frozenCopy, getOwn, isRecord } from "../core/json.ts";
import { allowedText, problemsOf } from "./issues.ts";
import { type ConfigProblem, invalidConfig, type KeyPath, keyText, PROBLEM_LIMIT } from "./problems.ts";
import { type Environment, missing, SECRET, variablesIn } from "./references.ts";
import { type Config, configSchema } from "./schema.ts";
import { readYaml, type YamlReading } from "./yaml.ts";

export interface ConfigOptions {
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
export interface Reference {
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
  readonly references: readonly Reference[];
  /** Whether the document has no content: nothing at all, only comments, or null. */
  readonly isEmpty: boolean;
  /** Equal for equal bytes. */
  readonly fingerprint: string;
}

/** A configuration from the bytes of its file. `path` is for messages and the folder. Throws `invalid_config`. */
export function parseConfig(
  bytes: Uint8Array,
  path: string,
  options: ConfigOptions = {},
): LoadedConfig & { readonly path: string } {
  const yaml = readYaml(bytes);
  if (yaml.problems.length > 0) throw invalidConfig(path, yaml.problems);
  const parsed = configSchema.safeParse(yaml.value ?? {}, { error: allowedText });
  const issues = parsed.success ? [] : parsed.error.issues.slice(0, PROBLEM_LIMIT);
  const references = referencesIn(yaml.value, []);
  const problems = [
    ...issues.flatMap((issue) => problemsOf(issue, yaml)),
    ...ruleProblems(yaml, options.compileExpression),
    ...approvalProblems(yaml, options.compileExpression),
    ...routingProblems(yaml),
    ...(options.env === undefined ? [] : missingVariables(references, yaml, options.env)),
  ];
  if (!parsed.success || problems.length > 0) throw invalidConfig(path, problems);
  return {
    config: frozenCopy(parsed.data),
    path,
    folder: dirname(path),
    references: references.map(({ at, variable }) => ({ key: keyText(at), variable })),
    isEmpty: yaml.value === undefined || yaml.value === null,
    fingerprint: fingerprintOf(bytes),
  };
}

export function fingerprintOf(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** What the schema cannot see. Looks at the raw rules, so as to be reported beside what the schema finds. */
function ruleProblems(yaml: YamlReading, compile: ConfigOptions["compileExpression"]): readonly ConfigProblem[] {
  const policy = isRecord(yaml.value) ? yaml.value.policy : undefined;
  const rules: readonly unknown[] = isRecord(policy) && Array.isArray(policy.rules) ? policy.rules : [];
  const problems: ConfigProblem[] = [];
  const names = new Set<string>();
  for (const [index, rule] of rules.entries()) {
    if (!isRecord(rule)) continue;
    const report = (key: string, message: string) => {
      const at = ["policy", "rules", index, key];
      problems.push({ key: keyText(at), message, ...yaml.valueAt(at) });
    };
    if (typeof rule.name === "string") {
      if (names.has(rule.name)) report("name", "another rule has this name");
      names.add(rule.name);
    }
    if (typeof rule.rule === "string" && rule.rule !== "") {
      try {
        compile?.(rule.rule);
      } catch (thrown) {
        report("rule", messageOf(thrown));
      }
    }
  }
  return problems;
}

function approvalProblems(yaml: YamlReading, compile: ConfigOptions["compileExpression"]): readonly ConfigProblem[] {
  const approvals = isRecord(yaml.value) ? yaml.value.approvals : undefined;
  const categories = isRecord(approvals) && isRecord(approvals.categories) ? approvals.categories : {};
  return Object.entries(categories).flatMap(([category, rule]) => {
    if (!isRecord(rule) || typeof rule.auto_approve_if !== "string") return [];
    try {
      compile?.(rule.auto_approve_if);
      return [];
    } catch (thrown) {
      const at = ["approvals", "categories", category, "auto_approve_if"];
      return [{ key: keyText(at), message: messageOf(thrown), ...yaml.valueAt(at) }];
    }
  });
}

function routingProblems(yaml: YamlReading): readonly ConfigProblem[] {
  const routing = isRecord(yaml.value) ? yaml.value.routing : undefined;
  const rules: readonly unknown[] = isRecord(routing) && Array.isArray(routing.rules) ? routing.rules : [];
  return rules.flatMap((rule, index) => {
    if (!isRecord(rule) || typeof rule.when !== "string" || rule.when === "") return [];
    try {
      compileCondition(rule.when, ROUTE_VARIABLES);
      return [];
    } catch (thrown) {
      const at = ["routing", "rules", index, "when"];
      return [{ key: keyText(at), message: messageOf(thrown), ...yaml.valueAt(at) }];
    }
  });
}

/** What is not there cannot leak; and one server without its key is no reason to go without the policy. */
const NEEDED_LATER: ReadonlySet<unknown> = new Set(["secrets", "servers", "gateway", "approvals"]);

interface FoundReference {
  readonly at: KeyPath;
  readonly variable: string;
}

function referencesIn(value: unknown, at: KeyPath): readonly FoundReference[] {
  if (typeof value === "string") return variablesIn(value).map((variable) => ({ at, variable }));
  if (Array.isArray(value)) return value.flatMap((item, index) => referencesIn(item, [...at, index]));
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([key, part]) => referencesIn(part, [...at, key]));
}

function missingVariables(
  references: readonly FoundReference[],
  yaml: YamlReading,
  env: Environment,
): readonly ConfigProblem[] {
  return references
    .filter(({ at, variable }) => !getOwn(env, variable) && !NEEDED_LATER.has(at[0]) && !variable.startsWith(SECRET))
    .slice(0, PROBLEM_LIMIT)
    .map(({ at, variable }) => ({ key: keyText(at), message: missing(variable), ...yaml.valueAt(at) }));
}
