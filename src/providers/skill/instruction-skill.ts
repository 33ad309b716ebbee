import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import { decodeText } from "../../core/decode-text.ts";
import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import { formatSkillText, SKILL_RESULT_CHARS, selectLines, skillFileInput } from "../../core/skill-text.ts";
import { describeSkill, type SkillParts } from "./skill-action.ts";
import { readSkillVersion, type Skill, type SkillSnapshot } from "./skill-folders.ts";

/** A skill whose body is returned to the model, with the files of its folder. */
export const defineInstructionSkill = (skill: Skill, parts: SkillParts): Action =>
  defineAction("skill", {
    ...describeSkill(skill),
    effect: "read",
    idempotent: true,
    resultChars: SKILL_RESULT_CHARS,
    input: skillFileInput.extend({
      base64: z.boolean().default(false).describe("Return all bytes of the file, in base64."),
    }),
    async run({ file, offset, base64 }, context) {
      const snapshot = await parts.open(skill, context);
      if (base64) return readBytes(snapshot, file ?? skill.fileName);
      return file === undefined ? formatBody(snapshot, skill.fileName) : readLines(snapshot, file, offset);
    },
    files: async () => ({
      version: await readSkillVersion(skill),
      read: async () => (await parts.open(skill)).files,
    }),
  });

function formatBody({ name, body, files }: SkillSnapshot, fileName: string): string {
  return formatSkillText({ name, body, files: [...files.keys()].filter((file) => file !== fileName) });
}

function requireFile({ name, files }: SkillSnapshot, path: string): Uint8Array {
  const bytes = files.get(path);
  if (bytes !== undefined) return bytes;
  const message = `the skill ${name} has no file ${quoteName(path)}${didYouMean(path, [...files.keys()])}`;
  throw new QmError("not_found", message, { hint: "Call the skill without `file` to see its files." });
}

function readBytes(snapshot: SkillSnapshot, path: string) {
  const bytes = requireFile(snapshot, path);
  return { path, bytes: bytes.length, base64: Buffer.from(bytes).toString("base64") };
}

function readLines(snapshot: SkillSnapshot, path: string, offset: number) {
  const bytes = requireFile(snapshot, path);
  const text = decodeText(bytes);
  if (text === undefined)
    throw new QmError("unsupported_content", `${quoteName(path)} is not text`, { details: { bytes: bytes.length } });
  return selectLines(path, text, offset);
}
