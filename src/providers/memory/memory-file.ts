import { isRecord } from "../../core/json.ts";
import { readYamlText } from "../../core/yaml.ts";
import { formatMemoryEntry, parseMemoryEntry } from "./memory-entry.ts";
import {
  isMemorySlug,
  type MemoryLayer,
  type MemoryText,
  memoryLayers,
  memoryLimits,
  memoryTypes,
} from "./memory-text.ts";

export const MEMORY_INDEX = "MEMORY.md";
/** Enough for the longest body, escaped, with its front matter. */
export const MEMORY_FILE_LIMIT = 8 * memoryLimits.body;
const FRONT_MATTER_LIMIT = 16 * 1024;

export interface MemoryFile extends MemoryText {
  /** Absent: the file names no layer. */
  readonly layer?: MemoryLayer;
}

export type ParsedMemoryFile =
  | { readonly file: MemoryFile }
  | { readonly problem: { readonly line: number; readonly message: string } };

/** One entry as Markdown with front matter. JSON texts are YAML. */
export function formatMemoryFile(layer: MemoryLayer, { slug, name, description, type, body }: MemoryText): string {
  const fields = { name, description, type, layer, slug };
  const lines = Object.entries(fields).map(([key, value]) => `${key}: ${JSON.stringify(value)}`);
  return ["---", ...lines, "---", "", body, ""].join("\n");
}

export function formatMemoryIndex(entries: readonly (Omit<MemoryText, "body"> & { layer: MemoryLayer })[]): string {
  const escapeMarkdown = (text: string): string => text.replace(/[\\[\]<>]/g, "\\$&");
  const lines = entries.map(({ layer, slug, name, description }) => {
    return `- [${escapeMarkdown(name)}](${formatMemoryEntry(layer, slug)}.md): ${escapeMarkdown(description)}`;
  });
  return ["# Memory", "", ...lines, ""].join("\n");
}

/**
 * Reads a file of `qm memory export`, or one with front matter that another agent wrote: the slug and layer may come from
 * the file name, and the type may be under `metadata`. Never throws.
 */
export function parseMemoryFile(text: string, fileName: string): ParsedMemoryFile {
  const fail = (line: number, message: string): ParsedMemoryFile => ({ problem: { line, message } });
  const lines = text
    .replace(/^\uFEFF/, "")
    .replace(/\r\n?/g, "\n")
    .replace(/\n$/, "")
    .split("\n");
  const end = lines.findIndex((line, at) => at > 0 && line.trimEnd() === "---");
  if (lines[0]?.trimEnd() !== "---") return fail(1, "there is no front matter; begin with a line `---`");
  if (end === -1) return fail(1, "the front matter has no end; close it with a line `---`");
  const frontMatter = lines.slice(1, end).join("\n");
  if (frontMatter.length > FRONT_MATTER_LIMIT) return fail(1, "the front matter is too long");
  const yaml = readYamlText(frontMatter);
  const [problem] = yaml.problems;
  if (problem !== undefined) return fail(problem.line + 1, problem.message);
  const fields = yaml.value;
  if (!isRecord(fields)) return fail(2, "the front matter is not a YAML mapping");
  const locate = (key: string): number => (Object.hasOwn(fields, key) ? yaml.locateKey([key]).line + 1 : 1);

  const named = parseMemoryEntry(fileName.replace(/\.md$/i, ""));
  const slug = fields.slug ?? named?.slug;
  if (typeof slug !== "string" || !isMemorySlug(slug))
    return fail(locate("slug"), "slug: give lower-case letters and digits, joined by single - or _");
  const { metadata } = fields;
  const type = memoryTypes.find((each) => each === (fields.type ?? (isRecord(metadata) ? metadata.type : undefined)));
  if (type === undefined) return fail(locate("type"), `type: give one of ${memoryTypes.join(", ")}`);
  const layer = fields.layer ?? (named?.layer === "agent" ? "agent" : undefined);
  if (layer !== undefined && !memoryLayers.some((each) => each === layer))
    return fail(locate("layer"), `layer: give one of ${memoryLayers.join(", ")}`);
  const { name = slug, description } = fields;
  if (typeof name !== "string" || name.trim() === "") return fail(locate("name"), "name: give a text");
  if (typeof description !== "string" || description.trim() === "")
    return fail(locate("description"), "description: give one line that tells when the memory is useful");
  const body = lines.slice(lines[end + 1] === "" ? end + 2 : end + 1).join("\n");
  if (body.trim() === "") return fail(end + 2, "the body is empty");
  return { file: { slug, name, description, type, body, ...(layer && { layer: layer as MemoryLayer }) } };
}
