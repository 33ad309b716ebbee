import { spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { readFile, rm, symlink, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer, type Server } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cleanUp } from "../../src/cli/testing.ts";
import { openWorkspace, type Workspace } from "../../src/workspace/workspace.ts";
import { createSandboxFolder, findMissingSandbox, openToPrograms } from "../support/sandbox.ts";

const missing = findMissingSandbox("escapes from the sandbox");
const SECRET = "s3cret-canary-value";

/** What an attempt knows about the machine outside. */
interface Facts {
  readonly outside: string;
  readonly canary: string;
  /** Granted for reading. It holds the configuration. */
  readonly project: string;
  /** Granted for writing. It holds the state. */
  readonly work: string;
  readonly state: string;
  readonly port: number;
  readonly udp: number;
  readonly socket: string;
  readonly abstract: string;
  readonly pid: number;
  readonly secret: string;
}

/**
 * JavaScript that tries to escape. It throws, or returns false, if that was refused. `h` has the facts, `sh` runs a
 * program and throws unless it succeeds. With `!`, it would do harm outside a sandbox or depends on the machine. All others
 * must succeed there, which shows that each attempt works.
 */
const attempts: Readonly<Record<string, string>> = {
  "reads a file outside": "return fs.readFileSync(h.canary, 'utf8') === h.secret",
  "lists a folder outside": "return fs.readdirSync(h.outside).length > 0",
  "writes a file outside": "fs.writeFileSync(h.outside + '/made', 'x'); return true",
  "appends to a file outside": "fs.appendFileSync(h.canary, ''); return true",
  "renames a file outside": "fs.renameSync(h.outside + '/old', h.outside + '/new'); return true",
  "deletes a file outside": "fs.unlinkSync(h.outside + '/gone'); return true",
  "reads through a symbolic link":
    "fs.symlinkSync(h.canary, 'link'); return fs.readFileSync('link', 'utf8') === h.secret",
  "writes through a symbolic link":
    "fs.symlinkSync(h.outside + '/linked', 'link2'); fs.writeFileSync('link2', 'x'); return true",
  "reads through a linked folder":
    "fs.symlinkSync(h.outside, 'folder'); return fs.readdirSync('folder').includes('canary')",
  "makes a hard link": "fs.linkSync(h.canary, 'hard'); return true",
  "reads through /proc/self/root": "return fs.readFileSync('/proc/self/root' + h.canary, 'utf8') === h.secret",
  "reads through /proc/1/root!": "return fs.readFileSync('/proc/1/root' + h.canary, 'utf8') === h.secret",
  "reads through /proc/self/cwd": "return fs.existsSync('/proc/self/cwd' + '/..'.repeat(20) + h.canary)",
  "finds the secret in the variables of a process":
    "return fs.readdirSync('/proc').some((p) => { try { return fs.readFileSync('/proc/' + p + '/environ', 'utf8').includes(h.secret) } catch { return false } })",
  "reads the memory of Quartermaster!": "fs.openSync('/proc/' + h.pid + '/mem', 'r'); return true",
  "reads the descriptors of Quartermaster": "return fs.readdirSync('/proc/' + h.pid + '/fd').length > 0",
  "sees processes of this machine": "return fs.existsSync('/proc/' + h.pid)",
  "reads the configuration": "return fs.readFileSync(h.project + '/inner/quartermaster.yaml', 'utf8').includes('exec')",
  "reads the configuration above": "return fs.readFileSync(h.project + '/quartermaster.yaml', 'utf8') !== ''",
  "writes the configuration": "fs.appendFileSync(h.project + '/inner/quartermaster.yaml', '#'); return true",
  "renames the configuration": "return swap(h.project + '/inner/quartermaster.yaml', h.project + '/moved')",
  "replaces the configuration":
    "fs.writeFileSync('mine', '#'); fs.renameSync('mine', h.project + '/quartermaster.yaml'); return true",
  "deletes the configuration": "fs.unlinkSync(h.project + '/quartermaster.yaml'); return true",
  "renames the folder around the configuration": "return swap(h.project + '/inner', h.project + '/elsewhere')",
  "unmounts what hides the configuration!": "sh('umount', h.project + '/inner/quartermaster.yaml'); return true",
  "reads the secrets": "return fs.readFileSync(h.state + '/secrets.json', 'utf8').includes(h.secret)",
  "reads the store": "return fs.readFileSync(h.state + '/quartermaster.db').length > 0",
  "lists the state folder": "return fs.readdirSync(h.state).length > 0",
  "writes into the state folder": "fs.writeFileSync(h.state + '/token', 'mine'); return true",
  "renames the state folder": "return swap(h.state, h.work + '/state')",
  "renames the folder around the state folder": "return swap(h.work + '/deep', h.work + '/deeper')",
  "unmounts what hides the state folder!": "sh('umount', h.state); return true",
  "forges the result of the self-test": "fs.writeFileSync(h.state + '/sandbox-tests', 'x'); return true",
  "writes a git hook": "fs.writeFileSync(h.work + '/.git/hooks/pre-commit', '#!/bin/sh'); return true",
  "changes the settings of git": "fs.appendFileSync(h.work + '/.git/config', '#'); return true",
  "replaces .git": "return swap(h.work + '/.git', h.work + '/.git2')",
  "changes the system!": "fs.writeFileSync('/usr/bin/qm-escape', 'x'); return true",
  "changes /etc!": "fs.writeFileSync('/etc/qm-escape', 'x'); return true",
  "changes the root folder!": "fs.writeFileSync('/qm-escape', 'x'); return true",
  "reads password hashes!": "return fs.readFileSync('/etc/shadow', 'utf8') !== ''",
  "reads home folders!": "return fs.readdirSync('/home').concat(fs.readdirSync('/root')).length >= 0",
  "reads the folders of services!": "return fs.readdirSync('/run').length >= 0 || fs.readdirSync('/var').length >= 0",
  "reads the devices of the kernel!": "return fs.readdirSync('/sys').length > 0",
  "finds shared memory of others": "return fs.readFileSync('/dev/shm/' + h.abstract, 'utf8') === h.secret",
  "connects over TCP": "return connect({ port: h.port, host: '127.0.0.1' })",
  "connects over TCP to localhost": "return connect({ port: h.port, host: 'localhost' })",
  "sends a UDP datagram!":
    "return new Promise((resolve) => { const s = dgram.createSocket('udp4'); s.send('escape', h.udp, '127.0.0.1', () => { s.close(); resolve(false) }) })",
  "connects to a socket file": "return connect({ path: h.socket })",
  "connects to an abstract socket": "return connect({ path: '\\0' + h.abstract })",
  "opens a socket to the host of a virtual machine!": "python('socket', 'socket.socket(40, 1)'); return true",
  "sees the network of this machine!": "return Object.keys(os.networkInterfaces()).some((name) => name !== 'lo')",
  "lists the keys of the login session!": "return fs.statSync('/proc/keys').isFile()",
  "uses the keys of the login session":
    "python('platform, ctypes', 'ctypes.CDLL(None).syscall(250 if platform.machine() == \\'x86_64\\' else 219, 0, -3, 1) > 0'); return true",
  "signals Quartermaster": "return process.kill(h.pid, 0)",
  "stops Quartermaster!": "return process.kill(h.pid, 'SIGTERM')",
  "stops the first process!": "process.kill(1, 'SIGKILL'); return !fs.existsSync('/proc/1')",
  "gains a user namespace!": "sh('unshare', '--user', 'true'); return true",
  "gains a mount namespace!": "sh('unshare', '--mount', 'true'); return true",
  "gains a network namespace!": "sh('unshare', '--net', 'true'); return true",
  "enters another namespace!": "sh('nsenter', '--target', '1', '--mount', 'true'); return true",
  "mounts a file system!": "fs.mkdirSync('mnt'); sh('mount', '-t', 'tmpfs', 'tmpfs', 'mnt'); return true",
  "makes the system writable!": "sh('mount', '-o', 'remount,rw', '/usr'); return true",
  "changes the root!": "sh('chroot', '.', '/bin/true'); return true",
  "makes a device!": "sh('mknod', 'disk', 'b', '8', '0'); return true",
  "creates a file beside the devices!": "fs.writeFileSync('/dev/made', 'x'); return true",
  "opens devices!":
    "return ['mem', 'kmsg', 'sda', 'vda', 'kvm', 'fuse', 'net/tun', 'uinput'].some((d) => { try { fs.openSync('/dev/' + d, 'r'); return true } catch { return false } })",
  "has a terminal to type into!": "fs.openSync('/dev/tty', 'r+'); return true",
  "becomes root!": "process.setuid(0); return true",
  "joins a group!": "process.setgid(0); return true",
  "has capabilities!": "return !/^CapEff:\\s*0+$/m.test(status) || !/^CapBnd:\\s*0+$/m.test(status)",
  "gains rights from a setuid program!": "return !/^NoNewPrivs:\\s*1$/m.test(status)",
  "raises its limits!": "sh('prlimit', '--nproc=100000', '--pid', String(process.pid)); return true",
  "raises its priority!": "os.setPriority(-20); return true",
  "protects itself from the kernel!": "fs.writeFileSync('/proc/self/oom_score_adj', '-1000'); return true",
  "changes the kernel!": "fs.writeFileSync('/proc/sys/kernel/hostname', 'x'); return true",
  "reads the log of the kernel!": "python('ctypes', 'ctypes.CDLL(None).klogctl(10, None, 0) >= 0'); return true",
  "asks the kernel around the filter of system calls!":
    "python('ctypes', 'ctypes.CDLL(None).syscall(425, 8, ctypes.create_string_buffer(256)) >= 0'); return true",
  "restarts the machine!": "fs.writeFileSync('/proc/sysrq-trigger', 'b'); return true",
  "renames the machine!": "sh('hostname', 'escaped'); return true",
  "sees the name of the machine": "return os.hostname() !== 'sandbox'",
  "has the variables of Quartermaster!":
    "return JSON.stringify(process.env).includes(h.secret) || process.env.HOME !== '/tmp'",
  "has open descriptors!":
    "return fs.readdirSync('/proc/self/fd').some((fd) => { try { return fd > 2 && fs.readlinkSync('/proc/self/fd/' + fd).startsWith(h.outside) } catch { return false } })",
  "writes a file of any size!": "sh('dd', 'if=/dev/zero', 'of=huge', 'bs=1M', 'count=20'); return true",
  "fills the temporary folder!":
    "for (const n of [1, 2, 3]) sh('dd', 'if=/dev/zero', 'of=/tmp/part' + n, 'bs=1M', 'count=6'); return true",
  "fills the shared memory!":
    "for (const n of [1, 2, 3, 4]) sh('dd', 'if=/dev/zero', 'of=/dev/shm/p' + n, 'bs=1M', 'count=6'); return true",
  "takes all memory!":
    "return spawnSync(process.execPath, ['-e', 'const all = []; for (let n = 0; n < 40; n++) all.push(Buffer.alloc(2 ** 26, 1))']).status === 0",
  "starts processes without end!":
    "return spawnSync('sh', ['-c', 'n=0; while [ $n -lt 400 ]; do sleep 60 & n=$((n+1)); done'], { stdio: 'ignore' }).status === 0",
};

/** Runs every attempt in one process. */
const RUNNER = `
const fs = require("node:fs"), os = require("node:os"), net = require("node:net"), dgram = require("node:dgram");
const { spawnSync } = require("node:child_process");
const { h, attempts } = JSON.parse(fs.readFileSync("attempts.json", "utf8"));
const status = fs.readFileSync("/proc/self/status", "utf8");
const sh = (...argv) => { const r = spawnSync(argv[0], argv.slice(1)); if (r.error || r.status !== 0) throw new Error("refused") };
const python = (modules, code) => sh("python3", "-c", "import " + modules + "; exit(0 if " + code + " else 1)");
const swap = (from, to) => { fs.renameSync(from, to); fs.renameSync(to, from); return true };
const connect = (to) => new Promise((resolve) => {
  const socket = net.connect(to);
  socket.on("connect", () => { socket.destroy(); resolve(true) }).on("error", () => resolve(false));
});
const AsyncFunction = (async () => {}).constructor;
(async () => {
  const escaped = [], refused = [];
  for (const [name, code] of Object.entries(attempts)) {
    const run = new AsyncFunction("fs", "os", "dgram", "spawnSync", "h", "status", "sh", "python", "swap", "connect", code);
    const ok = await run(fs, os, dgram, spawnSync, h, status, sh, python, swap, connect).catch(() => false);
    (ok === false ? refused : escaped).push(name);
  }
  fs.writeFileSync("control", "ok");
  console.log(JSON.stringify({ escaped, refused, control: fs.readFileSync("control", "utf8") }));
  process.exit(0);
})();
`;

const LIMITS = "memory_mb: 512, processes: 96, file_mb: 8";
const READ = JSON.stringify([process.execPath, ".."]);
const createConfig = (more: string) => `
skills: { project_folders: [] }
store: { path: work/deep/.quartermaster/quartermaster.db }
providers:
  exec: { enabled: true, sandbox: { read: ${READ}, ${LIMITS} }, output_bytes: 100000, max_timeout_ms: 120000, ${more} }
`;

let facts: Facts;
let project: string;
let workspace: Workspace;
const listeners: { close(): unknown }[] = [];
let connections = 0;
let datagrams = 0;

async function listen(where: { port: number; host: string } | { path: string }): Promise<Server> {
  const server = createServer((socket) => {
    connections++;
    socket.on("error", () => {}).destroy();
  });
  listeners.push(server);
  await new Promise<void>((resolve) => server.listen(where, resolve));
  return server;
}

const open = (env: NodeJS.ProcessEnv = {}) =>
  openWorkspace({ cwd: join(project, "inner"), env: { PATH: process.env.PATH, API_TOKEN: SECRET, ...env } });

async function runAttempts(chosen: Readonly<Record<string, string>>, from = workspace) {
  await writeFile(join(facts.work, "attempts.json"), JSON.stringify({ h: facts, attempts: chosen }));
  const argv = [process.execPath, "--eval", RUNNER];
  const outcome = await from.quartermaster.invoke("exec__run", { argv, timeout_ms: 60_000 }, { keep: false, ask });
  expect(outcome).toMatchObject({ status: "done", data: { exit_code: 0 } });
  const { stdout } = (outcome as unknown as { data: { stdout: string } }).data;
  return JSON.parse(stdout) as { escaped: string[]; refused: string[]; control: string };
}

/** Without a sandbox a person must approve. */
const ask = async () => ({ decision: "approved", by: "tester" }) as const;

const run = async (args: object, options = {}) => workspace.quartermaster.invoke("exec__run", args as never, options);

describe.skipIf(missing !== undefined)("a program in the sandbox", () => {
  let result: Awaited<ReturnType<typeof runAttempts>>;

  beforeAll(async () => {
    project = await createSandboxFolder({
      "inner/quartermaster.yaml": createConfig(""),
      "quartermaster.yaml": "# another one\n",
      "inner/work/.git/config": "[core]\n",
      "inner/work/.git/hooks/sample": "",
      "inner/work/deep/x": "",
    });
    const outside = await createSandboxFolder({ canary: SECRET, old: "", gone: "" });
    const port = ((await listen({ port: 0, host: "127.0.0.1" })).address() as AddressInfo).port;
    const abstract = `qm-escape-${process.pid}`;
    const socket = join(outside, "socket");
    await listen({ path: socket });
    await listen({ path: `\0${abstract}` });
    const receiver = createSocket("udp4", () => {
      datagrams++;
    });
    listeners.push(receiver);
    await new Promise<void>((resolve) => receiver.bind(0, "127.0.0.1", resolve));
    await writeFile(join("/dev/shm", abstract), SECRET);
    const work = join(project, "inner/work");
    facts = {
      ...{ outside, canary: join(outside, "canary"), project, work, state: join(work, "deep/.quartermaster") },
      ...{ port, udp: receiver.address().port, socket, abstract, pid: process.pid, secret: SECRET },
    };
    const other = spawn("sleep", ["1000"], { env: { ...process.env, SECRET }, stdio: "ignore" });
    listeners.push({ close: () => other.kill("SIGKILL") });
    workspace = await open();
    await workspace.secrets.set("TOKEN", SECRET);
    const places = [project, outside].flatMap((folder) =>
      readdirSync(folder, { recursive: true, encoding: "utf8" }).map((name) => join(folder, name)),
    );
    for (const path of [project, outside, ...places]) await openToPrograms(path);
    result = await runAttempts(attempts);
  }, 60_000);

  afterAll(async () => {
    await workspace?.close();
    for (const listener of listeners) listener.close();
    await rm(join("/dev/shm", facts.abstract), { force: true });
    await cleanUp();
  });

  test("has more than 80 attempts, and can use its own folder", () => {
    expect(Object.keys(attempts).length).toBeGreaterThan(80);
    expect(result.control).toBe("ok");
    expect([...result.escaped, ...result.refused].toSorted()).toEqual(Object.keys(attempts).toSorted());
  });

  test.each(Object.keys(attempts))("is refused when it %s", (name) => {
    expect(result.escaped).not.toContain(name);
  });

  test("left no trace outside", async () => {
    expect(connections).toBe(0);
    expect(datagrams).toBe(0);
    expect(await readFile(facts.canary, "utf8")).toBe(SECRET);
    expect(readdirSync(facts.outside).toSorted()).toEqual(["canary", "gone", "old", "socket"]);
    expect(readFileSync(join(project, "inner/quartermaster.yaml"), "utf8")).toContain("exec");
    expect(existsSync("/usr/bin/qm-escape") || existsSync("/etc/qm-escape")).toBe(false);
  });

  test.each([
    ["an option of the sandbox as the program", { argv: ["--ro-bind", "/", "/", "true"] }],
    ["an option after two dashes", { argv: ["--", "--bind", "/", "/"] }],
    ["an option of the limiter", { argv: ["--pid", "1", "--nproc=1000"] }],
    ["a shell command as the program", { argv: ["cat /etc/hostname; true"] }],
    ["an absolute program outside", { argv: ["/root/.profile"] }],
  ])("is not started with %s", async (_what, args) => {
    expect(await run(args)).toMatchObject({ status: "done", data: { exit_code: 127 } });
  });

  test.each([
    ["no program", { argv: [] }, "invalid_arguments"],
    ["an empty program", { argv: [""] }, "invalid_arguments"],
    ["a NUL character in an argument", { argv: ["true", "a\0--bind"] }, "invalid_arguments"],
    ["a NUL character in the folder", { argv: ["true"], cwd: "a\0--bind\0/\0/" }, "path_refused"],
    ["a folder above", { argv: ["true"], cwd: ".." }, "path_refused"],
    ["a folder above, further down", { argv: ["true"], cwd: "deep/../../.." }, "path_refused"],
    ["the root folder", { argv: ["true"], cwd: "/" }, "path_refused"],
    ["a folder behind a link", { argv: ["true"], cwd: "folder" }, "path_refused"],
    ["a file as the folder", { argv: ["true"], cwd: "attempts.json" }, "not_found"],
    ["LD_PRELOAD", { argv: ["true"], env: { LD_PRELOAD: "/tmp/x.so" } }, "invalid_arguments"],
    ["a variable that is not allowed", { argv: ["true"], env: { API_TOKEN: "x" } }, "invalid_arguments"],
    ["more time than is allowed", { argv: ["true"], timeout_ms: 120_001 }, "invalid_arguments"],
    ["other settings of the sandbox", { argv: ["true"], network: true }, "invalid_arguments"],
  ])("is refused with %s", async (_what, args, code) => {
    if ("cwd" in args && args.cwd === "folder")
      await symlink(facts.outside, join(facts.work, "folder")).catch(() => {});
    expect(await run(args)).toMatchObject({ status: "failed", error: { code } });
  });

  test("is stopped when it writes without end", async () => {
    const { data } = (await run({ argv: ["yes"] }, { keep: false })) as unknown as { data: Record<string, unknown> };

    expect(data).toMatchObject({ exit_code: null, stdout_truncated: true, stopped: "it wrote too much output" });
    expect(data.stdout).toHaveLength(100_000);
  });

  test("is stopped with all its children when it forks without end", async () => {
    const bomb = "f() { sleep 1000.125 & f | f & }; f; wait; sleep 1000.125";

    await expect(run({ argv: ["sh", "-c", bomb], timeout_ms: 500 })).resolves.toMatchObject({ status: "done" });

    expect(listCommands()).not.toContain("1000.125");
  });

  test("cannot outlive the call as a daemon", async () => {
    const daemon =
      "(setsid nohup sh -c 'trap \"\" HUP TERM; sleep 1000.25' > /dev/null 2>&1 < /dev/null &) ; echo started";

    expect(await run({ argv: ["sh", "-c", daemon] })).toMatchObject({ data: { exit_code: 0, stdout: "started\n" } });

    expect(listCommands()).not.toContain("1000.25");
  });

  test("cannot end other processes with a signal to all", async () => {
    await run({ argv: ["sh", "-c", "kill -9 -1"] });

    expect(await run({ argv: ["echo", "still here"] })).toMatchObject({ data: { stdout: "still here\n" } });
  });

  test("cannot prepare a file that a later program follows out", async () => {
    await run({ argv: ["sh", "-c", `rm -rf later; ln -s ${facts.outside} later`] });

    const outcome = await run({ argv: ["cat", "later/canary"] });

    expect(outcome).toMatchObject({ data: { exit_code: 1, stdout: "" } });
  });

  test("is one that would escape without the sandbox", async () => {
    await workspace.close();
    await writeFile(join(project, "inner/quartermaster.yaml"), createConfig("unisolated: true"));
    workspace = await open();
    for (const name of ["link", "link2", "folder", "hard"]) await rm(join(facts.work, name), { force: true });
    const harmless = Object.fromEntries(Object.entries(attempts).filter(([name]) => !name.endsWith("!")));

    const outcome = await runAttempts(harmless);

    expect(outcome.refused).toEqual([]);
    expect(outcome.escaped.length).toBeGreaterThanOrEqual(40);
    expect(connections).toBeGreaterThan(0);
  });
});

/** The commands of all processes of this machine. */
const listCommands = () =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
      } catch {
        return "";
      }
    })
    .join("\n");
