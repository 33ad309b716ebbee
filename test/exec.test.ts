import { spawn } from "node:child_process";
import { existsSync, openSync, readdirSync, readFileSync } from "node:fs";
import { chmod, chown, mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { cleanUp, createTestFolder, plainEnvironment, qm, qmCommand } from "../src/cli/testing.ts";
import type { Outcome } from "../src/index.ts";
import { createWorkspaceSandbox } from "../src/workspace/sandbox.ts";
import { openWorkspace, type Workspace, type WorkspaceOptions } from "../src/workspace/workspace.ts";
import { createSandboxFolder, findMissingSandbox } from "./support/sandbox.ts";

const missing = findMissingSandbox("exec");
const READ = JSON.stringify([process.execPath]);
const WAIT = { timeout: 20_000, interval: 20 };

const createConfig = (more = "", others = "") => `
providers:
  exec: { enabled: true, sandbox: { read: ${READ} }, max_timeout_ms: 30000, ${more} }
${others}`;

async function open(cwd: string, options: Partial<WorkspaceOptions> = {}): Promise<Workspace> {
  return openWorkspace({ cwd, env: { PATH: process.env.PATH, API_TOKEN: "hush" }, ...options });
}

async function openTemporary(cwd: string, options: Partial<WorkspaceOptions> = {}): Promise<Workspace> {
  const workspace = await open(cwd, options);
  onTestFinished(workspace.close);
  return workspace;
}

const getData = (outcome: Outcome) => (outcome as unknown as { data: Record<string, unknown> }).data;

/** Whether a process of this machine has the word in its command. */
const isRunning = (word: string) =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .some((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").includes(word);
      } catch {
        return false;
      }
    });

describe.skipIf(missing !== undefined)("exec__run", () => {
  let cwd: string;
  let workspace: Workspace;
  const run = (args: object, options = {}) => workspace.quartermaster.invoke("exec__run", args as never, options);
  beforeAll(async () => {
    const more = `output_bytes: 20000, timeout_ms: 20000, env: { GREETING: "\${env:API_TOKEN}" }, allow_env: [MODE]`;
    cwd = await createSandboxFolder({ "quartermaster.yaml": createConfig(more) });
    workspace = await open(cwd);
  });
  afterAll(async () => {
    await workspace?.close();
    await cleanUp();
  });

  test("runs an argument vector without a shell", async () => {
    const outcome = await run({ argv: ["printf", "%s|", "a b", "$HOME", "*", "; id"] });

    expect(getData(outcome)).toEqual({ exit_code: 0, stdout: "a b|$HOME|*|; id|", stderr: "", timed_out: false });
  });

  test("returns the exit code, the signal and the error output of a program that fails", async () => {
    expect(getData(await run({ argv: ["sh", "-c", "echo no >&2; exit 3"] }))).toMatchObject({
      exit_code: 3,
      stderr: "no\n",
    });
    expect(getData(await run({ argv: ["sh", "-c", "kill -TERM $$"] }))).toMatchObject({
      exit_code: 143,
      signal: "SIGTERM",
    });
  });

  test("names a program that is missing, and says how to give its arguments", async () => {
    const stderr = "cannot run no-such-program: No such file or directory\n";
    expect(getData(await run({ argv: ["no-such-program"] }))).toEqual({
      exit_code: 127,
      stdout: "",
      stderr,
      timed_out: false,
    });
    expect(getData(await run({ argv: "ls -l" }))).toMatchObject({
      exit_code: 127,
      note: expect.stringContaining("each of its arguments as an item of its own"),
    });
  });

  test("refuses a folder outside of the work folder", async () => {
    expect(await run({ argv: ["ls"], cwd: "../.." })).toMatchObject({
      error: { code: "path_refused", error: 'cwd ("../..") leads out of its folder' },
    });
  });

  test("passes standard input, allowed variables and a folder", async () => {
    await run({ argv: ["mkdir", "-p", "sub"] });

    const script = 'cat; echo "$MODE $GREETING"; pwd';
    const outcome = await run({ argv: ["sh", "-c", script], stdin: "in\n", env: { MODE: "fast" }, cwd: "./sub/" });

    expect(getData(outcome).stdout).toBe(`in\nfast hush\n${join(cwd, "work/sub")}\n`);
  });

  test("refuses an absolute folder, even inside the work folder", async () => {
    expect(await run({ argv: ["pwd"], cwd: join(cwd, "work") })).toMatchObject({ error: { code: "path_refused" } });
  });

  test("leaves its files to the owner of the project", async () => {
    await run({ argv: ["touch", "made"] });

    const [project, work, made] = await Promise.all(["", "work", "work/made"].map((path) => stat(join(cwd, path))));
    expect([work?.uid, made?.uid]).toEqual([project?.uid, project?.uid]);
  });

  test("works below a folder that only its owner can enter", async () => {
    const place = await createTestFolder({ "quartermaster.yaml": createConfig() });
    await chmod(place, 0o700);
    const { quartermaster } = await openTemporary(place);

    const outcome = await quartermaster.invoke("exec__run", { argv: ["sh", "-c", "echo x > made; ls"] });

    expect(getData(outcome)).toMatchObject({ exit_code: 0, stdout: "made\n" });
  });

  test("refuses arguments that are too long for the system", async () => {
    expect(await run({ argv: ["echo", "é".repeat(90_000)] })).toMatchObject({
      status: "failed",
      error: { code: "action_failed", error: "the program could not be started: E2BIG" },
    });
  });

  test("cuts long output by bytes, without half a character", async () => {
    const data = getData(
      await run({ argv: ["sh", "-c", "printf x; yes é | head -c 30000; yes x | head -c 20 >&2"] }, { keep: false }),
    );

    expect(data).toMatchObject({ exit_code: 0, stdout_truncated: true, stderr: "x\n".repeat(10) });
    expect(Buffer.byteLength(String(data.stdout))).toBe(20_000 - 1);
    expect(data).not.toHaveProperty("stderr_truncated");
    expect(String(data.stdout)).not.toContain("\uFFFD");
  });

  test("stores a long result as a note", async () => {
    const outcome = await run({ argv: ["sh", "-c", "yes line | head -c 20000"] });

    expect(outcome).toMatchObject({ status: "done", kept: { handle: expect.stringMatching(/^note__/) } });
  });

  test("stops a program and its children after the time of the call", async () => {
    const outcome = await run({ argv: ["sh", "-c", "echo before; sleep 1001.5 & sleep 1001.5"], timeout_ms: 1_000 });

    expect(getData(outcome)).toMatchObject({ exit_code: null, stdout: "before\n", timed_out: true });
    expect(isRunning("1001.5")).toBe(false);
  });

  test("stops a program and its children when the call is cancelled", async () => {
    const controller = new AbortController();
    const running = run({ argv: ["sh", "-c", "sleep 1002.5 & sleep 1002.5"] }, { signal: controller.signal });
    await vi.waitFor(() => expect(isRunning("1002.5")).toBe(true), WAIT);

    controller.abort();

    expect(await running).toMatchObject({ status: "failed", error: { code: "cancelled" } });
    await vi.waitFor(() => expect(isRunning("1002.5")).toBe(false), WAIT);
  });

  test("declares what it may change, and shows an approver the command and its reach", async () => {
    const place = await createSandboxFolder({
      "quartermaster.yaml": createConfig("", "approvals: { categories: { exec: true } }"),
    });
    const { quartermaster } = await openTemporary(place);
    const previews: unknown[] = [];
    const ask = async ({ preview }: { preview?: unknown }) => {
      previews.push(preview);
      return { decision: "denied", by: "ann" } as const;
    };

    await quartermaster.invoke("exec__run", { argv: ["rm", "a b"] }, { ask });

    expect(JSON.stringify(previews)).toContain("runs rm 'a b'");
    expect(JSON.stringify(previews)).toContain("in a sandbox without network access");
    const described = quartermaster.describe("exec__run");
    expect(described).toMatchObject({ metadata: { purity: "write", tags: ["exec", "destructive"] } });
    expect(JSON.stringify(described)).toContain("It runs in a sandbox");
  });

  test("declares an external effect when programs can use the network", async () => {
    const sandbox = `sandbox: { read: ${READ}, network: true }`;
    const place = await createSandboxFolder({
      "quartermaster.yaml": `providers: { exec: { enabled: true, ${sandbox} } }`,
    });
    const { quartermaster } = await openTemporary(place, { purpose: "looking" });

    expect(quartermaster.describe("exec__run")).toMatchObject({ metadata: { purity: "external" } });
  });

  test("leaves no program behind when Quartermaster is killed, and passes no descriptor on", async () => {
    const leaked = openSync(join(cwd, "quartermaster.yaml"), "r");
    const [node, ...options] = qmCommand;
    const script = "cat /proc/self/fd/40 > leaked; ls -l /proc/self/fd > fds; sleep 1003.5 & sleep 1003.5";
    const args = JSON.stringify({ argv: ["sh", "-c", script] });
    // Node closes low descriptors of its parent itself.
    const stdio = [...Array<"ignore">(40).fill("ignore"), leaked];
    const child = spawn(node, [...options, "invoke", "exec__run", args], {
      cwd,
      env: { ...plainEnvironment(), API_TOKEN: "hush" },
      stdio,
    });
    await vi.waitFor(() => expect(isRunning("1003.5")).toBe(true), WAIT);

    child.kill("SIGKILL");

    await vi.waitFor(() => expect(isRunning("1003.5")).toBe(false), WAIT);
    expect(await readFile(join(cwd, "work/leaked"), "utf8")).toBe("");
    expect(await readFile(join(cwd, "work/fds"), "utf8")).not.toContain("quartermaster.yaml");
  });

  test("refuses a folder in which programs could create a configuration, unless one was named", async () => {
    const place = await createSandboxFolder({ "quartermaster.yaml": createConfig("folder: sub"), "sub/x": "" });
    const searched = await openTemporary(join(place, "sub"));
    const named = await openTemporary(join(place, "sub"), { configPath: join(place, "quartermaster.yaml") });

    const outcome = await searched.quartermaster.invoke("exec__run", { argv: ["true"] });

    expect(outcome).toMatchObject({ status: "failed", error: { code: "invalid_config" } });
    expect(JSON.stringify(outcome)).toContain("a program could change");
    expect(await named.quartermaster.invoke("exec__run", { argv: ["true"] })).toMatchObject({ status: "done" });
  });

  test.each([
    ["the settings of the system", "sandbox: { write: [/etc] }", "it would open /etc"],
    ["everything", "sandbox: { read: [/] }", "it would open /dev"],
    ["processes", "sandbox: { read: [/proc/self] }", "it would open /proc"],
    ["the programs that isolate", "sandbox: { write: [/usr/bin] }", "it holds /"],
    ["the state folder", "folder: .quartermaster/work", "is protected"],
    ["the folder of the configuration for writing", "folder: .", "a program could change"],
    ["a folder of its own code", `sandbox: { write: [${import.meta.dirname}] }`, "is protected"],
    ["a folder that does not exist", "sandbox: { read: [nowhere] }", "does not exist"],
  ])("refuses to grant %s", async (_what, more, why) => {
    const config = `providers: { exec: { enabled: true, ${more} } }`;
    const place = await createSandboxFolder({ "quartermaster.yaml": config });

    const outcome = await (await openTemporary(place)).quartermaster.invoke("exec__run", { argv: ["true"] });

    expect(outcome).toMatchObject({ error: { code: "invalid_config", error: expect.stringContaining(why) } });
  });

  test("keeps what is granted for reading unchanged, also around hidden files", async () => {
    const config = createConfig("", "").replace(READ, JSON.stringify([process.execPath, "."]));
    const place = await createSandboxFolder({
      "quartermaster.yaml": "",
      "inner/quartermaster.yaml": config,
      "inner/x": "seen",
    });
    await chmod(join(place, "inner"), 0o777);
    const inside = await openTemporary(join(place, "inner"));
    const script = "cat ../x; cat ../quartermaster.yaml; touch ../made || echo refused";

    const outcome = await inside.quartermaster.invoke("exec__run", { argv: ["sh", "-c", script] });

    expect(getData(outcome).stdout).toBe("seenrefused\n");
  });
});

/** A folder with a program `bwrap` that is found first. It counts its runs, and isolates nothing once `broken` exists. */
async function createWatchedBubblewrap(config: string) {
  const cwd = await createSandboxFolder({ "quartermaster.yaml": config });
  const bin = join(cwd, "bin");
  await mkdir(bin);
  const script = `#!/bin/sh
echo run >> ${cwd}/runs
if [ -e ${cwd}/broken ]; then
  while [ "$1" != -- ]; do shift; done
  shift; cat <&3 >/dev/null; exec "$@"
fi
PATH=/usr/bin:/bin exec bwrap "$@"
`;
  await writeFile(join(bin, "bwrap"), script, { mode: 0o755 });
  await writeFile(join(cwd, "runs"), "");
  await chmod(join(cwd, "runs"), 0o666);
  const env = { PATH: `${bin}:${process.env.PATH}` };
  const countRuns = async () => (await readFile(join(cwd, "runs"), "utf8")).split("\n").length - 1;
  return { cwd, env, countRuns, breakIt: () => writeFile(join(cwd, "broken"), "") };
}

// Also where there is no bubblewrap: the program of that name is a script.
test.skipIf(process.platform !== "linux")(
  "exec is hidden where programs are not isolated, and a person learns why",
  async () => {
    onTestFinished(cleanUp);
    const { cwd, env, breakIt } = await createWatchedBubblewrap(createConfig());
    await breakIt();
    const workspace = await openTemporary(cwd, { env });

    expect(workspace.quartermaster.names()).not.toContain("exec__run");
    expect(await workspace.quartermaster.invoke("exec__run", { argv: ["true"] })).toMatchObject({
      error: { code: "unknown_action" },
    });
    const explained = await qm(cwd, ["explain", "exec__run"], { env });
    expect(explained.out).toContain("the sandbox did not pass its self-test: ");
    const doctor = await qm(cwd, ["doctor"], { env });
    expect(doctor.code).toBe(1);
    expect(doctor.out).toMatch(/fail {2}sandbox {3}the sandbox did not pass its self-test: /);
  },
);

describe.skipIf(missing !== undefined)("the gate of exec", () => {
  afterEach(cleanUp);

  test("does not test again to show it, until something changes", async () => {
    const { cwd, env, countRuns } = await createWatchedBubblewrap(createConfig());
    await (await open(cwd, { env, purpose: "looking" })).close();
    expect(await countRuns()).toBe(1);

    for (const purpose of ["looking", "calls"] as const) {
      const workspace = await openTemporary(cwd, { env, purpose });
      expect(workspace.quartermaster.names()).toContain("exec__run");
    }
    expect(await countRuns()).toBe(1);

    await writeFile(join(cwd, "bin/bwrap"), `${await readFile(join(cwd, "bin/bwrap"), "utf8")}# newer\n`);
    await (await open(cwd, { env, purpose: "looking" })).close();
    expect(await countRuns()).toBe(2);
  });

  test("tests for real before the first program, and hides the action if that fails", async () => {
    const { cwd, env, breakIt } = await createWatchedBubblewrap(createConfig());
    await (await open(cwd, { env })).close();
    const workspace = await openTemporary(cwd, { env });
    await breakIt();
    expect(workspace.quartermaster.names()).toContain("exec__run");

    const outcome = await workspace.quartermaster.invoke("exec__run", { argv: ["touch", "ran"] });

    expect(outcome).toMatchObject({ status: "failed", error: { code: "action_failed" } });
    expect(workspace.quartermaster.names()).not.toContain("exec__run");
    await expect(stat(join(cwd, "work/ran"))).rejects.toThrow("ENOENT");
    // Nor does another process show it again.
    const next = await openTemporary(cwd, { env, purpose: "looking" });
    expect(next.quartermaster.names()).not.toContain("exec__run");
  });

  test("remembers a passed test beside the store if the package is read-only", async () => {
    const { cwd, env, countRuns } = await createWatchedBubblewrap(createConfig());
    const storePath = join(cwd, ".quartermaster/quartermaster.db");
    const packageFolder = join(cwd, "quartermaster.yaml");
    const findProblem = (mayWrite: boolean) =>
      createWorkspaceSandbox({
        ...{ packageFolder, storePath, mayWrite },
        searchPath: env.PATH ?? "",
        protect: () => [],
      }).findKnownProblem();

    expect(await findProblem(false)).toBeUndefined();
    expect(existsSync(join(cwd, ".quartermaster"))).toBe(false);
    for (const runs of [2, 2]) {
      expect(await findProblem(true)).toBeUndefined();
      expect(await countRuns()).toBe(runs);
    }
  });

  test("opens when a reload adds exec and the sandbox works", async () => {
    const { cwd, env } = await createWatchedBubblewrap("{}\n");
    const { quartermaster } = await openTemporary(cwd, { env, watch: true });

    await writeFile(join(cwd, "quartermaster.yaml"), createConfig());

    await vi.waitFor(() => expect(quartermaster.names()).toContain("exec__run"), WAIT);
  });

  test("is asked again when a reload adds exec, and the reload names what is looser", async () => {
    const { cwd, env, breakIt } = await createWatchedBubblewrap("{}\n");
    const problems: string[] = [];
    const workspace = await openTemporary(cwd, { env, watch: true, onProblem: (each) => problems.push(each) });
    await breakIt();
    expect(workspace.quartermaster.names()).not.toContain("exec__run");

    await writeFile(join(cwd, "quartermaster.yaml"), createConfig());

    await vi.waitFor(
      () => expect(problems.join("\n")).toContain("providers.exec.enabled adds the category exec"),
      WAIT,
    );
    expect(workspace.quartermaster.names()).not.toContain("exec__run");
  });

  test("is open for programs without isolation only if the configuration says so, and the action says so too", async () => {
    const { cwd, env, breakIt } = await createWatchedBubblewrap(createConfig("unisolated: true"));
    await breakIt();
    const { quartermaster } = await openTemporary(cwd, { env });
    const described = JSON.stringify(quartermaster.describe("exec__run"));

    expect(described).toContain("NOT isolated");
    expect(described).toContain('"purity":"stateful"');
    const waiting = await quartermaster.invoke("exec__run", { argv: ["echo", "hi"] });
    expect(waiting).toMatchObject({ status: "waiting" });
    const ask = async () => ({ decision: "approved", by: "ann" }) as const;
    const outcome = await quartermaster.invoke("exec__run", { argv: ["sh", "-c", "sleep 1004.5 & echo hi"] }, { ask });
    expect(getData(outcome)).toMatchObject({ exit_code: 0, stdout: "hi\n" });
    expect(isRunning("1004.5")).toBe(false);
    const doctor = await qm(cwd, ["doctor"], { env });
    expect(doctor.out).toMatch(/warn {2}sandbox {3}exec runs programs without a sandbox/);
  });
});

const COUNTING = join(import.meta.dirname, "fixtures/counting-server.mjs");

describe.skipIf(missing !== undefined)("the same sandbox", () => {
  afterEach(cleanUp);

  const createServerConfig = (file: string, write: readonly string[]) =>
    JSON.stringify({
      servers: {
        counting: {
          command: process.execPath,
          args: [COUNTING, file],
          sandbox: { read: [process.execPath, join(import.meta.dirname, "fixtures")], write },
        },
      },
    });

  test("holds an MCP server", async () => {
    const outside = await createSandboxFolder({ lines: "" });
    const cwd = await createSandboxFolder({ "granted/lines": "" });
    for (const path of ["granted", "granted/lines"]) await chmod(join(cwd, path), 0o777);
    await chmod(join(outside, "lines"), 0o666);
    await chmod(outside, 0o777);
    const call = async (file: string) => {
      await writeFile(join(cwd, "quartermaster.yaml"), createServerConfig(file, ["granted"]));
      const workspace = await open(cwd);
      await workspace.servers.hub.connect("counting");
      const outcome = await workspace.quartermaster.invoke("mcp__counting__add", { line: "x" });
      await workspace.close();
      return outcome;
    };

    expect(await call(join(cwd, "granted/lines"))).toMatchObject({ status: "done" });
    expect(await readFile(join(cwd, "granted/lines"), "utf8")).toBe("x\n");
    expect(await call(join(outside, "lines"))).toMatchObject({ status: "failed" });
    expect(await readFile(join(outside, "lines"), "utf8")).toBe("");
  });

  test.skipIf(process.getuid?.() !== 0)("is checked by the doctor for every folder that it may change", async () => {
    const config = "providers: { exec: { enabled: true, folder: work, sandbox: { write: [mine, reports] } } }\n";
    const cwd = await createSandboxFolder({ "quartermaster.yaml": config });
    for (const name of ["work", "mine", "reports"]) await mkdir(join(cwd, name));
    for (const name of ["work", "mine"]) await chown(join(cwd, name), 65_534, 65_534);
    await chown(join(cwd, "reports"), 0, 0);

    const { out } = await qm(cwd, ["doctor"], { env: { PATH: process.env.PATH } });

    expect(out).toMatch(
      /fail {2}sandbox {3}providers\.exec: programs cannot change \S+reports: .*`chown 65534 \S+reports`/,
    );
  });

  test("starts an MCP server by a path relative to the folder of the configuration", async () => {
    const cwd = await createSandboxFolder({ "tools/server.mjs": `await import(${JSON.stringify(COUNTING)});\n` });
    await chmod(join(cwd, "tools"), 0o755);
    const read = ["tools", process.execPath, join(import.meta.dirname, "fixtures")];
    const server = { command: process.execPath, args: ["tools/server.mjs", "/tmp/lines"], sandbox: { read } };
    await writeFile(join(cwd, "quartermaster.yaml"), JSON.stringify({ servers: { counting: server } }));
    const workspace = await openTemporary(cwd);

    await workspace.servers.hub.connect("counting");

    expect(workspace.servers.hub.status("counting").state).toBe("ready");
  });

  test("keeps an MCP server from starting if it cannot be isolated", async () => {
    const { cwd, env, breakIt } = await createWatchedBubblewrap("{}");
    await writeFile(join(cwd, "quartermaster.yaml"), createServerConfig(join(cwd, "lines"), []));
    await breakIt();
    const workspace = await openTemporary(cwd, { env });

    await expect(workspace.servers.hub.connect("counting")).rejects.toThrow("there is no sandbox");
    const doctor = await qm(cwd, ["doctor"], { env });
    expect(doctor.out).toMatch(/fail {2}sandbox {3}/);
    await expect(stat(join(cwd, "lines"))).rejects.toThrow("ENOENT");
  });

  test("is named when an MCP server in it does not start", async () => {
    const config = { servers: { absent: { command: "no-such-program", sandbox: {} } } };
    const cwd = await createSandboxFolder({ "quartermaster.yaml": JSON.stringify(config) });
    const workspace = await openTemporary(cwd);

    await expect(workspace.servers.hub.connect("absent")).rejects.toThrow(
      /exit code 127 in a sandbox that shows only granted files; .*\n.*no-such-program/,
    );
  });

  test("holds the programs of code skills", async () => {
    const skills = join(import.meta.dirname, "fixtures/code-skills");
    const config = { skills: { folders: [skills], sandbox: {} } };
    const { cwd, env, countRuns, breakIt } = await createWatchedBubblewrap(JSON.stringify(config));
    const { quartermaster } = await openTemporary(cwd, { env });

    const outcome = await quartermaster.invoke("skill__count-words", { text: "to be or not", ignore: ["or"] });
    expect(outcome).toMatchObject({ status: "done", data: { words: 3 } });
    const python = await quartermaster.invoke("skill__uniform", { input: "x" });
    expect(python).toMatchObject({ status: "done", data: { input: "x" } });
    expect(await countRuns()).toBe(3);

    await rm(join(cwd, ".quartermaster"), { recursive: true, force: true });
    await breakIt();
    const again = await openTemporary(cwd, { env });
    expect(await again.quartermaster.invoke("skill__count-words", { text: "a", ignore: [] })).toMatchObject({
      status: "failed",
      error: { error: expect.stringContaining("there is no sandbox") },
    });
  });
});
