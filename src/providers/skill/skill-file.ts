import { isRecord } from "../../core/json.ts";
import { isEntry, quoteName } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import { type KeyPath, readYamlText, type YamlDocument } from "../../core/yaml.ts";

/**
 * - `instruction`: the body is returned to the model
 * - `llm`: the body is a prompt for the configured model
 * - `code`: a program beside the file runs
 * - `method`: the body is a protocol of numbered steps
 */
export const skillTypes = ["instruction", "llm", "code", "method"] as const;
export type SkillType = (typeof skillTypes)[number];

/** A rule that a skill breaks. With an `error` the skill is not offered. */
export interface SkillProblem {
  readonly rule: string;
  readonly level: "error" | "warning";
  readonly line: number;
  readonly message: string;
}

export interface SkillFile {
  /** The part of the action's name after `skill__`. */
  readonly name: string;
  readonly description: string;
  readonly type: SkillType;
  readonly fields: Readonly<Record<string, unknown>>;
  readonly body: string;
  /** The line of the file on which the body starts. */
  readonly bodyLine: number;
}

export interface ParsedSkillFile {
  /** Absent: a problem of level `error` says why. */
  readonly skill?: SkillFile;
  /** In the order of the file. */
  readonly problems: readonly SkillProblem[];
}

const NAME_FORM = /^[\p{Ll}\p{Lo}\p{N}]+(?:-[\p{Ll}\p{Lo}\p{N}]+)*$/u;
const NAME_LIMIT = 64;
const DESCRIPTION_LIMIT = 1024;
const COMPATIBILITY_LIMIT = 500;
/** Longer front matter is not read: every check below takes time for each character and key. */
const FRONT_MATTER_LIMIT = 16 * 1024;
const KEY_LIMIT = 100;
const BODY_LINE_LIMIT = 500;

const STANDARD_KEYS = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];
/** Keys of our own, by the types that use them. */
const TYPE_KEYS: Readonly<Record<SkillType, readonly string[]>> = {
  instruction: [],
  llm: ["inputs", "output", "effect"],
  code: ["inputs", "output", "effect", "timeout"],
  method: ["inputs", "tools", "steps", "outcomes", "accept", "exports", "budget"],
};
/** Keys that other clients read. They have no effect here. */
const CLIENT_KEYS = [
  "disable-model-invocation",
  "user-invocable",
  "argument-hint",
  "model",
  "context",
  "agent",
  "hooks",
  "paths",
];

/** Reads a SKILL.md. Lenient: only what makes the skill unusable is an error. Never throws. */
export function parseSkillFile(text: string, folder: string): ParsedSkillFile {
  const found = splitFrontMatter(text);
  if ("problem" in found) return { problems: [createFrontMatterError(found.problem)] };
  const { yaml, problems } = readFrontMatter(found.frontMatter);
  const fields = yaml.value;
  if (problems.some(({ level }) => level === "error")) return { problems };
  if (!isRecord(fields)) return { problems: [createFrontMatterError("the front matter is not a YAML mapping", 2)] };
  if (Object.keys(fields).length > KEY_LIMIT)
    return { problems: [createFrontMatterError(`the front matter has more than ${KEY_LIMIT} keys`)] };
  const locate = (key: string): number => yaml.locateKey([key] as KeyPath).line + 1;
  const report = (rule: string, key: string, message: string, level: SkillProblem["level"] = "warning") =>
    problems.push({ rule, level, line: Object.hasOwn(fields, key) ? locate(key) : 1, message });

  const name = checkName(fields.name, folder, report);
  const description = checkDescription(fields.description, report);
  const type = checkType(fields.type, report);
  checkOtherFields(fields, type ?? "instruction", report);
  const { body, bodyLine } = found;
  checkBody(body, bodyLine, problems);
  problems.sort((a, b) => a.line - b.line);
  if (name === undefined || description === undefined || type === undefined) return { problems };
  return { skill: { name, description, type, fields, body, bodyLine }, problems };
}

type Report = (rule: string, key: string, message: string, level?: SkillProblem["level"]) => void;

const createFrontMatterError = (message: string, line = 1): SkillProblem => ({
  rule: "front-matter",
  level: "error",
  line,
  message,
});

type SplitFile =
  | { readonly problem: string }
  | { readonly frontMatter: string; readonly body: string; readonly bodyLine: number };

/** Splits the text at the lines `---`. */
function splitFrontMatter(text: string): SplitFile {
  const isFence = (line: string): boolean => line.trimEnd() === "---";
  const start = text.startsWith("\uFEFF") ? 1 : 0;
  const lines = text.slice(start, start + FRONT_MATTER_LIMIT).split("\n");
  if (!isFence(lines[0] ?? ""))
    return {
      problem: "there is no front matter; begin with a line `---`, then `name:` and `description:`, then `---`",
    };
  const end = lines.findIndex((line, at) => at > 0 && isFence(line));
  if (end === -1 && text.length > FRONT_MATTER_LIMIT)
    return { problem: `the front matter is longer than ${FRONT_MATTER_LIMIT} characters, or has no end` };
  if (end === -1) return { problem: "the front matter has no end; close it with a line `---`" };
  const length = lines.slice(0, end + 1).reduce((sum, line) => sum + line.length + 1, start);
  return { frontMatter: lines.slice(1, end).join("\n"), body: text.slice(length), bodyLine: end + 2 };
}

/** Published skills often have a value with a colon and no quotes. Such a value is quoted and read again. */
function readFrontMatter(text: string): { readonly yaml: YamlDocument; readonly problems: SkillProblem[] } {
  const yaml = readYamlText(text);
  if (yaml.problems.length === 0) return { yaml, problems: [] };
  const quoted = readYamlText(quoteValues(text));
  const isRead = quoted.problems.length === 0;
  const problems = yaml.problems.map(({ line, message, key }): SkillProblem => {
    const advice = isRead ? "; it was read as if its values were in quotes" : "";
    const about = key === "" ? message : `${key}: ${message}`;
    return { rule: "yaml", level: isRead ? "warning" : "error", line: line + 1, message: about + advice };
  });
  return { yaml: isRead ? quoted : yaml, problems };
}

const quoteValues = (text: string): string =>
  text
    .split("\n")
    .map((line) => {
      const [, key, rest = ""] = /^([A-Za-z][\w-]*):[ \t](.*)$/.exec(line) ?? [];
      const value = rest.trim();
      return key === undefined || value === "" || /^["'|>[{]/.test(value) ? line : `${key}: ${JSON.stringify(value)}`;
    })
    .join("\n");

function checkName(value: unknown, folder: string, report: Report): string | undefined {
  const given = typeof value === "string" ? value.trim().normalize("NFKC") : "";
  if (given === "") report("name", "name", `there is no name; the folder's name, ${quoteName(folder)}, is used`);
  else if (given.length > NAME_LIMIT || !NAME_FORM.test(given))
    report(
      "name",
      "name",
      `${quoteName(given)} is not at most ${NAME_LIMIT} lower-case letters, digits and single hyphens`,
    );
  else if (given !== folder)
    report("name", "name", `${quoteName(given)} is not the folder's name, ${quoteName(folder)}`);
  const name = [given, folder.normalize("NFC")].find((each) => each.length <= NAME_LIMIT && isEntry(each));
  if (name === undefined) report("name", "name", "neither the name nor the folder's name can name an action", "error");
  return name;
}

/** How the description of a new skill ends, until its author completes it. */
const SKILL_PLACEHOLDER = "Use when …";

function checkDescription(value: unknown, report: Report): string | undefined {
  const description = typeof value === "string" ? joinLines(value) : "";
  if (description === "") {
    report("description", "description", "there is no description; say what it does and when to use it", "error");
    return undefined;
  }
  if (description.length > DESCRIPTION_LIMIT)
    report("description", "description", `longer than ${DESCRIPTION_LIMIT} characters`);
  if (description.endsWith(SKILL_PLACEHOLDER))
    report("description", "description", `still ends with the placeholder "${SKILL_PLACEHOLDER}"; say when to use it`);
  return description;
}

/** Joins the lines of a paragraph, so that its first sentence is on one line. Lists keep their lines. */
const joinLines = (text: string): string =>
  text
    .trim()
    .split("\n")
    .map((line) => line.trim())
    .reduce((joined, line) => {
      const isNew = line === "" || joined.endsWith("\n") || /^(?:[-*•]|\d{1,9}[.)])/.test(line);
      return `${joined}${isNew ? "\n" : " "}${line}`;
    });

/** Older names of the types. */
const OLD_TYPES: Readonly<Record<string, SkillType>> = { python: "code", prompt_augmentation: "llm" };

function checkType(value: unknown, report: Report): SkillType | undefined {
  if (value === undefined) return "instruction";
  const known = skillTypes.find((type) => type === value);
  if (known !== undefined) return known;
  if (typeof value === "string" && Object.hasOwn(OLD_TYPES, value)) {
    report("type", "type", `${value} is now called ${OLD_TYPES[value]}`);
    return OLD_TYPES[value];
  }
  const near = typeof value === "string" ? didYouMean(value, skillTypes) : "";
  report("type", "type", `expected ${skillTypes.join(", ")}${near}`, "error");
  return undefined;
}

function checkOtherFields(fields: Readonly<Record<string, unknown>>, type: SkillType, report: Report): void {
  const { license, compatibility, metadata } = fields;
  if (license !== undefined && typeof license !== "string") report("license", "license", "expected text");
  if (compatibility !== undefined && (typeof compatibility !== "string" || compatibility.length > COMPATIBILITY_LIMIT))
    report("compatibility", "compatibility", `expected text of at most ${COMPATIBILITY_LIMIT} characters`);
  const hasTexts = isRecord(metadata) && Object.values(metadata).every((value) => typeof value === "string");
  if (metadata !== undefined && !hasTexts) report("metadata", "metadata", "expected a mapping of texts");
  const tools = fields["allowed-tools"];
  if (tools !== undefined && typeof tools !== "string")
    report("allowed-tools", "allowed-tools", "expected names separated by spaces");
  const known = [...STANDARD_KEYS, "type", ...TYPE_KEYS[type]];
  for (const key of Object.keys(fields).filter((each) => !known.includes(each))) {
    const message = CLIENT_KEYS.includes(key)
      ? `${quoteName(key)} is a key of single clients and has no effect here`
      : `unknown key ${quoteName(key)}${didYouMean(key, known)}`;
    report("unknown-key", key, message);
  }
}

function checkBody(body: string, bodyLine: number, problems: SkillProblem[]): void {
  const lines = body.trimEnd().split("\n").length;
  const add = (message: string) => problems.push({ rule: "body", level: "warning", line: bodyLine, message });
  if (body.trim() === "") add("the body is empty");
  else if (lines > BODY_LINE_LIMIT) add(`${lines} lines; move details to files beside it (at most ${BODY_LINE_LIMIT})`);
}
