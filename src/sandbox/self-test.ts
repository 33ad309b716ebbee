import { spawn } from "node:child_process";
import { chmod, chown, mkdir, mkdtemp, readlink, realpath, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { getErrorMessage } from "../core/errors.ts";
import { sendInputs } from "../core/sandbox.ts";
import { type BubblewrapPrograms, buildBubblewrapCommand, NOBODY } from "./bubblewrap.ts";
import type { SandboxHost } from "./bubblewrap-sandbox.ts";

const TIMEOUT_MS = 15_000;
const OUTPUT_BYTES = 64 * 1024;
const NAMESPACES = ["pid", "net", "mnt", "user", "ipc", "uts", "cgroup"];
const LIMITS = { memoryMb: 512, processes: 48, fileMb: 8 } as const;

interface SelfTestQuestions {
  readonly work: string;
  readonly canary: string;
  readonly outside: string;
  readonly port: number;
  readonly pid: number;
  readonly namespaces: Readonly<Record<string, string>>;
}

/** The program that runs inside the sandbox. It tries what must fail and what must work, and prints what went wrong. */
const ATTEMPTS = `
const fs = require("node:fs"), net = require("node:net"), { spawnSync } = require("node:child_process");
const { argv, kill, exit } = require("node:process"), q = JSON.parse(argv[1]), wrong = [];
const mustFail = (what, attempt) => { try { attempt(); wrong.push(what); } catch {} };
const mustWork = (what, attempt) => { try { if (attempt() === false) wrong.push(what); } catch { wrong.push(what); } };
mustFail("it read a file outside", () => fs.readFileSync(q.canary));
mustFail("it wrote a file outside", () => fs.writeFileSync(q.outside, "x"));
mustFail("it changed the system", () => fs.writeFileSync("/usr/bin/quartermaster-self-test", "x"));
mustFail("it read the root of this machine", () => fs.readFileSync("/proc/1/root" + q.canary));
if (q.pid > 50) mustFail("it could signal this process", () => kill(q.pid, 0));
for (const [name, link] of Object.entries(q.namespaces))
  mustWork("it shares the namespace " + name, () => fs.readlinkSync("/proc/self/ns/" + name) !== link);
const status = fs.readFileSync("/proc/self/status", "utf8");
mustWork("it has capabilities", () => /^CapEff:\\s*0+$/m.test(status) && /^CapBnd:\\s*0+$/m.test(status));
mustWork("it can gain privileges", () => /^NoNewPrivs:\\s*1$/m.test(status));
mustWork("its system calls are not filtered", () => /^Seccomp:\\s*2$/m.test(status));
mustWork("its processes are not limited", () => /^Max processes +${LIMITS.processes} /m.test(fs.readFileSync("/proc/self/limits", "utf8")));
const nested = spawnSync("unshare", ["--user", "true"]);
mustWork("it gained a user namespace", () => nested.error === undefined && nested.status !== 0);
mustWork("it cannot use its folder", () => { fs.writeFileSync(q.work + "/made", "x"); return fs.readFileSync(q.work + "/made", "utf8") === "x"; });
const socket = net.connect(q.port, "127.0.0.1");
const end = () => { console.log(JSON.stringify({ wrong })); exit(0); };
socket.on("connect", () => { wrong.push("it reached the network"); end(); }).on("error", end);
`;

/** Tries to break out of a sandbox. Returns why it cannot be trusted, or undefined if every attempt was refused. */
export async function runSelfTest(host: SandboxHost, programs: BubblewrapPrograms): Promise<string | undefined> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "qm-sandbox-")));
  let connections = 0;
  const listener = createServer((socket) => {
    connections++;
    socket.destroy();
  });
  try {
    await new Promise<void>((resolve, reject) => {
      listener.once("error", reject).listen(0, "127.0.0.1", resolve);
    });
    const questions = await prepareQuestions(folder, host, (listener.address() as AddressInfo).port);
    const wrong = await askInside(questions, host, programs);
    const all = [...wrong, ...(connections > 0 ? ["it reached the network"] : [])];
    return all.length === 0 ? undefined : `the sandbox did not pass its self-test: ${[...new Set(all)].join(", ")}`;
  } catch (thrown) {
    return `the sandbox could not be tested: ${getErrorMessage(thrown)}`;
  } finally {
    listener.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Everything is readable and writable for the tested user, so that only the sandbox can refuse it. */
async function prepareQuestions(folder: string, host: SandboxHost, port: number): Promise<SelfTestQuestions> {
  const [work, open] = [join(folder, "work"), join(folder, "open")];
  const canary = join(open, "canary");
  await mkdir(work);
  await mkdir(open);
  await writeFile(canary, "canary");
  for (const [path, mode] of [
    [folder, 0o755],
    [open, 0o777],
    [canary, 0o666],
  ] as const)
    await chmod(path, mode);
  if (host.uid === 0) await chown(work, NOBODY.uid, NOBODY.gid);
  const links = await Promise.all(NAMESPACES.map(async (name) => [name, await readlink(`/proc/self/ns/${name}`)]));
  return { work, canary, outside: join(open, "made"), port, pid: host.pid, namespaces: Object.fromEntries(links) };
}

async function askInside(
  questions: SelfTestQuestions,
  host: SandboxHost,
  programs: BubblewrapPrograms,
): Promise<readonly string[]> {
  const { work } = questions;
  const command = await buildBubblewrapCommand(
    {
      settings: { ...LIMITS, network: false, read: [host.nodePath], write: [work] },
      command: [host.nodePath, "--eval", ATTEMPTS, JSON.stringify(questions)],
      cwd: work,
      env: {},
      streams: ["ignore", "pipe", "pipe"],
    },
    programs,
    [],
    host.uid === 0 ? NOBODY : undefined,
  );
  const child = spawn(command.file, command.args, { ...command.options, timeout: TIMEOUT_MS, killSignal: "SIGKILL" });
  const output = { out: "", err: "" };
  child.stdout?.on("data", (chunk) => {
    if (output.out.length < OUTPUT_BYTES) output.out += String(chunk);
  });
  child.stderr?.on("data", (chunk) => {
    if (output.err.length < OUTPUT_BYTES) output.err += String(chunk);
  });
  sendInputs(child.stdio, command);
  await new Promise<void>((resolve, reject) => {
    child.once("error", reject).once("close", () => resolve());
  });
  try {
    const { wrong } = JSON.parse(output.out) as { readonly wrong: readonly string[] };
    return wrong;
  } catch {
    const [reason = ""] = output.err.trim().split("\n");
    const advice = reason.includes("Unknown option") ? "; bubblewrap 0.8 or newer is needed" : "";
    return [`a program did not run in it${reason === "" ? "" : ` (${reason}${advice})`}`];
  }
}
