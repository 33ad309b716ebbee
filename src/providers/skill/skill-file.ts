import { getOwn, isRecord } from "../../core/json.ts";
import { isEntry, quoteName } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import { type KeyPath, PROBLEM_LIMIT, readYamlText } from "../../core/yaml.ts";
import { checkCodeSkill } from "./code/tool-file.ts";
import { checkLlmSkill } from "./llm-prompt.ts";
import { checkMethodSkill } from "./method/method-file.ts";
import type { FieldProblem } from "./skill-inputs.ts";

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
/** Of the types whose body is checked line by line and goes to a model as a whole. */
const CHECKED_BODY_LIMIT = 100_000;

const STANDARD_KEYS = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];
/** Keys of our own, by the types that use them. */
const TYPE_KEYS: Readonly<Record<SkillType, readonly string[]>> = {
  instruction: [],
  llm: ["inputs", "schema_hint", "output", "effect", "max_tokens", "temperature"],
  code: ["inputs", "schema_hint", "output", "effect", "timeout"],
  method: ["inputs", "schema_hint", "tools", "outcomes", "accept", "exports", "budget"],
};
/** The checks of each type, besides those of all types. */
const TYPE_CHECKS: Readonly<Record<SkillType, (fields: SkillFile["fields"], body: string) => readonly FieldProblem[]>> =
  {
    instruction: () => [],
    llm: checkLlmSkill,
    code: checkCodeSkill,
    method: checkMethodSkill,
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
  const { frontMatter, firstLine, body, bodyLine } = found;
  const { yaml, problems } = readFrontMatter(frontMatter, firstLine);
  const fields = yaml.value;
  if (problems.some(({ level }) => level === "error")) return { problems };
  if (!isRecord(fields))
    return { problems: [createFrontMatterError("the front matter is not a YAML mapping", firstLine)] };
  if (Object.keys(fields).length > KEY_LIMIT)
    return { problems: [createFrontMatterError(`the front matter has more than ${KEY_LIMIT} keys`)] };
  const locate = (path: KeyPath): number => yaml.locateKey(path).line + firstLine - 1;
  const report = (rule: string, key: string, message: string, level: SkillProblem["level"] = "warning") =>
    problems.push({ rule, level, line: Object.hasOwn(fields, key) ? locate([key]) : 1, message });

  if (firstLine > 2) problems.push({ ...createFrontMatterError(LATE_START), level: "warning" });
  const name = checkName(fields.name, folder, report);
  const description = checkDescription(fields.description, report);
  const type = checkType(fields.type, report);
  checkOtherFields(fields, type, report);
  checkBody(body, bodyLine, problems);
  const isTooLong = ["llm", "method"].includes(type) && body.length > CHECKED_BODY_LIMIT;
  if (isTooLong)
    problems.push({
      rule: "body",
      level: "error",
      line: bodyLine,
      message: `longer than ${CHECKED_BODY_LIMIT} characters`,
    });
  for (const { rule, level, message, ...place } of isTooLong ? [] : TYPE_CHECKS[type](fields, body))
    problems.push({ rule, level, line: "path" in place ? locate(place.path) : bodyLine + place.bodyLine, message });
  const errors = problems.filter(({ level }) => level === "error");
  const shown = [...errors, ...problems.filter(({ level }) => level !== "error")].slice(0, PROBLEM_LIMIT);
  shown.sort((a, b) => a.line - b.line);
  if (errors.length > 0 || name === undefined || description === undefined) return { problems: shown };
  return { skill: { name, description, type, fields, body, bodyLine }, problems: shown };
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
  | {
      readonly frontMatter: string;
      /** The line of the file on which the YAML starts. */
      readonly firstLine: number;
      readonly body: string;
      readonly bodyLine: number;
    };

const LATE_START = "the front matter must begin on the first line";
/** Empty lines and comments before the front matter. */
const PREFACE = /^(?:\s|<!--(?:(?!-->).)*-->)*(?=---[^\S\n]*\n)/s;

/** Splits the text at the lines `---`. */
function splitFrontMatter(text: string): SplitFile {
  const isFence = (line: string): boolean => line.trimEnd() === "---";
  const beginning = text.slice(0, FRONT_MATTER_LIMIT);
  const preface = PREFACE.exec(beginning)?.[0] ?? "";
  const lines = beginning.slice(preface.length).split("\n");
  if (!isFence(lines[0] ?? ""))
    return {
      problem: "there is no front matter; begin with a line `---`, then `name:` and `description:`, then `---`",
    };
  const end = lines.findIndex((line, at) => at > 0 && isFence(line));
  if (end === -1 && text.length > FRONT_MATTER_LIMIT)
    return { problem: `the front matter is longer than ${FRONT_MATTER_LIMIT} characters, or has no end` };
  if (end === -1) return { problem: "the front matter has no end; close it with a line `---`" };
  const length = lines.slice(0, end + 1).reduce((sum, line) => sum + line.length + 1, preface.length);
  const firstLine = preface.split("\n").length + 1;
  const frontMatter = lines
    .slice(1, end)
    .map((line) => line.replace(/\r$/, ""))
    .join("\n");
  return { frontMatter, firstLine, body: text.slice(length), bodyLine: firstLine + end };
}

/**
 * Published skills often have a value that is not YAML, such as one with a colon and no quotes. Such a value is read as
 * text. A key of the skill's type must be YAML: its value decides what runs.
 */
function readFrontMatter(text: string, firstLine: number) {
  const yaml = readYamlText(text);
  if (yaml.problems.length === 0) return { yaml, problems: [] };
  const { quoted, keys } = quoteUnreadable(text);
  const again = readYamlText(quoted);
  const type = isRecord(again.value) ? readType(again.value.type) : undefined;
  const isRead = again.problems.length === 0 && !keys.some((key) => TYPE_KEYS[type ?? "instruction"].includes(key));
  const problems = yaml.problems.map(({ line, message, key }): SkillProblem => {
    const advice = isRead ? "; it was read as text" : "";
    const about = key === "" ? message : `${key}: ${message}`;
    return { rule: "yaml", level: isRead ? "warning" : "error", line: line + firstLine - 1, message: about + advice };
  });
  return { yaml: isRead ? again : yaml, problems };
}

/** Puts the values that are not YAML in quotes, each on the line of its key, so that all other lines stay where they are. */
function quoteUnreadable(text: string): { readonly quoted: string; readonly keys: readonly string[] } {
  const keys: string[] = [];
  const parts = text.split(/\n(?=[A-Za-z][\w-]*:(?:\s|$))/);
  if (parts.length > KEY_LIMIT) return { quoted: text, keys };
  const quoted = parts.map((part) => {
    const [, key, value = ""] = /^([A-Za-z][\w-]*):\s(.*)$/s.exec(part) ?? [];
    if (key === undefined || readYamlText(part).problems.length === 0) return part;
    keys.push(key);
    const plain = joinLines(value.trim().replace(/^[|>][+-]?\s*\n|^["']|["']$/g, ""));
    return `${key}: ${JSON.stringify(plain)}${"\n".repeat(part.split("\n").length - 1)}`;
  });
  return { quoted: quoted.join("\n"), keys };
}

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
  const own = folder.normalize("NFC");
  const candidates = [given, own, toNameForm(given), toNameForm(own)];
  const name = candidates.find((each) => each.length <= NAME_LIMIT && isEntry(each));
  if (name === undefined) report("name", "name", "neither the name nor the folder's name can name an action", "error");
  return name;
}

const toNameForm = (text: string): string =>
  (text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).join("-").slice(0, NAME_LIMIT).replace(/-$/, "");

/** How the description of a new skill ends, until its author completes it. */
const SKILL_PLACEHOLDER = "Use when …";

function checkDescription(value: unknown, report: Report): string | undefined {
  const lines: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (Array.isArray(value)) report("description", "description", "expected text, not a list");
  const description = joinLines(lines.filter((line) => typeof line === "string").join("\n"));
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

/** Undefined: a word of another format. */
const readType = (value: unknown): SkillType | undefined => {
  if (value === undefined) return "instruction";
  const known = skillTypes.find((type) => type === value);
  return known ?? (typeof value === "string" ? getOwn(OLD_TYPES, value) : undefined);
};

/** The open format has no `type`, and authors use the word for their own groups: such a skill is an instruction. */
function checkType(value: unknown, report: Report): SkillType {
  const type = readType(value);
  if (type === undefined) {
    const near = typeof value === "string" ? didYouMean(value, skillTypes) : "";
    report("type", "type", `expected ${skillTypes.join(", ")}${near}; it is read as an instruction`);
  } else if (value !== undefined && type !== value) report("type", "type", `${value} is now called ${type}`);
  return type ?? "instruction";
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
      ? `${quoteName(key)} is a key of other clients and has no effect here`
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
