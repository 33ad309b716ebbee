import { z } from "zod";
import { omitUndefined } from "./json.ts";

/** Instructions up to this length are shown whole. The format asks for less than 5,000 tokens, about 20,000 characters. */
export const SKILL_RESULT_CHARS = 64 * 1024;
const LINE_LIMIT = 2000;
const TAGS = /<(?=\/?skill_(?:content|files)\b)/gi;
const escapeTags = (text: string): string => text.replace(TAGS, "&lt;");

/** The arguments of an instruction skill. */
export const skillFileInput = z.strictObject({
  file: z.string().min(1).optional().describe("Read this file of the skill instead of its instructions."),
  offset: z.int().min(0).default(0).describe("First line of the file, counted from 0."),
});

interface SkillText {
  readonly name: string;
  /** The origin, if it is not a folder of this workspace. */
  readonly from?: string;
  readonly body: string;
  /** The paths of its other files. */
  readonly files: readonly string[];
}

/** The instructions as text, in tags, so that a model can tell them from other results. They cannot close the tags. */
export function formatSkillText({ name, from, body, files }: SkillText): string {
  const origin = from === undefined ? "" : ` from="${from}"`;
  const list = files.length === 0 ? "" : `\n<skill_files>\n${escapeTags(files.join("\n"))}\n</skill_files>\n`;
  return `<skill_content name="${name}"${origin}>\n${escapeTags(body.trim())}\n${list}</skill_content>`;
}

/** A portion of a file's lines, and where the next one starts. */
export function selectLines(path: string, text: string, offset: number) {
  const all = text.split("\n");
  // A line break at the end starts no further line.
  if (all.at(-1) === "") all.pop();
  const lines = all.slice(offset, offset + LINE_LIMIT);
  const end = offset + lines.length;
  const next = end < all.length ? end : undefined;
  return omitUndefined({ path, content: lines.join("\n"), lines: lines.length, next_offset: next });
}
