import { createHash } from "node:crypto";
import { constants, type Dirent } from "node:fs";
import { lstat, open, opendir, readdir, realpath } from "node:fs/promises";
import { basename, dirname, join, posix, relative, sep } from "node:path";
import { yieldToEventLoop } from "../../core/async.ts";
import { decodeText } from "../../core/decode-text.ts";
import { toOneLine } from "../../core/display-text.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { digestFiles, type FileBytes, hashFiles } from "../../core/file-digest.ts";
import { quoteName, SEPARATOR } from "../../core/names.ts";
import { TOOL_FILES } from "./code/tool-file.ts";
import { parseSkillFile, type SkillFile, type SkillProblem } from "./skill-file.ts";

/** A folder that is searched for skills. */
export interface SkillRoot {
  readonly folder: string;
  /** The origin of its skills, as `qm skills list` shows it. Also a tag of their actions. */
  readonly source: string;
  /** Whether a person chose this folder. A skill of another folder needs approval before it is used. */
  readonly trusted: boolean;
  /** The world that its skills belong to and are named after: `<world>__<name>`. Absent: every caller may have them. */
  readonly world?: string;
}

export interface Skill extends SkillFile {
  /** Absolute, with links followed. Never shown to a caller. */
  readonly folder: string;
  readonly root: SkillRoot;
  /** The name of its file: `SKILL.md`, or another spelling of it. */
  readonly fileName: string;
  /** Which of the files of a code skill it has. */
  readonly toolFiles: readonly string[];
  /** Whether it is outside of the root, behind a link. The file actions may be able to change it there. */
  readonly isLinked: boolean;
}

export interface SkillContents {
  /** The bytes of all files by path, relative to the folder, sorted. */
  readonly files: FileBytes;
  /** The hash of the names and contents of these files. Absent: a problem of level `error` says why. */
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

/** The last reading of each file, by world, root and path. A file of the same size and time is not read again. */
export type SkillCache = Map<string, { readonly version: string; readonly loaded: LoadedSkill }>;

type LoadedSkill = { readonly skill?: Skill | undefined; readonly problems: readonly LocatedProblem[] };

/** Limits of one folder. They count entries and bytes, not time, so the result is the same on every machine. */
const DEPTH_LIMIT = 5;
const FOLDER_LIMIT = 2_000;
const FILE_LIMIT = 2_000;
/** A folder with more files and folders is not read at all. */
const ENTRY_LIMIT = 20_000;
const SKILL_BYTES = 16 * 1024 * 1024;
const SKILL_FILE_BYTES = 1024 * 1024;
const AT_ONCE = 32;
const SKIPPED = new Set([".git", "node_modules"]);
/** Any spelling of `SKILL.md`. */
const SKILL_FILE_NAME = /^skill\.md$/i;

/** Finds and reads every skill below the roots. A root that does not exist is empty. Never rejects. */
export async function loadSkills(roots: readonly SkillRoot[], cache: SkillCache = new Map()): Promise<LoadedSkills> {
  const byName = new Map<string, Skill>();
  const problems: LocatedProblem[] = [];
  let turns: Promise<void> = Promise.resolve();
  // One file is parsed in each turn of the event loop, because a hostile one takes long.
  const takeTurn = (): Promise<void> => {
    turns = turns.then(yieldToEventLoop);
    return turns;
  };
  for (const root of roots) {
    const files = await findSkillFiles(root.folder, problems);
    const realRoot = await realpath(root.folder).catch(() => root.folder);
    for (let at = 0; at < files.length; at += AT_ONCE) {
      const portion = files.slice(at, at + AT_ONCE);
      for (const loaded of await Promise.all(portion.map((file) => loadCached(file, root, realRoot, cache, takeTurn))))
        add(loaded);
    }
  }
  return { skills: [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1)), problems };

  function add({ skill, problems: found }: LoadedSkill): void {
    problems.push(...found);
    if (skill === undefined) return;
    // Names that differ in case alone are mistaken for each other.
    const key = skill.name.toLowerCase();
    const first = byName.get(key);
    if (first === undefined) return void byName.set(key, skill);
    // A folder inside another root is found twice.
    if (first.folder === skill.folder) return;
    const file = join(skill.folder, skill.fileName);
    problems.push({ file, ...createWarning("duplicate", `${skill.name} is already defined in ${first.folder}`) });
  }
}

const createWarning = (rule: string, message: string): SkillProblem => ({ rule, level: "warning", line: 1, message });
const createError = (rule: string, message: string): SkillProblem => ({ rule, level: "error", line: 1, message });

type FoundSkill = { readonly file: string; readonly toolFiles: readonly string[] };

/** The SKILL.md files below a folder, sorted. The folders below a skill belong to it and hold no further skills. */
async function findSkillFiles(root: string, problems: LocatedProblem[]): Promise<readonly FoundSkill[]> {
  const found: FoundSkill[] = [];
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
    const files = entries.filter((entry) => entry.isFile()).map((entry) => entry.name);
    const names = files.filter((file) => SKILL_FILE_NAME.test(file));
    const name = names.find((each) => each === "SKILL.md") ?? names.sort()[0];
    if (name !== undefined)
      found.push({ file: join(folder, name), toolFiles: TOOL_FILES.filter((each) => files.includes(each)) });
    else if (depth < DEPTH_LIMIT)
      waiting.push(...listFolders(entries, path).map((each) => ({ path: each, depth: depth + 1 })));
  }
  return found.sort((a, b) => (a.file < b.file ? -1 : 1));
}

const listFolders = (entries: readonly Dirent[], folder: string): readonly string[] =>
  entries
    .filter((entry) => (entry.isDirectory() || entry.isSymbolicLink()) && !SKIPPED.has(entry.name))
    .map(({ name }) => join(folder, name));

async function loadCached(
  { file, toolFiles }: FoundSkill,
  root: SkillRoot,
  realRoot: string,
  cache: SkillCache,
  takeTurn: () => Promise<void>,
): Promise<LoadedSkill> {
  const folder = dirname(file);
  const key = `${root.world ?? ""}\n${root.folder}\n${file}`;
  const locate = (problems: readonly SkillProblem[]) => ({ problems: problems.map((each) => ({ file, ...each })) });
  try {
    return await withRegularFile(file, async (handle, { size, version: own }) => {
      const version = [own, ...toolFiles].join(" ");
      const known = cache.get(key);
      if (known?.version === version) return known.loaded;
      const bytes = size > SKILL_FILE_BYTES ? undefined : await readExactly(handle, size);
      await takeTurn();
      const loaded = bytes === undefined ? locate([TOO_LARGE]) : readSkill(bytes);
      cache.set(key, { version, loaded });
      return loaded;
    });
  } catch (thrown) {
    return locate([createError("unreadable", `it cannot be read: ${getErrorMessage(thrown)}`)]);
  }

  function readSkill(bytes: Buffer): LoadedSkill {
    const text = decodeText(bytes);
    if (text === undefined) return locate([createError("encoding", "it is not UTF-8 text")]);
    const { skill, problems } = parseSkillFile(text, basename(folder));
    if (skill === undefined) return locate(problems);
    const name = root.world === undefined ? skill.name : `${root.world}${SEPARATOR}${skill.name}`;
    const isLinked = relative(realRoot, folder).startsWith("..");
    return {
      ...locate(problems),
      skill: { ...skill, name, folder, root, fileName: basename(file), toolFiles, isLinked },
    };
  }
}

const TOO_LARGE = createError("size", `larger than ${SKILL_FILE_BYTES} bytes`);

type OpenFile = Awaited<ReturnType<typeof open>>;
type FileVersion = { readonly size: number; readonly version: string };

/** Reads a file that has `size` bytes. One that grows while it is read is not read without a limit. */
async function readExactly(handle: OpenFile, size: number): Promise<Buffer> {
  const bytes = Buffer.alloc(size + 1);
  let length = 0;
  for (;;) {
    const { bytesRead } = await handle.read(bytes, length, bytes.length - length);
    length += bytesRead;
    if (length > size) break;
    if (bytesRead === 0) return bytes.subarray(0, length);
  }
  throw new Error("it changed while it was read");
}

/** Opens a file that is neither a link nor a device: a link could lead out of the folder, and a pipe never ends. */
async function withRegularFile<T>(path: string, work: (handle: OpenFile, facts: FileVersion) => Promise<T>) {
  const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants;
  const handle = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const stats = await handle.stat();
    if (!stats.isFile()) throw new Error("it is not a regular file");
    // A folder above it may have become a link after it was listed.
    if ((await realpath(path)) !== path) throw new Error("it was replaced by a link");
    return await work(handle, { size: stats.size, version: `${stats.ino} ${stats.size} ${stats.mtimeMs}` });
  } finally {
    await handle.close();
  }
}

/**
 * The names of the files of a skill, sorted. Left out: links, names that could look like other text to a model, and what is
 * over the limit. Undefined: a problem of level `error` says why.
 */
async function listSkillFiles(folder: string, problems: SkillProblem[]) {
  const names: string[] = [];
  const waiting = [folder];
  let entries = 0;
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    for await (const entry of await opendir(next)) {
      if (++entries > ENTRY_LIMIT) {
        problems.push(createError("size", `more than ${ENTRY_LIMIT} files and folders`));
        return undefined;
      }
      const path = join(next, entry.name);
      const name = relative(folder, path).split(sep).join("/");
      if (entry.isDirectory() && !SKIPPED.has(entry.name)) waiting.push(path);
      else if (entry.isFile() && toOneLine(name) === name) names.push(name);
      else if (!entry.isDirectory()) problems.push(createWarning("file-name", `${quoteName(name)} is left out`));
    }
  }
  // The names decide what is left out, not the order on disk: the digest is the same on every machine.
  const others = names.filter((name) => !SKILL_FILE_NAME.test(name)).sort();
  const kept = [...names.filter((name) => SKILL_FILE_NAME.test(name)), ...others].slice(0, FILE_LIMIT).sort();
  return { names: kept, leftOut: names.length - kept.length };
}

/** Reads and hashes the files of a skill. Never rejects: a problem says what cannot be read. */
export async function readSkillContents({ folder }: Pick<Skill, "folder">): Promise<SkillContents> {
  const problems: SkillProblem[] = [];
  const files = new Map<string, Uint8Array>();
  let current = "its folder";
  let bytes = 0;
  try {
    const listed = await listSkillFiles(folder, problems);
    if (listed === undefined) return { files, problems };
    let { leftOut } = listed;
    for (const name of listed.names) {
      current = quoteName(name);
      const content = await withRegularFile(join(folder, name), async (handle, { size }) => {
        if (size > (SKILL_FILE_NAME.test(name) ? SKILL_FILE_BYTES : SKILL_BYTES - bytes)) return undefined;
        bytes += size;
        return readExactly(handle, size);
      });
      if (content === undefined) {
        leftOut++;
        continue;
      }
      files.set(name, content);
      if (SKILL_FILE_NAME.test(posix.basename(name)) && name.includes("/"))
        problems.push(createWarning("nested", `${quoteName(name)} is a file of this skill and not offered by itself`));
    }
    const limits = `${FILE_LIMIT} files and ${SKILL_BYTES / 1024 / 1024} MB`;
    if (leftOut > 0)
      problems.push(createWarning("size", `${leftOut} files are left out; a skill has at most ${limits}`));
  } catch (thrown) {
    // The message of the system has the path, which callers must not see.
    const code = (thrown as NodeJS.ErrnoException).code;
    problems.push(createError("unreadable", `${current} cannot be read: ${code ?? getErrorMessage(thrown)}`));
    return { files, problems };
  }
  return { files, problems, digest: hashFiles(digestFiles(files)) };
}

/** A text that changes when a file of the skill does, without reading the files. Undefined: it cannot be told. */
export async function readSkillVersion({ folder }: Pick<Skill, "folder">): Promise<string | undefined> {
  try {
    const listed = await listSkillFiles(folder, []);
    const hash = createHash("sha256");
    for (const name of listed?.names ?? []) {
      const { ino, size, mtimeMs, ctimeMs } = await lstat(join(folder, name));
      hash.update(`${JSON.stringify(name)} ${ino} ${size} ${mtimeMs} ${ctimeMs}\n`);
    }
    return listed && hash.digest("hex");
  } catch {
    return undefined;
  }
}

/** A skill as it was read for one call. */
export interface SkillSnapshot extends SkillFile {
  readonly files: FileBytes;
  readonly digest: string;
}

/** Reads a skill for a call, once, so that what is checked is what is used. Throws `conflict` if it cannot be used now. */
export async function readSkillSnapshot(skill: Skill): Promise<SkillSnapshot> {
  const { files, digest, problems } = await readSkillContents(skill);
  const text = decodeText(files.get(skill.fileName) ?? new Uint8Array());
  const parsed = parseSkillFile(text ?? "", basename(skill.folder));
  const problem = [...problems, ...parsed.problems].find(({ level }) => level === "error");
  if (parsed.skill?.type === skill.type && digest !== undefined) return { ...parsed.skill, files, digest };
  // A message can quote the file, and no person may have seen it yet.
  const broken = skill.root.trusted ? problem?.message : problem && `it breaks the rule ${problem.rule}`;
  const message = `the skill ${skill.name} cannot be used: ${broken ?? "its type changed"}`;
  throw new QmError("conflict", message, { hint: "Tell {user} that its files must be fixed." });
}
