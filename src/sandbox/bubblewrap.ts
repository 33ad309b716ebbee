import { lstat, realpath, stat } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path";
import { QmError } from "../core/errors.ts";
import type { SandboxedCommand, SandboxRequest, SandboxUser } from "../core/sandbox.ts";
import { listInheritedFds } from "./inherited-fds.ts";

/** The programs that isolate others, as absolute paths. */
export interface BubblewrapPrograms {
  readonly bwrap: string;
  readonly prlimit: string;
  /** The program that runs JavaScript. */
  readonly node: string;
}

/** The user of a program that would otherwise run as root. */
export const NOBODY: SandboxUser = { uid: 65_534, gid: 65_534 };

const SYSTEM = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/** The files of /etc that programs need to start and to check certificates. None of them is secret. */
const SYSTEM_SETTINGS = [
  "alternatives",
  "ca-certificates",
  "group",
  "ld.so.cache",
  "ld.so.conf",
  "ld.so.conf.d",
  "localtime",
  "mime.types",
  "nsswitch.conf",
  "passwd",
  "pki/ca-trust",
  "pki/tls/certs",
  "ssl/certs",
  "ssl/openssl.cnf",
].map((name) => `/etc/${name}`);
const NETWORK_SETTINGS = ["/etc/hosts", "/etc/resolv.conf", "/etc/services", "/etc/protocols"];
/** A grant of one of these, or of a folder around it, would undo the sandbox. */
const NEVER_GRANTED = ["/dev", "/etc", "/proc", "/run", "/sys", "/tmp", "/usr", "/var"];
const SHARED_MEMORY_BYTES = 16 * 1024 * 1024;
const OPEN_FILES = 1_024;
const SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin";

const NAMESPACES = ["user", "pid", "ipc", "uts", "cgroup"].map((name) => `--unshare-${name}`);
const ISOLATION = [
  ...NAMESPACES,
  ...["--uid", String(NOBODY.uid), "--gid", String(NOBODY.gid), "--hostname", "sandbox"],
  ...["--cap-drop", "ALL", "--disable-userns", "--new-session", "--die-with-parent", "--clearenv"],
];

/**
 * The command that runs another one in a sandbox. Protected paths are hidden wherever a grant would show them. Throws
 * `invalid_config` for a grant that would undo the sandbox.
 */
export async function buildBubblewrapCommand(
  { settings, command, cwd, env, inputFd, statusFd }: SandboxRequest,
  programs: BubblewrapPrograms,
  protect: readonly string[],
  user: SandboxUser | undefined,
): Promise<SandboxedCommand> {
  const grants: readonly Grant[] = [
    ...(await Promise.all(settings.read.map(async (path) => ({ path: await resolveGrant(path), canWrite: false })))),
    ...(await Promise.all(settings.write.map(async (path) => ({ path: await resolveGrant(path), canWrite: true })))),
  ];
  for (const program of [programs.bwrap, programs.prlimit, programs.node]) {
    const real = await realpath(program).catch(() => program);
    // A program could replace it, and the next one would not be isolated.
    const around = grants.find(({ path, canWrite }) => canWrite && (isInside(real, path) || isInside(program, path)));
    if (around !== undefined) throw createWriteError(around.path, `it holds ${program}`);
  }
  const hidden = await findHiddenPaths(protect, grants);
  const folder = await realpath(cwd).catch(() => resolve(cwd));
  const isGranted = [...grants.map(({ path }) => path), ...SYSTEM].some((grant) => isInside(folder, grant));
  const fileBytes = settings.fileMb * 1024 * 1024;
  const mounts = [
    ...SYSTEM.flatMap((path) => ["--ro-bind-try", path, path]),
    ...[...SYSTEM_SETTINGS, ...(settings.network ? NETWORK_SETTINGS : [])].flatMap((path) => [
      "--ro-bind-try",
      path,
      path,
    ]),
    ...["--proc", "/proc", "--dev", "/dev", "--size", String(SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"],
    ...["--remount-ro", "/dev", "--size", String(fileBytes), "--tmpfs", "/tmp"],
    ...listGrantMounts(grants, hidden),
    ...listHidingMounts(hidden),
    ...["--remount-ro", "/", "--chdir", isGranted ? folder : "/tmp"],
  ];
  const variables = { PATH: SEARCH_PATH, HOME: "/tmp", TMPDIR: "/tmp", LANG: "C.UTF-8", ...env };
  const setting = Object.entries(variables).flatMap(([name, value]) => ["--setenv", name, value]);
  const status = statusFd === undefined ? [] : ["--json-status-fd", String(statusFd)];
  const options = [...ISOLATION, ...status, ...(settings.network ? [] : ["--unshare-net"]), ...mounts, ...setting];
  // The options are separated by it, so a variable that holds one could add options.
  if ([...options, ...command].some((text) => text.includes("\0")))
    throw new QmError("invalid_arguments", "a program, its folder and its variables cannot hold NUL characters");
  return {
    file: programs.bwrap,
    args: ["--args", String(inputFd), "--", programs.prlimit, ...listLimits(settings), "--", ...command],
    input: options.join("\0"),
    // Variables of the program, such as LD_PRELOAD, must not change the sandbox.
    env: {},
    inherited: await listInheritedFds(),
    ...(user === undefined ? {} : { user }),
  };
}

function listLimits({ memoryMb, processes, cpuSeconds, fileMb }: SandboxRequest["settings"]): readonly string[] {
  const megabytes = (count: number) => String(count * 1024 * 1024);
  return [
    "--core=0",
    `--nofile=${OPEN_FILES}`,
    `--nproc=${processes}`,
    `--data=${megabytes(memoryMb)}`,
    `--fsize=${megabytes(fileMb)}`,
    ...(cpuSeconds === undefined ? [] : [`--cpu=${cpuSeconds}`]),
  ];
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

/** Below which others may be granted or hidden. */
interface Grant {
  readonly path: string;
  readonly canWrite: boolean;
}

/** A protected path inside a grant. */
interface HiddenPath {
  readonly path: string;
  readonly isFolder: boolean;
}

/**
 * The protected paths inside the grants. Throws if a program could create a missing one: nothing can be mounted there.
 * Only a lock file may be missing, because an extra one does no harm.
 */
async function findHiddenPaths(protect: readonly string[], grants: readonly Grant[]): Promise<readonly HiddenPath[]> {
  const found = new Map<string, boolean>();
  const missing = new Map<string, string>();
  for (const path of [...protect, ...(await listRepositories(grants))]) {
    const real = await realpath(path).catch(() => undefined);
    if (real !== undefined) {
      const inside = grants.find((grant) => grant.canWrite && isInside(grant.path, real));
      if (inside !== undefined) throw createWriteError(inside.path, `${real} is protected`);
      if (grants.some((grant) => isInside(real, grant.path))) found.set(real, (await stat(real)).isDirectory());
      continue;
    }
    if (path.endsWith(".lock")) continue;
    const nearest = await resolveNearest(path);
    const grant = findInnermost(grants, nearest);
    if (grant?.canWrite === true && isInside(nearest, grant.path)) missing.set(path, grant.path);
  }
  const outer = [...found.keys()].filter((path, _, all) => !all.some((each) => each !== path && isInside(path, each)));
  for (const [path, grant] of missing) {
    if (outer.some((each) => found.get(each) === true && isInside(path, each))) continue;
    throw createWriteError(grant, `a program could create ${path}`);
  }
  return outer.map((path) => ({ path, isFolder: found.get(path) === true }));
}

/**
 * The hooks and settings in it run programs outside the sandbox when a person uses git. A link is left alone: a program
 * may have made it.
 */
async function listRepositories(grants: readonly Grant[]): Promise<readonly string[]> {
  const paths = grants.filter(({ canWrite }) => canWrite).map(({ path }) => join(path, ".git"));
  const kinds = await Promise.all(paths.map((path) => lstat(path).catch(() => undefined)));
  return paths.filter((_, at) => kinds[at]?.isDirectory() === true || kinds[at]?.isFile() === true);
}

const createWriteError = (grant: string, why: string): QmError =>
  new QmError("invalid_config", `the sandbox cannot grant ${grant} for writing: ${why}`, {
    hint: "A person must grant another folder in the configuration.",
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
function listGrantMounts(grants: readonly Grant[], hidden: readonly HiddenPath[]): readonly string[] {
  const between = new Map<string, Grant>();
  for (const { path } of [...grants, ...hidden])
    for (let folder = dirname(path); folder !== dirname(folder); folder = dirname(folder)) {
      const around = findInnermost(grants, folder);
      if (around !== undefined && around.path !== folder) between.set(folder, { ...around, path: folder });
    }
  return [...between.values(), ...grants]
    .toSorted((a, b) => a.path.length - b.path.length)
    .flatMap(({ path, canWrite }) => [canWrite ? "--bind" : "--ro-bind", path, path]);
}

const listHidingMounts = (hidden: readonly HiddenPath[]): readonly string[] =>
  hidden.flatMap(({ path, isFolder }) =>
    isFolder ? ["--size", "4096", "--tmpfs", path, "--remount-ro", path] : ["--ro-bind", "/dev/null", path],
  );

export function isInside(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}
