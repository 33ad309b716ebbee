import { createHash } from "node:crypto";
import type { Dirent } from "node:fs";
import { readdir, readFile, realpath, stat } from "node:fs/promises";
import { basename, dirname, join, posix, relative, sep } from "node:path";
import { getErrorMessage } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { parseSkillFile, type SkillFile, type SkillProblem } from "./skill-file.ts";

/** A folder that is searched for skills. */
export interface SkillRoot {
  readonly folder: string;
  /** The origin of its skills, as `qm skills list` shows it. Also a tag of their actions. */
  readonly source: string;
}

export interface Skill extends SkillFile {
  /** Absolute. Never shown to a caller. */
  readonly folder: string;
  readonly root: SkillRoot;
  /** The name of its file: `SKILL.md`, or another spelling of it. */
  readonly fileName: string;
}

export interface SkillContents {
  /** All files, relative to the folder, with `/` between the parts, sorted. */
  readonly files: readonly string[];
  /** The hash of the names and contents of all files. Absent: a problem of level `error` says why. */
  readonly digest?: string;
  readonly problems: readonly SkillProblem[];
}

export interface LocatedProblem extends SkillProblem {
  /** Absolute. */
  readonly file: string;
}

export interface LoadedSkills {
  /** One for each name, sorted by name. A skill of an earlier root wins. */
  readonly skills: readonly Skill[];
  readonly problems: readonly LocatedProblem[];
}

/** Limits of one folder. They count entries and bytes, not time, so the result is the same on every machine. */
const DEPTH_LIMIT = 5;
const FOLDER_LIMIT = 2_000;
const FILE_LIMIT = 512;
const SKILL_BYTES = 16 * 1024 * 1024;
const TEXT_BYTES = 1024 * 1024;
const SKIPPED = new Set([".git", "node_modules"]);
const FILE_NAMES = ["SKILL.md", "Skill.md", "skill.md"];

/** Finds and reads every skill below the roots. A root that does not exist is empty. Never rejects. */
export async function loadSkills(roots: readonly SkillRoot[]): Promise<LoadedSkills> {
  const byName = new Map<string, Skill>();
  const problems: LocatedProblem[] = [];
  for (const root of roots) {
    const files = await findSkillFiles(root.folder, problems);
    for (const { skill, problems: found } of await Promise.all(files.map((file) => loadSkill(file, root)))) {
      problems.push(...found);
      if (skill === undefined) continue;
      const first = byName.get(skill.name);
      if (first === undefined) byName.set(skill.name, skill);
      else {
        const file = join(skill.folder, skill.fileName);
        problems.push({ file, ...createWarning("duplicate", `${skill.name} is already defined in ${first.folder}`) });
      }
    }
  }
  return { skills: [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1)), problems };
}

const createWarning = (rule: string, message: string): SkillProblem => ({ rule, level: "warning", line: 1, message });
const createError = (rule: string, message: string): SkillProblem => ({ rule, level: "error", line: 1, message });

/** The SKILL.md files below a folder, sorted. The folders below a skill belong to it and hold no further skills. */
async function findSkillFiles(root: string, problems: LocatedProblem[]): Promise<readonly string[]> {
  const found: string[] = [];
  const visited = new Set<string>();
  const waiting = [{ path: root, depth: 0 }];
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const { path, depth } = next;
    // Installers link skills from one client's folder to another's, so links are followed, each folder once.
    const folder = await realpath(path).catch(() => undefined);
    if (folder === undefined || visited.has(folder)) continue;
    if (visited.size === FOLDER_LIMIT) {
      problems.push({ file: root, ...createWarning("limit", `only ${FOLDER_LIMIT} folders were searched`) });
      break;
    }
    visited.add(folder);
    const entries = await readdir(folder, { withFileTypes: true }).catch(() => [] as Dirent[]);
    const name = FILE_NAMES.find((each) => entries.some((entry) => entry.name === each && !entry.isDirectory()));
    if (name !== undefined) found.push(join(folder, name));
    else if (depth < DEPTH_LIMIT)
      waiting.push(...listFolders(entries, path).map((each) => ({ path: each, depth: depth + 1 })));
  }
  return found.sort();
}

const listFolders = (entries: readonly Dirent[], folder: string): readonly string[] =>
  entries
    .filter((entry) => (entry.isDirectory() || entry.isSymbolicLink()) && !SKIPPED.has(entry.name))
    .map(({ name }) => join(folder, name));

type LoadedSkill = { readonly skill?: Skill | undefined; readonly problems: readonly LocatedProblem[] };

async function loadSkill(file: string, root: SkillRoot): Promise<LoadedSkill> {
  const folder = dirname(file);
  const locate = (problems: readonly SkillProblem[]) => ({ problems: problems.map((each) => ({ file, ...each })) });
  try {
    const { size } = await stat(file);
    if (size > TEXT_BYTES) return locate([createError("size", `larger than ${TEXT_BYTES} bytes`)]);
    const text = decodeUtf8(await readFile(file));
    if (text === undefined) return locate([createError("encoding", "not UTF-8 text")]);
    const { skill, problems } = parseSkillFile(text, basename(folder));
    const found = skill && { ...skill, folder, root, fileName: basename(file) };
    return { ...locate(problems), skill: found };
  } catch (thrown) {
    return locate([createError("unreadable", `it cannot be read: ${getErrorMessage(thrown)}`)]);
  }
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Lists and hashes the files of a skill. Links are left out: they could lead out of the folder. */
export async function readSkillContents(skill: Skill): Promise<SkillContents> {
  const { folder } = skill;
  const problems: SkillProblem[] = [];
  const files: string[] = [];
  const waiting = [folder];
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    for (const entry of await readdir(next, { withFileTypes: true })) {
      const path = join(next, entry.name);
      const name = relative(folder, path).split(sep).join("/");
      if (entry.isDirectory() && !SKIPPED.has(entry.name)) waiting.push(path);
      else if (entry.isFile()) files.push(name);
      else if (!entry.isDirectory())
        problems.push(createWarning("link", `${quoteName(name)} is a link and is left out`));
    }
    if (files.length + waiting.length > FILE_LIMIT) {
      problems.push(createError("size", `more than ${FILE_LIMIT} files`));
      return { files, problems };
    }
  }
  files.sort();
  problems.push(...checkLinks(skill, files));
  const hash = createHash("sha256");
  let bytes = 0;
  for (const name of files) {
    const path = join(folder, name);
    bytes += (await stat(path)).size;
    if (bytes > SKILL_BYTES) {
      problems.push(createError("size", `more than ${SKILL_BYTES} bytes of files`));
      return { files, problems };
    }
    const content = createHash("sha256")
      .update(await readFile(path))
      .digest("hex");
    hash.update(`${JSON.stringify(name)} ${content}\n`);
  }
  return { files, problems, digest: hash.digest("hex") };
}

const LINK = /\]\(([^)\s]+)(?:\s[^)]*)?\)/g;

/** Links of the body to files that the folder does not have, or outside of it. */
function checkLinks({ body, bodyLine }: SkillFile, files: readonly string[]): readonly SkillProblem[] {
  const known = new Set(files);
  const found = new Map<string, SkillProblem>();
  for (const [at, line] of body.split("\n").entries())
    for (const [, target = ""] of line.matchAll(LINK)) {
      const path = posix.normalize(decodeLink(target.replace(/[#?].*$/, "")));
      if (/^(?:[a-z][a-z0-9+.-]*:|\/|$)/i.test(target) || path === "." || found.has(path)) continue;
      if (known.has(path) || files.some((file) => file.startsWith(`${path.replace(/\/$/, "")}/`))) continue;
      const isOutside = path.startsWith("../");
      const message = `${quoteName(path)} ${isOutside ? "is outside of the skill's folder" : "does not exist"}`;
      found.set(path, { rule: "file-link", level: "warning", line: bodyLine + at, message });
    }
  return [...found.values()];
}

function decodeLink(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
