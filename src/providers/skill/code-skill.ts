import { defineAction } from "../../catalog/define-action.ts";
import { type Action, fingerprint } from "../../core/action.ts";
import { escapeUnsafe } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { clip, isRecord, type JsonObject, omitUndefined } from "../../core/json.ts";
import { findToolFile, readCodeFields } from "./code/tool-file.ts";
import { describeSkill, type SkillParts } from "./skill-action.ts";
import type { Skill } from "./skill-folders.ts";

/** Calls of one skill at the same time. */
const CONCURRENCY = 4;

/** A skill whose `tool` function runs in a process of its own. */
export function defineCodeSkill(skill: Skill, parts: SkillParts): Action {
  const { inputSchema, outputSchema, effect, timeoutMs } = readCodeFields(skill.fields);
  const listed = findToolFile(skill.toolFiles);
  const findProblem = () => ("problem" in listed ? listed.problem : parts.programs.findProblem(listed.file));
  return defineAction("skill", {
    ...describeSkill(skill),
    effect,
    timeoutMs,
    concurrency: CONCURRENCY,
    storesResult: true,
    input: inputSchema,
    ...omitUndefined({ output: outputSchema }),
    readiness: () => (findProblem() === undefined ? "ready" : "unavailable"),
    readinessReason: findProblem,
    async run(args, context) {
      const { files, fields } = await parts.open(skill, context);
      // The policy has decided on the effect that was listed.
      if (fingerprint(fields) !== fingerprint(skill.fields)) throw changedError(skill);
      const found = findToolFile(files.keys());
      if ("problem" in found) throw new QmError("conflict", `the skill ${skill.name} cannot run: ${found.problem}`);
      const tool = { name: skill.name, file: found.file, files, args, timeoutMs };
      return readUniformResult(skill, await parts.programs.run(tool, context));
    },
  });
}

const changedError = ({ name }: Skill) =>
  new QmError("conflict", `the skill ${name} has just changed`, { hint: "Describe it again, then call it again." });

const REASON_CHARS = 600;
const UNIFORM_KEYS = new Set(["type", "status", "data", "value", "reason", "resource_id", "extra"]);

/**
 * The result of a tool. A uniform return, `{status, data, value, reason?, resource_id?}`, counts as its data, or as an error
 * with its reason. Anything else is the data itself.
 */
export function readUniformResult({ name }: Pick<Skill, "name">, result: unknown): unknown {
  if (!isUniform(result)) return result;
  const { status, data, value, reason, resource_id: id } = result;
  if (status === "failed") {
    const why = [reason, value, data].find((each) => typeof each === "string" && each !== "") ?? "it gave no reason";
    throw new QmError("action_failed", `the skill ${name} failed: ${clip(escapeUnsafe(String(why)), REASON_CHARS)}`);
  }
  // `value` is for display, and may be cut. It counts only if there is nothing else.
  const whole = data ?? value ?? null;
  if (typeof id !== "string") return whole;
  return { ...(isRecord(whole) ? whole : omitUndefined({ data: whole ?? undefined })), resource_id: id };
}

const isUniform = (result: unknown): result is JsonObject =>
  isRecord(result) &&
  (result.status === "success" || result.status === "failed") &&
  Object.keys(result).every((key) => UNIFORM_KEYS.has(key));
