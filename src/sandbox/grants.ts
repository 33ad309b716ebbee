import { lstat, realpath, stat } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, relative, sep } from "node:path";
import { QmError } from "../core/errors.ts";
import type { SandboxGrants } from "../core/sandbox.ts";

/** A grant of one of these, or of a folder around it, would undo the sandbox. */
const NEVER_GRANTED = ["/dev", "/etc", "/proc", "/run", "/sys", "/tmp", "/usr", "/var"];

/** A file or folder that a program may reach. Paths below it may be granted or hidden on their own. */
interface Grant {
  readonly path: string;
  readonly canWrite: boolean;
}

/** A protected path inside a grant. */
interface HiddenPath {
  readonly path: string;
  readonly isFolder: boolean;
}

/** The grants with links followed. Throws `invalid_config` for one that would undo the sandbox. */
export async function resolveGrants({ read, write }: SandboxGrants): Promise<readonly Grant[]> {
  const resolveAll = (paths: readonly string[], canWrite: boolean) =>
    Promise.all(paths.map(async (path) => ({ path: await resolveGrant(path), canWrite })));
  return [...(await resolveAll(read, false)), ...(await resolveAll(write, true))];
}

async function resolveGrant(path: string): Promise<string> {
  const real = await realpath(path).catch(() => {
    const hint = "A person must create it, or correct the configuration.";
    throw new QmError("invalid_config", `the sandbox cannot grant ${path}: it does not exist`, { hint });
  });
  const around = NEVER_GRANTED.find((each) => isInside(each, real));
  const system = ["/dev", "/proc", "/sys"].find((each) => isInside(real, each));
  const reason = around ?? system;
  if (reason === undefined) return real;
  throw new QmError("invalid_config", `the sandbox cannot grant ${path}: it would open ${reason}`, {
    hint: "A person must grant a folder further down in the configuration.",
  });
}

/**
 * The protected paths inside the grants. Throws if a program could change or create a protected file. A file that is hidden
 * by a mount appears again when someone replaces it, so that is no protection against changes. A folder stays hidden.
 * Only a lock file may be created, because an extra one does no harm.
 */
export async function findHiddenPaths(
  protect: readonly string[],
  grants: readonly Grant[],
): Promise<readonly HiddenPath[]> {
  const found = new Map<string, boolean>();
  const open = new Map<string, string>();
  const repositories = await listRepositories(grants);
  for (const path of [...protect, ...repositories]) {
    const real = await realpath(path).catch(() => undefined);
    const inside = grants.find((grant) => grant.canWrite && real !== undefined && isInside(grant.path, real));
    if (inside !== undefined) throw createWriteError(inside.path, `${real} is protected`);
    const nearest = real ?? (await resolveNearest(path));
    const grant = findInnermost(grants, nearest);
    if (grant === undefined) continue;
    const isFolder = real !== undefined && (await stat(real)).isDirectory();
    if (grant.canWrite && !isFolder && !path.endsWith(".lock") && !repositories.includes(path))
      open.set(nearest, grant.path);
    else if (real !== undefined) found.set(real, isFolder);
  }
  const outer = [...found.keys()].filter((path, _, all) => !all.some((each) => each !== path && isInside(path, each)));
  for (const [path, grant] of open) {
    if (outer.some((each) => found.get(each) === true && isInside(path, each))) continue;
    throw createWriteError(grant, `a program could change ${path}`);
  }
  return outer.map((path) => ({ path, isFolder: found.get(path) === true }));
}

/**
 * The `.git` of each writable folder: its hooks and settings run programs outside the sandbox when a person uses git. A
 * link is left alone: a program may have made it.
 */
async function listRepositories(grants: readonly Grant[]): Promise<readonly string[]> {
  const paths = grants.filter(({ canWrite }) => canWrite).map(({ path }) => join(path, ".git"));
  const kinds = await Promise.all(paths.map((path) => lstat(path).catch(() => undefined)));
  return paths.filter((_, at) => kinds[at]?.isDirectory() === true || kinds[at]?.isFile() === true);
}

export const createWriteError = (grant: string, why: string): QmError =>
  new QmError("invalid_config", `the sandbox cannot grant ${grant} for writing: ${why}`, {
    hint: "A person must grant a folder without it in the configuration.",
  });

/** The path with the links of its existing part followed. */
async function resolveNearest(path: string): Promise<string> {
  const above = dirname(path);
  if (above === path) return path;
  const real = await realpath(path).catch(() => undefined);
  return real ?? join(await resolveNearest(above), basename(path));
}

/** The grant that decides about a path: the last of the longest. */
const findInnermost = (grants: readonly Grant[], path: string): Grant | undefined =>
  grants
    .filter((grant) => isInside(path, grant.path))
    .reduce<Grant | undefined>((best, each) => (each.path.length >= (best?.path.length ?? 0) ? each : best), undefined);

/**
 * Outer folders first: a later mount covers what an earlier one shows below it. The folders between a grant and a path
 * inside it that is granted or hidden are mount points too. Otherwise a program could rename one, and the next program
 * would find another file under the path.
 */
export function listMountPoints(grants: readonly Grant[], hidden: readonly HiddenPath[]): readonly Grant[] {
  const between = new Map<string, Grant>();
  for (const { path } of [...grants, ...hidden])
    for (let folder = dirname(path); folder !== dirname(folder); folder = dirname(folder)) {
      const around = findInnermost(grants, folder);
      if (around !== undefined && around.path !== folder) between.set(folder, { ...around, path: folder });
    }
  return [...between.values(), ...grants].toSorted((a, b) => a.path.length - b.path.length);
}

export const listHidingMounts = (hidden: readonly HiddenPath[]): readonly string[] =>
  hidden.flatMap(({ path, isFolder }) =>
    isFolder ? ["--size", "4096", "--tmpfs", path, "--remount-ro", path] : ["--ro-bind", "/dev/null", path],
  );

export function isInside(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}
