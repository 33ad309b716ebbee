import { existsSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { arch } from "node:os";
import { resolve } from "node:path";
import { QmError } from "../core/errors.ts";
import { type SandboxedCommand, type SandboxRequest, type SandboxUser, SYSTEM_PATH } from "../core/sandbox.ts";
import {
  createWriteError,
  findHiddenPaths,
  isInside,
  listHidingMounts,
  listMountPoints,
  resolveGrants,
} from "./grants.ts";
import { coverInheritedFds } from "./inherited-fds.ts";
import { buildSyscallFilter } from "./syscall-filter.ts";

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
const SHARED_MEMORY_BYTES = 16 * 1024 * 1024;
const OPEN_FILES = 1_024;
/** The folder under which `BECOME_USER` mounts the granted files for the sandbox. */
const STAGE = "/mnt";
/**
 * For root: gives up the rights of root, and shows granted files below private folders to a user that may not enter those.
 * It runs in a mount namespace of its own, so no other process sees the mounts. All in one process, which ends with ours.
 */
const BECOME_USER = `
uid=$1 gid=$2 at=0; shift 2; umask 022
mount -t tmpfs tmpfs ${STAGE} || exit
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mkdir ${STAGE}/$at; else : > ${STAGE}/$at; fi
  mount --bind "$1" ${STAGE}/$at || exit
  at=$((at + 1)); shift
done
shift; exec setpriv --reuid "$uid" --regid "$gid" --clear-groups -- "$@"
`;

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
  { settings, command, cwd, env, streams }: SandboxRequest,
  programs: BubblewrapPrograms,
  protect: readonly string[],
  user: SandboxUser | undefined,
): Promise<SandboxedCommand> {
  const grants = await resolveGrants(settings);
  for (const program of Object.values(programs)) {
    const real = await realpath(program).catch(() => program);
    // A sandboxed program could replace this one, and the next program would not be isolated.
    const around = grants.find(({ path, canWrite }) => canWrite && (isInside(real, path) || isInside(program, path)));
    if (around !== undefined) throw createWriteError(around.path, `it holds ${program}`);
  }
  const filter = buildSyscallFilter(arch());
  if (filter === undefined)
    throw new QmError("action_failed", `there is no sandbox for processors of the type ${arch()}`);
  const hidden = await findHiddenPaths(protect, grants);
  const shown = listMountPoints(grants, hidden);
  const findSource = (path: string, at: number) => (user === undefined ? path : `${STAGE}/${at}`);
  const folder = await realpath(cwd).catch(() => resolve(cwd));
  const isGranted = [...grants.map(({ path }) => path), ...SYSTEM].some((grant) => isInside(folder, grant));
  // The folders around a grant exist in the sandbox, with nothing else in them.
  const isAround = folder !== "/" && grants.some(({ path }) => isInside(path, folder));
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
    // It lists the names of the keys of the login session.
    ...(existsSync("/proc/keys") ? ["--ro-bind", "/dev/null", "/proc/keys"] : []),
    ...shown.flatMap(({ path, canWrite }, at) => [canWrite ? "--bind" : "--ro-bind", findSource(path, at), path]),
    ...listHidingMounts(hidden),
    ...["--remount-ro", "/", "--chdir", isGranted || isAround ? folder : "/tmp"],
  ];
  const variables = { PATH: SYSTEM_PATH, HOME: "/tmp", TMPDIR: "/tmp", LANG: "C.UTF-8", ...env };
  const setting = Object.entries(variables).flatMap(([name, value]) => ["--setenv", name, value]);
  const [optionsFd, filterFd, statusFd] = [streams.length, streams.length + 1, streams.length + 2];
  const channels = ["--seccomp", String(filterFd), "--json-status-fd", String(statusFd)];
  const options = [...ISOLATION, ...channels, ...(settings.network ? [] : ["--unshare-net"]), ...mounts, ...setting];
  // NUL characters separate the options, so a variable that holds one could add options.
  if ([...options, ...command].some((text) => text.includes("\0")))
    throw new QmError("invalid_arguments", "a program, its folder and its variables cannot hold NUL characters");
  const isolate = [programs.bwrap, "--args", String(optionsFd), "--", programs.prlimit, ...listLimits(settings), "--"];
  const become =
    user === undefined
      ? []
      : [
          ...["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", BECOME_USER, "sh"],
          ...[String(user.uid), String(user.gid), ...shown.map(({ path }) => path), "--"],
        ];
  const [file = "", ...args] = [...become, ...isolate, ...command];
  return {
    file,
    args,
    options: {
      cwd: "/",
      // Variables of the program, such as LD_PRELOAD, must not change the sandbox.
      env: {},
      stdio: await coverInheritedFds([...streams, "pipe", "pipe", "pipe"]),
      detached: true,
    },
    inputs: new Map<number, string | Uint8Array>([
      [optionsFd, options.join("\0")],
      [filterFd, filter],
    ]),
    statusFd,
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
