import { realpath, stat } from "node:fs/promises";
import { dirname, isAbsolute, relative, resolve, sep } from "node:path";
import { QmError } from "../core/errors.ts";
import type { SandboxedCommand, SandboxRequest, SandboxUser } from "../core/sandbox.ts";

/** The programs that isolate others, as absolute paths. */
export interface BubblewrapPrograms {
  readonly bwrap: string;
  readonly prlimit: string;
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
  { settings, command, cwd, env, inputFd }: SandboxRequest,
  programs: BubblewrapPrograms,
  protect: readonly string[],
  user: SandboxUser | undefined,
): Promise<SandboxedCommand> {
  const read = await Promise.all(settings.read.map(resolveGrant));
  const write = await Promise.all(settings.write.map(resolveGrant));
  const hidden = await listHiddenMounts(protect, [...read, ...write]);
  const folder = await realpath(cwd).catch(() => resolve(cwd));
  const isGranted = [...read, ...write, ...SYSTEM].some((grant) => isInside(folder, grant));
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
    // Outer folders first: a later mount covers what an earlier one shows below it.
    ...[...read.map((path) => ["--ro-bind", path]), ...write.map((path) => ["--bind", path])]
      .sort(([, a = ""], [, b = ""]) => a.length - b.length)
      .flatMap(([option = "", path = ""]) => [option, path, path]),
    ...hidden,
    ...["--remount-ro", "/", "--chdir", isGranted ? folder : "/tmp"],
  ];
  const variables = { PATH: SEARCH_PATH, HOME: "/tmp", TMPDIR: "/tmp", LANG: "C.UTF-8", ...env };
  const setting = Object.entries(variables).flatMap(([name, value]) => ["--setenv", name, value]);
  const options = [...ISOLATION, ...(settings.network ? [] : ["--unshare-net"]), ...mounts, ...setting];
  return {
    file: programs.bwrap,
    args: ["--args", String(inputFd), "--", programs.prlimit, ...listLimits(settings), "--", ...command],
    input: options.join("\0"),
    // Variables of the program, such as LD_PRELOAD, must not change the sandbox.
    env: {},
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
    const hint = "Create it, or correct the configuration.";
    throw new QmError("invalid_config", `the sandbox cannot grant ${path}: it does not exist`, { hint });
  });
  const around = NEVER_GRANTED.find((each) => isInside(each, real));
  const system = ["/dev", "/proc", "/sys"].find((each) => isInside(real, each));
  const reason = around ?? system;
  if (reason === undefined) return real;
  throw new QmError("invalid_config", `the sandbox cannot grant ${path}: it would open ${reason}`, {
    hint: "Grant a folder further down.",
  });
}

/**
 * Mounts that hide the protected files and folders below the grants. The folders between are mount points too: otherwise a
 * program could rename one, and the next program would find the protected file under another path.
 */
async function listHiddenMounts(protect: readonly string[], grants: readonly string[]): Promise<readonly string[]> {
  const between = new Set<string>();
  const hidden = new Map<string, boolean>();
  for (const path of protect) {
    const real = await realpath(path).catch(() => undefined);
    if (real === undefined) continue;
    const around = grants.filter((grant) => isInside(real, grant));
    if (around.length === 0) continue;
    hidden.set(real, (await stat(real)).isDirectory());
    for (const grant of around)
      for (let folder = dirname(real); folder !== grant && isInside(folder, grant); folder = dirname(folder))
        between.add(folder);
  }
  const isHidden = (path: string) => [...hidden.keys()].some((each) => each !== path && isInside(path, each));
  // A mount on itself, with the rights of the grant around it.
  const fixed = [...between].filter((path) => !isHidden(path)).sort((a, b) => a.length - b.length);
  return [
    ...fixed.flatMap((path) => ["--bind", path, path]),
    ...[...hidden]
      .filter(([path]) => !isHidden(path))
      .flatMap(([path, isFolder]) =>
        isFolder ? ["--size", "4096", "--tmpfs", path, "--remount-ro", path] : ["--ro-bind", "/dev/null", path],
      ),
  ];
}

export function isInside(path: string, folder: string): boolean {
  const way = relative(folder, path);
  return way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way);
}
