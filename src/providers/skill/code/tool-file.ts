import { omitUndefined } from "../../../core/json.ts";
import { parseDuration } from "../../../core/runtime.ts";
import type { SkillFile, SkillProblem } from "../skill-file.ts";
import {
  createFieldError,
  type FieldProblem,
  readSkillEffect,
  readSkillInputs,
  readSkillOutput,
} from "../skill-inputs.ts";

export const TOOL_FILES = ["tool.ts", "tool.mjs", "tool.js", "tool.py"] as const;
export type ToolFile = (typeof TOOL_FILES)[number];

/** The one tool file among the files of a skill, or why there is none. */
export function findToolFile(files: Iterable<string>): { readonly file: ToolFile } | { readonly problem: string } {
  const names = new Set(files);
  const [file, ...others] = TOOL_FILES.filter((each) => names.has(each));
  if (file === undefined) return { problem: `there is no ${TOOL_FILES.join(", ")} beside the SKILL.md` };
  if (others.length > 0) return { problem: `${[file, ...others].join(" and ")} exist; keep one of them` };
  return { file };
}

/** For lint: a skill of another type may have any files. */
export function checkToolFile({ type }: SkillFile, files: Iterable<string>): readonly SkillProblem[] {
  const found = findToolFile(files);
  if (type !== "code" || "file" in found) return [];
  return [{ rule: "tool-file", level: "error", line: 1, message: found.problem }];
}

const DEFAULT_TIMEOUT_MS = 60_000;
const LONGEST_TIMEOUT_MS = 600_000;

/** Reads the front matter keys of a code skill. Reports what cannot be used and goes on with the default. */
export function readCodeFields(fields: SkillFile["fields"]) {
  const input = readSkillInputs(fields, "code");
  const output = readSkillOutput(fields);
  const { effect, problems } = readSkillEffect(fields);
  const ms = typeof fields.timeout === "string" ? parseDuration(fields.timeout) : undefined;
  const isUsable = ms !== undefined && ms <= LONGEST_TIMEOUT_MS;
  const message = "expected a duration of at most 600s, such as 30s";
  const late: FieldProblem[] = fields.timeout === undefined || isUsable ? [] : [createFieldError("timeout", message)];
  return {
    inputSchema: input.schema,
    ...omitUndefined({ outputSchema: output?.schema }),
    effect,
    timeoutMs: isUsable ? ms : DEFAULT_TIMEOUT_MS,
    problems: [...input.problems, ...(output?.problems ?? []), ...problems, ...late],
  };
}

/** The lint rules of the type `code` for its front matter. */
export const checkCodeSkill = (fields: SkillFile["fields"]): readonly FieldProblem[] => readCodeFields(fields).problems;
