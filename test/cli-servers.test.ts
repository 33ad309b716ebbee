import { type ChildProcess, spawn } from "node:child_process";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import {
  atTerminal,
  cleanUp,
  createTestFolder,
  endings,
  eventTypes,
  plainEnvironment,
  qm,
  qmCommand,
} from "../src/cli/testing.ts";
import { startListening } from "./support/mcp-hub.ts";

const odd = join(import.meta.dirname, "fixtures/odd-server.mjs");
const node = process.execPath;
const env = { PATH: process.env.PATH, USER: "ann", NO_COLOR: "1" };

afterEach(cleanUp);

const tools = ["echo", "pid", "environment"].map((name) => ({
  name,
  description: `The ${name} of an odd server.`,
  inputSchema: { type: "object" },
  annotations: { readOnlyHint: name === "pid" },
}));

async function oddFolder(script: object = {}, settings: object = {}): Promise<string> {
  const folder = await createTestFolder({ "script.json": JSON.stringify({ tools, ...script }) });
  const server = { command: node, args: [odd, join(folder, "script.json")], ...settings };
  await writeFile(join(folder, "quartermaster.yaml"), JSON.stringify({ servers: { odd: server } }));
  return folder;
}

async function* typed(text: string): AsyncGenerator<string> {
  yield text;
}

describe("qm servers add", () => {
  const what = (folder: string) => ["servers", "add", "--name", "odd", "--", node, odd, join(folder, "script.json")];

  test("shows the command, asks, tries the server, and saves it", async () => {
    const cwd = await createTestFolder({ "script.json": JSON.stringify({ tools }) });

    const added = await qm(cwd, what(cwd), { env, ...atTerminal("y\n") });
    const listed = await qm(cwd, ["servers", "list"], { env });

    expect(added).toMatchObject({ code: 0, out: expect.stringContaining("odd works and is saved: 3 tools.") });
    expect(added.out).toContain(`Runs:     ${node} ${odd}`);
    expect(listed.out).toMatch(/odd +known +3 /);
    expect(await readFile(join(cwd, "quartermaster.yaml"), "utf8")).toContain("servers:\n  odd:\n    command:");
    expect(await eventTypes(cwd)).toContain("server.added");
    expect(await endings(cwd)).toMatchObject([{ action: "mcp__install_local", status: "done" }]);
  });

  test.each(["n\n", "", "yess\n"])("installs nothing after the answer %j", async (answer) => {
    const cwd = await createTestFolder({ "script.json": JSON.stringify({ tools }) });

    const refused = await qm(cwd, what(cwd), { env, ...atTerminal(answer) });
    const unattended = await qm(cwd, what(cwd), { env });

    expect(refused).toMatchObject({ code: 3, err: expect.stringContaining("nobody agreed") });
    expect(unattended.code).toBe(3);
    await expect(stat(join(cwd, "quartermaster.yaml"))).rejects.toThrow("ENOENT");
  });

  test("saves nothing when the server fails, and prints its output", async () => {
    const cwd = await createTestFolder({ "script.json": JSON.stringify({ tools, dies: "the disk is on fire" }) });

    const failed = await qm(cwd, what(cwd), { env, ...atTerminal("y\n") });

    expect(failed).toMatchObject({ code: 1, err: expect.stringContaining("the disk is on fire") });
    expect(failed.err).not.toContain("qm servers list");
    await expect(stat(join(cwd, "quartermaster.yaml"))).rejects.toThrow("ENOENT");
  });

  test("refuses a taken name before it asks", async () => {
    const cwd = await createTestFolder({ "quartermaster.yaml": "servers: { odd: { command: node } }\n" });

    const refused = await qm(cwd, what(cwd), { env, ...atTerminal("y\n") });

    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining("there is a server odd already") });
    expect(refused.err).not.toContain("Install it?");
  });

  test("says of a command that fails that it was not saved", async () => {
    const cwd = await createTestFolder();

    const failed = await qm(cwd, ["servers", "add", "--name", "bad", "--", node, "/nope.js"], {
      env,
      ...atTerminal("y\n"),
    });

    expect(failed).toMatchObject({ code: 1, err: expect.stringContaining("It was not saved.") });
    expect(failed.err).not.toContain("qm servers list");
  });

  test("refuses a model without approval, and shows the command it would have run", async () => {
    const cwd = await createTestFolder();

    const refused = await qm(cwd, ["invoke", "mcp__install_local", '{"name":"x","command":"node","args":["y.mjs"]}'], {
      env,
    });

    expect(refused.code).toBe(3);
    expect(refused.err).toContain("runs: node y.mjs");
    expect(await eventTypes(cwd)).not.toContain("server.added");
  });

  test("keeps a secret out of output, ledger and configuration, and stores it across a failed attempt", async () => {
    const cwd = await createTestFolder({ "script.json": JSON.stringify({ tools }) });
    const add = ["servers", "add", "--name", "odd", "--env", `ODD_KEY=\${secret:ODD_KEY}`, "--yes", "--"];
    const command = [node, odd, join(cwd, "script.json")];

    const early = await qm(cwd, [...add, ...command], { env, ...atTerminal("y\n") });
    const stored = await qm(cwd, ["secrets", "set", "ODD_KEY"], { env, stdin: typed("hunter2-hunter2\n") });
    const added = await qm(cwd, [...add, ...command], { env, ...atTerminal("y\n") });
    const called = await qm(cwd, ["invoke", "mcp__odd__environment", "--json"], { env });
    const names = await qm(cwd, ["secrets", "list"], { env });

    expect(early).toMatchObject({ code: 2, err: expect.stringContaining("qm secrets set ODD_KEY") });
    expect(stored.code).toBe(0);
    expect(added.code).toBe(0);
    expect(JSON.parse(called.out).data.names).toContain("ODD_KEY");
    expect(names.out).toBe("ODD_KEY\n");
    const shown = [early, stored, added, called, names].map(({ out, err }) => out + err).join("");
    expect(shown).not.toContain("hunter2");
    expect(await readFile(join(cwd, "quartermaster.yaml"), "utf8")).not.toContain("hunter2");
    expect(await readFile(join(cwd, ".quartermaster/quartermaster.db"), "latin1")).not.toContain("hunter2");
    expect((await stat(join(cwd, ".quartermaster/secrets.json"))).mode & 0o777).toBe(0o600);

    const removed = await qm(cwd, ["servers", "remove", "odd", "--json"], { env, ...atTerminal("y\n") });
    expect(JSON.parse(removed.out)).toEqual({ server: "odd", secrets: ["ODD_KEY"] });
    expect((await qm(cwd, ["secrets", "list"], { env })).out).toContain("No secrets are stored");
  });

  test("saves a server that needs a login, and says how to log in", async () => {
    const cwd = await createTestFolder();
    const { url } = await startListening(
      createServer((request, response) => {
        const { origin } = new URL(url);
        const metadata = `${origin}/.well-known/oauth-protected-resource`;
        if (`${origin}${request.url}`.startsWith(metadata)) {
          response.writeHead(200, { "content-type": "application/json" });
          response.end(JSON.stringify({ resource: url, authorization_servers: [origin] }));
          return;
        }
        response.writeHead(401, { "www-authenticate": `Bearer resource_metadata="${metadata}"` }).end();
      }),
    );

    const added = await qm(cwd, ["servers", "add", url, "--name", "remote"], { env, ...atTerminal("y\n") });
    const listed = await qm(cwd, ["servers", "list", "--json"], { env });

    expect(added).toMatchObject({ code: 0, out: expect.stringContaining("qm servers login remote") });
    expect(JSON.parse(listed.out).servers).toMatchObject([{ name: "remote", state: "needs_login" }]);
    expect(await readFile(join(cwd, "quartermaster.yaml"), "utf8")).toContain(url);
    expect(await eventTypes(cwd)).toContain("server.added");
  });

  test("refuses a literal key", async () => {
    const cwd = await createTestFolder({ "script.json": JSON.stringify({ tools }) });

    const refused = await qm(
      cwd,
      ["servers", "add", "--name", "odd", "--env", "API_KEY=hunter2-hunter2", "--yes", "--", node, odd],
      { env },
    );

    expect(refused.code).toBe(2);
    expect(refused.out + refused.err).not.toContain("hunter2");
  });
});

describe("qm servers", () => {
  test("start lists the tools, list starts nothing, stop finds nothing running", async () => {
    const cwd = await oddFolder();

    const before = JSON.parse((await qm(cwd, ["servers", "list", "--json"], { env })).out);
    const started = await qm(cwd, ["servers", "start"], { env });
    const after = JSON.parse((await qm(cwd, ["servers", "list", "--json"], { env })).out);
    const stopped = await qm(cwd, ["servers", "stop"], { env });

    expect(before.servers).toMatchObject([{ name: "odd", state: "configured" }]);
    expect(started).toMatchObject({ code: 0, out: expect.stringContaining("odd: works, 3 tools") });
    expect(after.servers).toMatchObject([{ name: "odd", state: "known", tools: 3 }]);
    expect(stopped.out).toBe("No server was running.\n");
    expect((await qm(cwd, ["servers", "logs", "odd"], { env })).out).toBe("odd has written nothing.\n");
    expect(await qm(cwd, ["servers", "logs", "oddd"], { env })).toMatchObject({
      code: 1,
      err: expect.stringContaining("did you mean odd?"),
    });
  });

  test("start fails with an exit code when a server does not start, and its stderr is in the log", async () => {
    const cwd = await oddFolder({ dies: "no licence found" });

    const started = await qm(cwd, ["servers", "start", "odd", "--json"], { env });

    expect(started.code).toBe(1);
    expect(JSON.parse(started.out).servers[0].problem).toMatchObject({ code: "server_failed" });
    expect((await qm(cwd, ["servers", "logs", "odd"], { env })).out).toContain("no licence found");
  });

  test("logs continues in the rotated file when the current one is short", async () => {
    const cwd = await oddFolder({ dies: "no licence found" });
    await qm(cwd, ["servers", "start", "odd"], { env });
    const [log = ""] = (await readdir(cwd, { recursive: true })).filter((path) => path.endsWith("odd.log"));
    await writeFile(join(cwd, `${log}.1`), "first\nsecond\n");
    await writeFile(join(cwd, log), "third\n");

    expect((await qm(cwd, ["servers", "logs", "odd", "--lines", "2"], { env })).out).toBe("second\nthird\n");
  });

  test("list shows the last problem until the server works again", async () => {
    const cwd = await oddFolder({ dies: "no licence found" });
    const listed = async () => JSON.parse((await qm(cwd, ["servers", "list", "--json"], { env })).out).servers;

    await qm(cwd, ["servers", "start"], { env });
    const failed = await listed();
    const table = await qm(cwd, ["servers", "list"], { env });
    await writeFile(join(cwd, "script.json"), JSON.stringify({ tools }));
    await qm(cwd, ["servers", "start"], { env });

    expect(failed).toMatchObject([{ state: "failed", problem: expect.stringContaining("no licence found") }]);
    expect(table.out).toMatch(/odd +failed/);
    expect(table.out).toContain("no licence found");
    expect(await listed()).toMatchObject([{ state: "known", tools: 3 }]);
  });

  test("lists a disabled server, and can remove it", async () => {
    const cwd = await oddFolder({}, { enabled: false });

    const listed = JSON.parse((await qm(cwd, ["servers", "list", "--json"], { env })).out);
    const removed = await qm(cwd, ["servers", "remove", "odd"], { env, ...atTerminal("y\n") });
    const again = await qm(cwd, ["servers", "remove", "odd"], { env, ...atTerminal("y\n") });

    expect(listed.servers).toMatchObject([{ name: "odd", state: "disabled" }]);
    expect(removed).toMatchObject({ code: 0, out: "odd is removed.\n" });
    expect(again.code).toBe(1);
  });

  test("review shows the difference, and accepts the shown definition", async () => {
    const cwd = await oddFolder();
    await qm(cwd, ["servers", "start"], { env });
    const changed = tools.map((tool) =>
      tool.name === "echo" ? { ...tool, description: "The shout of an odd server." } : tool,
    );
    await writeFile(join(cwd, "script.json"), JSON.stringify({ tools: changed }));
    await qm(cwd, ["servers", "start"], { env });

    const shown = await qm(cwd, ["servers", "review"], { env });
    const preflight = await qm(cwd, ["preflight", "mcp__odd__echo", "mcp__odd__pid"], { env });
    const refused = await qm(cwd, ["invoke", "mcp__odd__echo"], { env });
    const rejected = await qm(cwd, ["servers", "review", "odd", "--reject", "--yes"], { env });
    const unnamed = await qm(cwd, ["servers", "review"], { env });
    const declined = await qm(cwd, ["servers", "review", "odd", "echo", "--accept"], { env, ...atTerminal("n\n") });
    const accepted = await qm(cwd, ["servers", "review", "odd", "echo", "--accept"], { env, ...atTerminal("y\n") });
    const called = await qm(cwd, ["invoke", "mcp__odd__echo", '{"text":"hi"}'], { env });

    expect(shown.out).toContain("odd: echo");
    expect(shown.out).toContain("its definition has changed since it was accepted");
    expect(shown.out).toMatch(/shout/);
    expect(preflight.code).toBe(12);
    expect(refused).toMatchObject({ code: 3, err: expect.stringContaining("qm servers review odd") });
    expect(rejected.out).toContain("1 definition rejected.");
    expect(unnamed.out).toBe("Nothing is withheld.\n");
    expect(declined).toMatchObject({ code: 3, err: expect.stringContaining("nobody agreed") });
    expect(accepted.out).toContain("1 definition accepted.");
    expect(called).toMatchObject({ code: 0, out: "hi" });
    expect(await eventTypes(cwd)).toEqual(expect.arrayContaining(["definition.withheld", "definition.accepted"]));
  });

  test("preflight reports missing requirements by its exit code", async () => {
    const cwd = await oddFolder({}, { tools: { echo: { approval: true } } });
    const broken = await oddFolder({ dies: "gone" });
    const preflight = async (folder: string, ...names: string[]) =>
      (await qm(folder, ["preflight", ...names], { env })).code;

    expect(await preflight(cwd, "mcp__odd__pid", "file__*")).toBe(0);
    expect(await preflight(cwd, "mcp__odd__pid", "mcp__odd__echo")).toBe(10);
    expect(await preflight(cwd, "mcp__odd__nothing")).toBe(4);
    expect(await preflight(broken, "mcp__odd__connect")).toBe(13);
    expect(await preflight(broken, "mcp__odd__echo")).toBe(13);
    expect(await preflight(broken, "mcp__odd__*", "file__read")).toBe(13);
  });
});

describe("qm mcp", () => {
  /** A client with the command as its server. */
  async function connected(cwd: string, ...options: string[]) {
    const [command, ...args] = qmCommand;
    const transport = new StdioClientTransport({
      command,
      args: [...args, "mcp", ...options],
      cwd,
      env: plainEnvironment() as Record<string, string>,
    });
    const client = new Client({ name: "test", version: "1" });
    await client.connect(transport);
    onTestFinished(() => client.close());
    return { client, pid: transport.pid ?? 0 };
  }

  const pidOf = (result: { content: unknown }) => Number((result.content as { text: string }[])[0]?.text);

  test("serves four tools that reach every action", async () => {
    const cwd = await oddFolder();
    await qm(cwd, ["servers", "start"], { env });
    const { client } = await connected(cwd);

    const { tools } = await client.listTools();
    const call = { action_name: "mcp__odd__echo", args: { text: "hello" } };
    const result = await client.callTool({ name: "invoke_action", arguments: call });

    expect(tools.map(({ name }) => name)).toEqual([
      "describe_action",
      "invoke_action",
      "list_actions",
      "search_actions",
    ]);
    expect(tools.find(({ name }) => name === "search_actions")?.annotations).toMatchObject({ readOnlyHint: true });
    expect(tools.find(({ name }) => name === "invoke_action")?.annotations).toMatchObject({ readOnlyHint: false });
    expect(result).toMatchObject({ content: [{ type: "text", text: "hello" }] });
    expect(await eventTypes(cwd)).toContain("client.connected");
  });

  test("passes a server's tools through unchanged, and records the calls", async () => {
    const cwd = await oddFolder();
    const config = JSON.parse(await readFile(join(cwd, "quartermaster.yaml"), "utf8"));
    const profiles = { plain: { pass_through: ["odd"] } };
    await writeFile(join(cwd, "quartermaster.yaml"), JSON.stringify({ ...config, gateway: { profiles } }));
    await qm(cwd, ["servers", "start"], { env });
    const { client } = await connected(cwd, "--profile", "plain");

    const listed = await client.listTools();
    const result = await client.callTool({ name: "echo", arguments: { text: "hello" } });

    expect(listed.tools).toEqual([...tools].sort((a, b) => (a.name < b.name ? -1 : 1)));
    expect(result).toMatchObject({ content: [{ type: "text", text: "hello" }] });
    expect(await endings(cwd)).toMatchObject([{ action: "mcp__odd__echo", status: "done" }]);
  });

  test("leaves no process behind when it is killed or closed", async () => {
    const cwd = await oddFolder({ deaf: true, grandchild: true });
    await qm(cwd, ["servers", "start"], { env });
    const call = { name: "invoke_action", arguments: { action_name: "mcp__odd__pid" } };

    const first = await connected(cwd);
    const started = pidOf(await first.client.callTool(call));
    expect(groupOf(started)).not.toEqual([]);
    process.kill(first.pid, "SIGKILL");
    await vi.waitFor(() => expect(groupOf(started)).toEqual([]), 20_000);

    const second = await connected(cwd);
    const again = pidOf(await second.client.callTool(call));
    await second.client.close();
    await vi.waitFor(() => expect(groupOf(again)).toEqual([]), 20_000);
  });

  test("list shows the servers of a running gateway", async () => {
    const cwd = await oddFolder();
    await qm(cwd, ["servers", "start"], { env });
    const { client } = await connected(cwd);
    const call = { name: "invoke_action", arguments: { action_name: "mcp__odd__pid" } };
    const pid = pidOf(await client.callTool(call));

    const listed = JSON.parse((await qm(cwd, ["servers", "list", "--json"], { env })).out);

    expect(listed.servers).toMatchObject([{ name: "odd", state: "started", pid, tools: 3 }]);
    expect((await qm(cwd, ["servers", "list"], { env })).out).toContain(`started (${pid})`);
    expect(pidOf(await client.callTool(call))).toBe(pid);
  });

  test("stop ends the servers of a running gateway, and the next call starts them again", async () => {
    const cwd = await oddFolder();
    await qm(cwd, ["servers", "start"], { env });
    const { client } = await connected(cwd);
    const call = { name: "invoke_action", arguments: { action_name: "mcp__odd__pid" } };
    const before = pidOf(await client.callTool(call));

    const stopped = await qm(cwd, ["servers", "stop", "odd", "--json"], { env });

    expect(JSON.parse(stopped.out).stopped).toMatchObject([{ server: "odd", pid: before }]);
    await vi.waitFor(async () => {
      const result = await client.callTool(call);
      expect(result.isError).not.toBe(true);
      expect(pidOf(result)).not.toBe(before);
    }, 20_000);
  });
});

describe("qm serve", () => {
  async function served(cwd: string): Promise<{ child: ChildProcess; url: string; token: string }> {
    const [command, ...args] = qmCommand;
    const child = spawn(command, [...args, "serve", "--port", "0", "--json"], { cwd, env: plainEnvironment() });
    onTestFinished(() => void child.kill("SIGKILL"));
    const line = await new Promise<string>((resolve, reject) => {
      let text = "";
      child.stdout.on("data", (part) => {
        text += part;
        if (text.includes("\n")) resolve(text);
      });
      child.on("close", () => reject(new Error("it ended")));
    });
    const { url, tokenPath } = JSON.parse(line);
    return { child, url, token: (await readFile(tokenPath, "utf8")).trim() };
  }

  test("requires a token, and shuts down cleanly", async () => {
    const cwd = await oddFolder();
    await qm(cwd, ["servers", "start"], { env });
    const { child, url, token } = await served(cwd);
    const request = (headers: Record<string, string>) =>
      fetch(url, {
        method: "POST",
        headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers },
        body: JSON.stringify({
          jsonrpc: "2.0",
          id: 1,
          method: "initialize",
          params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "t", version: "1" } },
        }),
      });

    expect((await request({})).status).toBe(401);
    expect((await request({ authorization: "Bearer wrong" })).status).toBe(401);
    expect((await request({ authorization: `Bearer ${token}`, origin: "https://evil.example" })).status).toBe(403);
    expect((await request({ authorization: `Bearer ${token}` })).status).toBe(200);
    const ended = new Promise((resolve) => child.on("close", resolve));
    child.kill("SIGTERM");
    expect(await ended).toBe(0);
  });
});

/** The running processes of a group. */
function groupOf(pid: number): readonly number[] {
  try {
    process.kill(-pid, 0);
    return [pid];
  } catch {
    return [];
  }
}
