import { toOneLine } from "../../core/display-text.ts";
import { isRecord, type JsonObject } from "../../core/json.ts";
import { skillFileInput } from "../../core/skill-text.ts";
import { toJsonSchema } from "../../core/standard-schema.ts";
import type { OfferedTool } from "./offer.ts";

const SKILLS_EXTENSION = "io.modelcontextprotocol/skills";

/** Whether a server announces MCP's extension for skills. */
export const hasSkills = ({ extensions }: JsonObject): boolean =>
  isRecord(extensions) && isRecord(extensions[SKILLS_EXTENSION]);

export interface SkillFileEntry extends JsonObject {
  readonly uri: string;
  /** `sha256:` and 64 hexadecimal digits. */
  readonly digest: string;
  readonly size: number;
}

/** A skill as a server lists it. */
export interface OfferedSkill extends JsonObject {
  /** The URI of its SKILL.md. */
  readonly uri: string;
  readonly frontmatter: JsonObject;
  /** `dynamic`: the server does not say in advance what it sends. */
  readonly resources: readonly SkillFileEntry[] | "dynamic";
}

/** The path of the instructions in the folder of a skill. */
export const SKILL_FILE = "SKILL.md";
const SKILL_NAME = /^(?=.{1,64}$)[\da-z]+(?:-[\da-z]+)*$/;
const DIGEST = /^sha256:[\da-f]{64}$/;
const DESCRIPTION_LIMIT = 1024;
const INPUT_SCHEMA = toJsonSchema(skillFileInput);
/** The limits of the extension. */
const FILE_LIMIT = 512;
const SKILL_BYTES = 16 * 1024 * 1024;
export const TEXT_BYTES = 1024 * 1024;
/** Before the name of a skill's definition. MCP does not allow a slash in names of tools, so that the two cannot clash. */
const NAME_PREFIX = "skill/";

/**
 * A listed skill as a definition, so that it is scanned, pinned and reviewed as a tool is. Throws an error that says what is
 * wrong with it.
 */
export function toSkillDefinition({ uri, frontmatter, resources }: Record<string, unknown>): OfferedTool {
  const root = typeof uri === "string" ? getSkillRoot(uri) : undefined;
  if (typeof uri !== "string" || root === undefined) throw new Error("has no URI of a SKILL.md in a named folder");
  if (!isRecord(frontmatter)) throw new Error("has no front matter");
  const { name, description } = frontmatter;
  const path = root.slice(root.indexOf("://") + 3);
  if (typeof name !== "string" || !SKILL_NAME.test(name) || path.split("/").at(-1) !== name)
    throw new Error("has a name that is not allowed, or not that of its folder");
  if (typeof description !== "string" || description.trim() === "" || description.length > DESCRIPTION_LIMIT)
    throw new Error(`has no description of at most ${DESCRIPTION_LIMIT} characters`);
  const files = resources === "dynamic" ? resources : checkFiles(uri, root, resources);
  const skill: OfferedSkill = { uri, frontmatter: frontmatter as JsonObject, resources: files };
  return { name: `${NAME_PREFIX}${path}`, description, inputSchema: INPUT_SCHEMA, skill };
}

function checkFiles(uri: string, root: string, resources: unknown): readonly SkillFileEntry[] {
  if (!Array.isArray(resources) || resources.length > FILE_LIMIT)
    throw new Error(`has no list of at most ${FILE_LIMIT} files`);
  const files = resources.map((each: unknown): SkillFileEntry => {
    const { uri, digest, size } = isRecord(each) ? each : {};
    const isFile = typeof uri === "string" && toFilePath(root, uri) !== undefined;
    if (!isFile) throw new Error("has a file outside of its folder, or with a name that cannot be shown");
    if (typeof digest !== "string" || !DIGEST.test(digest)) throw new Error("has a file without a digest");
    if (typeof size !== "number" || !Number.isSafeInteger(size) || size < 0)
      throw new Error("has a file without a size");
    return { uri, digest, size };
  });
  const paths = new Set(files.map((file) => toFilePath(root, file.uri)));
  if (paths.size < files.length) throw new Error("lists a file twice");
  const own = files.find((file) => file.uri === uri);
  if (own === undefined) throw new Error(`does not list its ${SKILL_FILE}`);
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  if (bytes > SKILL_BYTES || own.size > TEXT_BYTES)
    throw new Error(`is larger than ${SKILL_BYTES} bytes, or its ${SKILL_FILE} than ${TEXT_BYTES}`);
  return files;
}

/** The URI of a skill's folder. Only a URI in its normal form is accepted: `skill://x/../y/SKILL.md` is not. */
function getSkillRoot(uri: string): string | undefined {
  const [root = "", ...rest] = uri.split(`/${SKILL_FILE}`);
  const isNormal = rest.length === 1 && rest[0] === "" && normalizeUri(uri) === uri && !/[?#]/.test(uri);
  return isNormal && /:\/\/[^/]/.test(root) && toOneLine(root) === root ? root : undefined;
}

function normalizeUri(uri: string): string | undefined {
  try {
    return new URL(uri).href;
  } catch {
    return undefined;
  }
}

/** The path of a file in the skill's folder. Undefined: it is outside, has odd parts, or could look like other text. */
function toFilePath(root: string, uri: string): string | undefined {
  if (!uri.startsWith(`${root}/`) || normalizeUri(uri) !== uri || /[?#]/.test(uri)) return undefined;
  try {
    const parts = uri
      .slice(root.length + 1)
      .split("/")
      .map(decodeURIComponent);
    const path = parts.join("/");
    return parts.every((part) => /^(?!\.{1,2}$)[^/\\]+$/.test(part)) && toOneLine(path) === path ? path : undefined;
  } catch {
    return undefined;
  }
}

/** The files of a skill by path. A dynamic one has only its SKILL.md, of unknown size and digest. */
export function listSkillFiles({ uri, resources }: OfferedSkill) {
  const root = uri.slice(0, -`/${SKILL_FILE}`.length);
  const files: readonly (Pick<SkillFileEntry, "uri"> & Partial<SkillFileEntry>)[] =
    resources === "dynamic" ? [{ uri }] : resources;
  return new Map(files.map((file) => [toFilePath(root, file.uri) ?? file.uri, file]));
}

/** Whether a resource belongs to a skill, which only the skill's own action may read. */
export const isSkillUri = (uri: string, tools: readonly OfferedTool[]): boolean =>
  /^skill:/i.test(uri) ||
  tools.some(
    ({ skill }) => skill !== undefined && (normalizeUri(uri) ?? uri).startsWith(skill.uri.slice(0, -SKILL_FILE.length)),
  );
