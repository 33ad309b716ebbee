import { isAscii } from "node:buffer";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import * as nodeModule from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { readPackageInfo } from "../src/app/system-runtime.ts";
import { cleanUp, createTestFolder, plainEnvironment } from "../src/cli/testing.ts";
import type { JsonObject } from "../src/core/json.ts";
import { openWorkspace } from "../src/workspace/workspace.ts";

const root = join(import.meta.dirname, "..");
const cache = join(root, "node_modules/.cache");
const odd = join(import.meta.dirname, "fixtures/odd-server.mjs");
let made: string;
let bin: string;

// Built as in the published package, in a package of its own. Packages outside the bundle are found in a parent folder.
beforeAll(async () => {
  await mkdir(cache, { recursive: true });
  made = await mkdtemp(join(cache, "qm-command-"));
  await cp(join(root, "package.json"), join(made, "package.json"));
  bin = join(made, "dist/bin");
  expect(await ran(["--import", "tsx", "scripts/bundle-command.ts", bin])).toEqual({ code: 0, out: "", err: "" });
});

afterAll(() => rm(made, { recursive: true, force: true }));
afterEach(cleanUp);

describe("the built command", () => {
  test("prints its version", async () => {
    const out = `${readPackageInfo().version}\n`;

    expect(await ran([join(bin, "qm.js"), "--version"])).toEqual({ code: 0, out, err: "" });
  });

  test("says in one sentence that Node is too old, before it loads anything else", async () => {
    const required = readPackageInfo().engines.node.replace(/^\D*/, "");
    const [major = 0, minor = 0] = required.split(".").map(Number);
    const runOn = (version: string) => {
      const versions = `{ ...process.versions, node: ${JSON.stringify(version)} }`;
      const script = `Object.defineProperty(process, "versions", { value: ${versions} })`;
      const entry = join(entryOnly, "qm.js");
      return ran(["--import", `data:text/javascript,${encodeURIComponent(script)}`, entry, "--version"]);
    };
    const entryOnly = join(made, "dist/entry");
    await mkdir(entryOnly, { recursive: true });
    for (const name of ["qm.js", "package.json"]) await cp(join(bin, name), join(entryOnly, name));

    for (const version of ["14.21.3", "18.20.0", `${major}.${minor - 1}.9`, `${major - 1}.99.0`])
      expect(await runOn(version)).toEqual({
        code: 1,
        out: "",
        err: `Quartermaster needs Node ${required} or newer; this is v${version}.\n`,
      });
    // A new enough one goes on to the other files, which this folder lacks.
    for (const version of [`${major}.${minor}.0`, `${major + 1}.0.0`])
      expect(await runOn(version)).toMatchObject({ code: 1, err: expect.stringContaining("process.cjs") });
  });

  test("consists of files that load on their own", async () => {
    const files = (await readdir(bin)).filter((name) => name.endsWith(".cjs"));
    expect(files.length).toBeGreaterThan(50);
    await writeFile(join(made, "all.cjs"), files.map((name) => `require("./dist/bin/${name}");`).join("\n"));

    expect(await ran([join(made, "all.cjs")])).toEqual({ code: 0, out: "", err: "" });
  });

  test("consists of ASCII, as its loader takes for granted", async () => {
    for (const name of await readdir(bin))
      if (name.endsWith(".cjs")) expect(isAscii(await readFile(join(bin, name))), name).toBe(true);
  });

  test("loads neither fetch nor HTTP before a server is reached", async () => {
    const folder = await createTestFolder();
    const config = join(folder, "quartermaster.yaml");
    await writeFile(config, JSON.stringify({ servers: { far: { url: "https://far.example/mcp" } } }));
    const script = "process.once('exit', () => console.error(process.moduleLoadList.join('\\n')))";
    const hook = ["--import", `data:text/javascript,${encodeURIComponent(script)}`];
    const { code, err } = await ran([...hook, join(bin, "qm.js"), "--config", config, "list"]);

    expect(code).toBe(0);
    expect(err).toContain("NativeModule child_process");
    expect(err.match(/^NativeModule (?:https?|internal\/deps\/undici\/undici)$/gm)).toBeNull();
  });

  // Newer versions of Node store compiled code themselves.
  test.runIf(!("enableCompileCache" in nodeModule))(
    "starts from stored code, and without if that is broken",
    async () => {
      const run = () => ran([join(bin, "qm.js"), "list", "--json", "file"]);
      const first = await run();
      const [store = ""] = await readdir(join(made, "node_modules/.cache/compiled"));
      const folder = join(made, "node_modules/.cache/compiled", store);
      const stored = (await readdir(folder)).filter((name) => name.startsWith("workspace.cjs"));
      const { mtimeMs } = await stat(join(folder, "workspace.cjs.bin"));

      expect(first).toMatchObject({ code: 0, err: "", out: expect.stringContaining("file__read") });
      expect(stored).toEqual(["workspace.cjs.bin"]);
      expect(await run()).toEqual(first);
      // It was read, not written again.
      expect((await stat(join(folder, "workspace.cjs.bin"))).mtimeMs).toBe(mtimeMs);

      await writeFile(join(folder, "workspace.cjs.bin"), "no code");
      expect(await run()).toEqual(first);
      expect((await stat(join(folder, "workspace.cjs.bin"))).size).toBeGreaterThan(10_000);

      await rm(join(made, "node_modules"), { recursive: true });
      await writeFile(join(made, "node_modules"), "not a folder");
      onTestFinished(() => rm(join(made, "node_modules")));
      expect(await run()).toEqual(first);
    },
  );

  test("lists every bundled package with its licence", async () => {
    const files = (await readdir(bin)).filter((name) => /\.c?js$/.test(name));
    const texts = await Promise.all(files.map((name) => readFile(join(bin, name), "utf8")));
    const notices = await readFile(join(bin, "THIRD-PARTY.txt"), "utf8");

    const origins = texts.join("\n").matchAll(/^\/\/ \S*node_modules\/((?:@[^/\s]+\/)?[^/\s]+)/gm);
    const packages = [...new Set([...origins].map(([, name = ""]) => name))];
    expect(packages).toEqual(expect.arrayContaining(["zod", "yaml", "@modelcontextprotocol/server"]));
    expect(packages.filter((name) => !new RegExp(`^${name} \\d\\S* \\(.+\\)$`, "m").test(notices))).toEqual([]);
  });

  test("lists the tools of a stopped server, and starts it for a call", async () => {
    const folder = await createTestFolder();
    const [config, script, starts] = ["quartermaster.yaml", "script.json", "starts"].map((name) => join(folder, name));
    const tools = [{ name: "echo", description: "Says it again.", inputSchema: { type: "object" } }];
    await writeFile(`${script}`, JSON.stringify({ tools, startsFile: starts }));
    const servers = { odd: { command: process.execPath, args: [odd, script] } };
    await writeFile(
      `${config}`,
      JSON.stringify({ servers, gateway: { profiles: { default: { pass_through: ["*"] } } } }),
    );
    const learning = await openWorkspace({ cwd: folder, env: { PATH: process.env.PATH } });
    await learning.servers.hub.connect("odd");
    await learning.close();
    const startsSoFar = async () => (await readFile(`${starts}`, "utf8")).trim().split("\n").length;

    const client = connected(folder);
    const hello = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "test", version: "1" } };
    expect(await client.ask("initialize", hello)).toMatchObject({ serverInfo: { version: readPackageInfo().version } });
    const listed = await client.ask("tools/list", {});
    expect(listed).toMatchObject({ tools: expect.arrayContaining([expect.objectContaining({ name: "echo" })]) });
    expect(await startsSoFar()).toBe(1);

    const answered = await client.ask("tools/call", { name: "echo", arguments: { text: "hello" } });
    expect(answered).toMatchObject({ content: [{ type: "text", text: "hello" }] });
    expect(await startsSoFar()).toBe(2);
    expect(await client.end()).toBe(0);
  });
});

describe("qm tour --serve", () => {
  test.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)(
    "serves its workspace until %s, and removes it",
    async (signal) => {
      const tour = await startTour(["--serve"]);
      const shown = await tour.readUntil(/Press Ctrl-C/);
      const url = /^address: +(\S+)$/m.exec(shown)?.[1] ?? "";
      const token = /^token: +(\S+)$/m.exec(shown)?.[1] ?? "";

      expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/mcp$/);
      await useTour(url, { Authorization: `Bearer ${token}` });

      tour.child.kill(signal);
      expect(await tour.ended).toEqual([0, null]);
      expect(await readdir(tour.temporary)).toEqual([]);
    },
  );

  test("under npm ends with its shell, which passes no signal on", async () => {
    const [home, temporary] = [await createTestFolder(), await createTestFolder()];
    const env = { ...plainEnvironment(), HOME: home, TMPDIR: temporary, npm_lifecycle_event: "start" };
    const line = `"${process.execPath}" "${join(bin, "qm.js")}" tour --serve; true`;
    const shell = spawn("sh", ["-c", line], { cwd: home, env, stdio: ["ignore", "pipe", "inherit"] });
    onTestFinished(() => void shell.kill("SIGKILL"));
    const lines = createInterface({ input: shell.stdout });
    for await (const shown of lines) if (shown.startsWith("Press Ctrl-C")) shell.kill("SIGTERM");

    // The output ends when the last process that holds it has ended.
    expect(await readdir(temporary)).toEqual([]);
  });

  test("prints a command that connects a client, and disconnects it with --undo", async () => {
    const tour = await startTour(["--serve"]);
    const command = /^ {2}(node .* connect .*)$/m.exec(await tour.readUntil(/Press Ctrl-C/))?.[1] ?? "";
    const runPrinted = (more: string) =>
      spawnSync("bash", ["-c", `${command} --yes ${more}`], { env: tour.env, encoding: "utf8" });

    expect(runPrinted("")).toMatchObject({ status: 0, stdout: expect.stringContaining("is connected") });
    const { mcpServers } = JSON.parse(await readFile(join(tour.home, ".claude.json"), "utf8"));
    const { url, headers } = mcpServers["qm-tour"];
    await useTour(url, headers);

    expect(runPrinted("--undo")).toMatchObject({ status: 0, stdout: expect.stringContaining("is disconnected") });
    expect(await readdir(tour.home)).not.toContain(".claude.json");
  });

  test("prints a command that disconnects a client after the tour has ended", async () => {
    const tour = await startTour(["--serve"]);
    const command = /^ {2}(node .* connect .*)$/m.exec(await tour.readUntil(/Press Ctrl-C/))?.[1] ?? "";
    const runPrinted = (line: string) => spawnSync("bash", ["-c", line], { env: tour.env, encoding: "utf8" });
    const undo = /^To undo: (.*)$/m.exec(runPrinted(`${command} --yes`).stderr)?.[1] ?? "";
    tour.child.kill("SIGINT");
    await tour.ended;

    expect(undo).toMatch(/^node .*qm\.js connect claude-code --name qm-tour --config .*quartermaster\.yaml --undo$/);
    expect(runPrinted(`${undo} --yes`)).toMatchObject({
      status: 0,
      stdout: expect.stringContaining("is disconnected"),
    });
    expect(await readdir(tour.home)).not.toContain(".claude.json");
  });

  test("prints the address, the token and the command as JSON", async () => {
    const tour = await startTour(["--serve", "--json"]);
    const { url, token, connect, stops } = JSON.parse(await tour.readUntil(/\n/));

    expect(stops).toHaveLength(9);
    expect(connect).toContain(" connect claude-code ");
    await useTour(url, { Authorization: `Bearer ${token}` });
  });

  test("with --once only takes the tour", async () => {
    const tour = await startTour(["--serve", "--once"]);

    expect(await tour.ended).toEqual([0, null]);
    expect(await tour.readUntil(/was removed/)).not.toContain("address:");
    expect(await readdir(tour.temporary)).toEqual([]);
  });
});

/** `qm tour` with a home and a folder for temporary files of its own. */
async function startTour(options: readonly string[]) {
  const [home, temporary] = [await createTestFolder(), await createTestFolder()];
  const env = { ...plainEnvironment(), HOME: home, TMPDIR: temporary };
  const child = spawn(process.execPath, [join(bin, "qm.js"), "tour", ...options], { cwd: home, env });
  onTestFinished(() => void child.kill("SIGKILL"));
  const ended = once(child, "close");
  let shown = "";
  child.stdout.setEncoding("utf8").on("data", (part: string) => {
    shown += part;
  });
  const readUntil = async (pattern: RegExp) => {
    await vi.waitFor(() => expect(shown).toMatch(pattern), 30_000);
    return shown;
  };
  return { child, ended, home, temporary, env, readUntil };
}

/** A real client lists the tools, searches and calls. */
async function useTour(url: string, headers: Record<string, string>): Promise<void> {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
  try {
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(expect.arrayContaining(["search_actions", "invoke_action"]));
    const found = await client.callTool({ name: "search_actions", arguments: { query: "read a text file" } });
    expect(JSON.stringify(found.content)).toContain("file__read");
    const args = { action_name: "file__read", args: { path: "hello.txt" } };
    const read = await client.callTool({ name: "invoke_action", arguments: args });
    expect(JSON.stringify(read.content)).toContain("Hello from Quartermaster.");
  } finally {
    await client.close();
  }
}

async function ran(args: readonly string[]): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: plainEnvironment(),
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [out, err, [code]] = await Promise.all([textOf(child.stdout), textOf(child.stderr), once(child, "close")]);
  return { code, out, err };
}

async function textOf(stream: AsyncIterable<Buffer>): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts).toString("utf8");
}

/** A client with `qm mcp` as its server. */
function connected(cwd: string) {
  const child = spawn(process.execPath, [join(bin, "qm.js"), "mcp"], { cwd, env: plainEnvironment() });
  onTestFinished(() => void child.kill("SIGKILL"));
  const ended = once(child, "close");
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  let id = 0;
  return {
    async ask(method: string, params: JsonObject): Promise<unknown> {
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: ++id, method, params })}\n`);
      for (let next = await lines.next(); !next.done; next = await lines.next()) {
        const message = JSON.parse(next.value);
        if (message.id === id) return message.result ?? message;
      }
      throw new Error(`no answer to ${method}`);
    },
    async end(): Promise<unknown> {
      child.stdin.end();
      const [code] = await ended;
      return code;
    },
  };
}
