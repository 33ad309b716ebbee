import { createHash } from "node:crypto";
import { constants, type Dirent } from "node:fs";
import { open, readdir, realpath } from "node:fs/promises";
import { basename, dirname, join, posix, relative, sep } from "node:path";
import { toOneLine } from "../../core/display-text.ts";
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
  /** Absolute, with links followed. Never shown to a caller. */
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

/** The last reading of each file, by path. A file of the same size and time is not read again. */
export type SkillCache = Map<string, { readonly version: string; readonly loaded: LoadedSkill }>;

type LoadedSkill = { readonly skill?: Skill | undefined; readonly problems: readonly LocatedProblem[] };

/** Limits of one folder. They count entries and bytes, not time, so the result is the same on every machine. */
const DEPTH_LIMIT = 5;
const FOLDER_LIMIT = 2_000;
const FILE_LIMIT = 512;
const SKILL_BYTES = 16 * 1024 * 1024;
const TEXT_BYTES = 1024 * 1024;
const AT_ONCE = 32;
const SKIPPED = new Set([".git", "node_modules"]);
const FILE_NAMES = ["SKILL.md", "Skill.md", "skill.md"];

/** Finds and reads every skill below the roots. A root that does not exist is empty. Never rejects. */
export async function loadSkills(roots: readonly SkillRoot[], cache: SkillCache = new Map()): Promise<LoadedSkills> {
  const byName = new Map<string, Skill>();
  const problems: LocatedProblem[] = [];
  for (const root of roots) {
    const files = await findSkillFiles(root.folder, problems);
    for (let at = 0; at < files.length; at += AT_ONCE) {
      const portion = files.slice(at, at + AT_ONCE);
      for (const loaded of await Promise.all(portion.map((file) => loadCached(file, root, cache)))) add(loaded);
    }
  }
  return { skills: [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1)), problems };

  function add({ skill, problems: found }: LoadedSkill): void {
    problems.push(...found);
    if (skill === undefined) return;
    const first = byName.get(skill.name);
    if (first === undefined) return void byName.set(skill.name, skill);
    const file = join(skill.folder, skill.fileName);
    problems.push({ file, ...createWarning("duplicate", `${skill.name} is already defined in ${first.folder}`) });
  }
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
    const name = FILE_NAMES.find((each) => entries.some((entry) => entry.name === each && entry.isFile()));
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

async function loadCached(file: string, root: SkillRoot, cache: SkillCache): Promise<LoadedSkill> {
  const folder = dirname(file);
  const locate = (problems: readonly SkillProblem[]) => ({ problems: problems.map((each) => ({ file, ...each })) });
  try {
    return await withRegularFile(file, async (handle, { size, version }) => {
      const known = cache.get(file);
      if (known?.version === version) return known.loaded;
      const loaded = size > TEXT_BYTES ? locate([TOO_LARGE]) : readSkill(await handle.readFile());
      cache.set(file, { version, loaded });
      return loaded;
    });
  } catch (thrown) {
    return locate([createError("unreadable", `it cannot be read: ${getErrorMessage(thrown)}`)]);
  }

  function readSkill(bytes: Buffer): LoadedSkill {
    const text = decodeUtf8(bytes);
    if (text === undefined) return locate([createError("encoding", "not UTF-8 text")]);
    const { skill, problems } = parseSkillFile(text, basename(folder));
    return { ...locate(problems), skill: skill && { ...skill, folder, root, fileName: basename(file) } };
  }
}

const TOO_LARGE = createError("size", `larger than ${TEXT_BYTES} bytes`);

type OpenFile = Awaited<ReturnType<typeof open>>;
type FileVersion = { readonly size: number; readonly version: string };

/** Opens a file that is neither a link nor a device: a link could lead out of the folder, and a pipe never ends. */
async function withRegularFile<T>(path: string, work: (handle: OpenFile, facts: FileVersion) => Promise<T>) {
  const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants;
  const handle = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const stats = await handle.stat();
    if (!stats.isFile()) throw new Error("it is not a regular file");
    return await work(handle, { size: stats.size, version: `${stats.ino} ${stats.size} ${stats.mtimeMs}` });
  } finally {
    await handle.close();
  }
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Lists and hashes the files of a skill. Left out: links, and names that could look like other text to a model. */
export async function readSkillContents({ folder }: Skill): Promise<SkillContents> {
  const problems: SkillProblem[] = [];
  const files: string[] = [];
  const waiting = [folder];
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    for (const entry of await readdir(next, { withFileTypes: true })) {
      const path = join(next, entry.name);
      const name = relative(folder, path).split(sep).join("/");
      if (entry.isDirectory() && !SKIPPED.has(entry.name)) waiting.push(path);
      else if (entry.isFile() && toOneLine(name) === name) files.push(name);
      else if (!entry.isDirectory()) problems.push(createWarning("file-name", `${quoteName(name)} is left out`));
    }
    if (files.length + waiting.length + problems.length > FILE_LIMIT) {
      problems.push(createError("size", `more than ${FILE_LIMIT} files`));
      return { files, problems };
    }
  }
  files.sort();
  const hash = createHash("sha256");
  let bytes = 0;
  for (const name of files) {
    const content = await withRegularFile(join(folder, name), async (handle, { size }) => {
      bytes += size;
      return bytes > SKILL_BYTES ? undefined : handle.readFile();
    });
    if (content === undefined) {
      problems.push(createError("size", `more than ${SKILL_BYTES} bytes of files`));
      return { files, problems };
    }
    hash.update(`${JSON.stringify(name)} ${createHash("sha256").update(content).digest("hex")}\n`);
  }
  return { files, problems, digest: hash.digest("hex") };
}

const LINK = /\]\(([^)\s]{1,300})(?:\s[^)]{0,200})?\)/g;

/** Links of the body to files that the folder does not have, or outside of it. For lint: it takes time. */
export function findBrokenLinks({ body, bodyLine }: SkillFile, files: readonly string[]): readonly SkillProblem[] {
  const known = new Set(files.flatMap((file) => [file, ...listParents(file)]));
  const found = new Map<string, SkillProblem>();
  for (const [at, line] of body.split("\n").entries())
    for (const [, target = ""] of line.matchAll(LINK)) {
      const path = posix.normalize(decodeLink(target.replace(/[#?].*$/, ""))).replace(/\/$/, "");
      if (/^(?:[a-z][a-z0-9+.-]*:|\/|$)/i.test(target) || path === "." || known.has(path) || found.has(path)) continue;
      const isOutside = path.startsWith("../");
      const message = `${quoteName(path)} ${isOutside ? "is outside of the skill's folder" : "does not exist"}`;
      found.set(path, { rule: "file-link", level: "warning", line: bodyLine + at, message });
    }
  return [...found.values()];
}

function listParents(file: string): readonly string[] {
  const parent = posix.dirname(file);
  return parent === "." ? [] : [parent, ...listParents(parent)];
}

function decodeLink(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
