import { writeFileSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { atTerminal, cleanUp, createTestFolder, qm, start } from "../src/cli/testing.ts";
import { learnServers } from "../src/mcp/provider/learn-servers.ts";
import { openWorkspace } from "../src/workspace/workspace.ts";
import { startListening } from "./support/mcp-hub.ts";
import { connectStdioClient } from "./support/stdio-client.ts";

const modules = join(import.meta.dirname, "../node_modules");
const odd = join(import.meta.dirname, "fixtures/odd-server.mjs");
const node = process.execPath;

afterEach(cleanUp);

const reference = (name: string, ...args: string[]) => ({
  command: node,
  args: [join(modules, `@modelcontextprotocol/server-${name}/dist/index.js`), ...args],
});

/** A task for each reference server, and the action that does it. */
const tasks = {
  mcp__memory__create_entities: "create new entities in the knowledge graph",
  "mcp__everything__get-sum": "sum of two numbers",
  mcp__filesystem__list_directory: "detailed listing of all files in a specified path",
  mcp__thinking__sequentialthinking: "problem-solving through thoughts",
};

const referenceServers = (folder: string) => ({
  memory: reference("memory"),
  everything: reference("everything"),
  filesystem: reference("filesystem", folder),
  thinking: reference("sequential-thinking"),
});

/** A home whose Cursor has these servers, and a folder in it to be in. */
async function place(servers: object) {
  const home = await createTestFolder();
  const cwd = join(home, "work");
  await mkdir(cwd);
  await mkdir(join(home, ".cursor"));
  await writeFile(join(home, ".cursor/mcp.json"), JSON.stringify({ mcpServers: servers }));
  const io = { env: { HOME: home, PATH: process.env.PATH, NO_COLOR: "1" }, platform: "linux" };
  const run = (argv: readonly string[], more: object = {}) => qm(cwd, argv, { ...io, ...more });
  const json = async (argv: readonly string[], more: object = {}) =>
    JSON.parse((await run([...argv, "--json"], more)).out);
  return { home, cwd, run, json };
}

const tool = (name: string, more: object = {}) => ({
  name,
  description: `The ${name} of an odd server.`,
  inputSchema: { type: "object" },
  annotations: { readOnlyHint: true },
  ...more,
});

/** A folder with a server `odd` that was never asked, and a count of its starts. */
async function oddFolder(script: object = {}, config: object = {}) {
  const folder = await createTestFolder();
  const starts = join(folder, "starts");
  const tools = [tool("echo"), tool("pid"), tool("hang")];
  await writeFile(join(folder, "script.json"), JSON.stringify({ tools, startsFile: starts, ...script }));
  const servers = { odd: { command: node, args: [odd, join(folder, "script.json")] } };
  await writeFile(join(folder, "quartermaster.yaml"), JSON.stringify({ servers, ...config }));
  const listPids = async () =>
    (await readFile(starts, "utf8").catch(() => ""))
      .split("\n")
      .filter((line) => line !== "")
      .map(Number);
  return { folder, listPids, run: (argv: readonly string[]) => qm(folder, argv, { env: { PATH: process.env.PATH } }) };
}

async function openOdd(script?: object, config?: object) {
  const { folder, listPids } = await oddFolder(script, config);
  const workspace = await openWorkspace({ cwd: folder, env: { PATH: process.env.PATH } });
  onTestFinished(workspace.close);
  return { listPids, workspace, quartermaster: workspace.quartermaster };
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** As `qm connect` names the configuration. */
const NAMED = ["--config", "quartermaster.yaml"];

/** A client with `qm mcp` as its server. */
async function connect(cwd: string, ...options: string[]) {
  const { client, pid } = await connectStdioClient(cwd, ...options);
  const search = async (query: string) =>
    textOf(await client.callTool({ name: "search_actions", arguments: { query } }));
  return { client, search, pid };
}

const textOf = (result: { content: unknown }) => (result.content as { text: string }[])[0]?.text ?? "";

describe("the reference servers are found", () => {
  test("after qm init and qm import", async () => {
    const { home, run, json } = await place({});
    await writeFile(join(home, ".cursor/mcp.json"), JSON.stringify({ mcpServers: referenceServers(home) }));

    await run(["init"]);
    const imported = await run(["import"], atTerminal("y\n"));

    expect(imported.code).toBe(0);
    expect(imported.err).toContain("start each once to read their tools?");
    expect(imported.err).toContain("4 of 4 servers asked for their tools");
    expect(imported.out).toContain("memory: works, 9 tools");
    for (const [action, task] of Object.entries(tasks)) {
      const { items, pending } = await json(["search", task]);
      expect(items.map((item: { qualified_name: string }) => item.qualified_name)).toContain(action);
      expect(pending).toBeUndefined();
    }
    const { servers } = await json(["servers", "list"]);
    expect(servers.map(({ state }: { state: string }) => state)).toEqual(Array(4).fill("known"));
  });

  test("after qm servers add", async () => {
    const { run, json } = await place({});
    const { command, args } = reference("memory");

    const added = await run(["servers", "add", "--name", "memory", "--", command, ...args], atTerminal("y\n"));
    const { items } = await json(["search", tasks.mcp__memory__create_entities]);

    expect(added.code).toBe(0);
    expect(items[0].qualified_name).toBe("mcp__memory__create_entities");
  });

  test("after the first qm mcp, whose client waits for none of them", async () => {
    const folder = await createTestFolder();
    await writeFile(join(folder, "quartermaster.yaml"), JSON.stringify({ servers: referenceServers(folder) }));
    const { client, search } = await connect(folder, ...NAMED);

    expect((await client.listTools()).tools).toHaveLength(4);
    for (const [action, task] of Object.entries(tasks))
      await vi.waitFor(async () => expect(await search(task)).toContain(action), { timeout: 30_000, interval: 200 });
    const listed = async () => JSON.parse((await qm(folder, ["servers", "list", "--json"])).out).servers;
    await vi.waitFor(
      async () => expect((await listed()).map(({ state }: { state: string }) => state)).toEqual(Array(4).fill("known")),
      { timeout: 30_000, interval: 200 },
    );
  });

  test("after the first qm serve", async () => {
    const { folder, listPids, run } = await oddFolder();
    const { child, ended } = start(folder, ["serve", "--port", "0", "--json"]);

    await vi.waitFor(async () => expect((await run(["search", "echo"])).out).toContain("mcp__odd__echo"), {
      timeout: 30_000,
      interval: 200,
    });
    child.kill("SIGINT");

    expect((await ended).err).not.toContain("warning");
    expect((await listPids()).filter(isAlive)).toEqual([]);
  });
});

describe("qm import", () => {
  test("reports a server that fails and one that needs a login, and still succeeds", async () => {
    const { url } = await startListening(
      createServer((request, response) => {
        const { origin } = new URL(url);
        const metadata = `${origin}/.well-known/oauth-protected-resource`;
        if (!`${origin}${request.url}`.startsWith(metadata))
          return void response.writeHead(401, { "www-authenticate": `Bearer resource_metadata="${metadata}"` }).end();
        response.writeHead(200, { "content-type": "application/json" });
        response.end(JSON.stringify({ resource: url, authorization_servers: [origin] }));
      }),
    );
    const servers = { broken: { command: node, args: ["-e", "process.exit(3)"] }, remote: { url } };
    const { run, json } = await place({ ...servers, memory: reference("memory") });

    const imported = await run(["import"], atTerminal("y\n"));

    expect(imported.code).toBe(0);
    expect(imported.out).toContain("memory: works");
    expect(imported.out).toMatch(/broken: .*\n.*qm servers logs broken/);
    expect(imported.out).toMatch(/remote: server remote needs a login\n.*qm servers login remote/);
    expect(imported.out).toContain("qm servers start broken");
    expect((await json(["search", "echo"])).pending).toEqual(["broken", "remote"]);
  });

  test("carries the result of each server in --json", async () => {
    const { json } = await place({ broken: { command: node, args: ["-e", ""] }, memory: reference("memory") });

    const { asked } = await json(["import"], atTerminal("y\n"));

    expect(asked).toMatchObject([
      { name: "broken", problem: { code: "server_failed" } },
      { name: "memory", tools: 9 },
    ]);
  });

  test("withholds a poisoned description of a server that it starts", async () => {
    const [poisoned] = JSON.parse(await readFile(join(import.meta.dirname, "fixtures/poisoned-tools.json"), "utf8"));
    const script = join(await createTestFolder(), "script.json");
    await writeFile(script, JSON.stringify({ tools: [tool("echo"), poisoned.tool] }));
    const { run, json } = await place({ odd: { command: node, args: [odd, script] } });

    const imported = await run(["import"], atTerminal("y\n"));
    const { items } = await json(["list", "mcp", "--filter", "odd"]);

    expect(imported.out).toContain("odd: works, 2 tools, MCP 2025-11-25, 1 withheld: qm servers review odd");
    expect(items.map((item: { qualified_name: string }) => item.qualified_name)).toEqual(["mcp__odd__echo"]);
  });

  test("starts only the servers that the person has seen, as they were shown", async () => {
    const { folder, listPids } = await oddFolder();
    const unseen = { command: node, args: [odd, join(folder, "script.json")] };
    const { cwd, run, json } = await place({ memory: reference("memory"), changed: reference("everything") });
    const path = join(cwd, "quartermaster.yaml");
    await writeFile(path, JSON.stringify({ servers: { unseen } }));
    const terminal = atTerminal("y\n");
    // Another process replaces a command after it was written.
    const write = (text: string) => {
      if (!text.startsWith("Added 2 servers")) return;
      writeFileSync(path, JSON.stringify({ servers: { unseen, changed: unseen, memory: reference("memory") } }));
    };

    await run(["import"], { ...terminal, stdout: { write, isTTY: true, columns: 100 } });

    const { servers } = await json(["servers", "list"]);
    expect(servers.map(({ name, state }: Record<string, string>) => [name, state])).toEqual([
      ["changed", "configured"],
      ["memory", "known"],
      ["unseen", "configured"],
    ]);
    expect(await listPids()).toEqual([]);
  });

  test("starts nothing with --no-start", async () => {
    const { folder, listPids } = await oddFolder();
    const { run } = await place({ odd: { command: node, args: [odd, join(folder, "script.json")] } });

    const imported = await run(["import", "--no-start"], atTerminal("y\n"));
    const listed = await run(["list", "--filter", "echo"]);

    expect(imported).toMatchObject({ code: 0, err: expect.stringContaining("Add 1 server? [y/N]") });
    expect(listed.out).toContain("Run `qm servers start odd`");
    expect(await listPids()).toEqual([]);
  });
});

describe("a server that was not asked yet", () => {
  test("is named in lists, searches and errors, and none of them starts it", async () => {
    const { folder, listPids } = await oddFolder();
    const { client } = await connect(folder, ...NAMED, "--no-start");
    const call = async (name: string, args: object) => textOf(await client.callTool({ name, arguments: { ...args } }));
    const note = "Not known yet: odd. mcp__list_tools asks them.";

    await client.listTools();
    expect(await call("search_actions", { query: "echo a text" })).toContain(note);
    expect(await call("search_actions", { query: "echo", detail: "full" })).toContain(note);
    expect(await call("list_actions", { filter: "echo" })).toContain(note);
    expect(await call("search_actions", { query: "echo", category: ["file"] })).not.toContain("odd");
    expect(await call("describe_action", { action_name: "mcp__odd__echo" })).toContain('"pending":["odd"]');
    expect(await call("invoke_action", { action_name: "echoes" })).toContain('"pending":["odd"]');
    expect(await listPids()).toEqual([]);
  });

  test("is named at a terminal with the command that asks it", async () => {
    const { run, listPids } = await oddFolder();
    const command = "Run `qm servers start odd`";

    const answers = [await run(["search", "echo"]), await run(["list"]), await run(["describe", "mcp__odd__echo"])];

    for (const { out, err } of answers) expect(out + err).toContain(command);
    for (const { out, err } of answers) expect(out + err).not.toContain("asks them");
    expect(await listPids()).toEqual([]);
  });

  test("is named by tool_search", async () => {
    const { quartermaster } = await openOdd();
    const surface = await quartermaster.surface({}, "deferred");

    expect((await surface.call("tool_search", { query: "echo" })).text).toContain("Not known yet: odd.");
  });

  test("is started once by many calls at a time, which then run", async () => {
    const { quartermaster, listPids } = await openOdd({ startDelayMs: 50 });

    const outcomes = await Promise.all(
      ["one", "two", "three"].map((text) => quartermaster.invoke("mcp__odd__echo", { text })),
    );

    expect(outcomes.map(({ status, value }) => [status, value])).toEqual([
      ["done", "one"],
      ["done", "two"],
      ["done", "three"],
    ]);
    expect(await listPids()).toHaveLength(1);
  });

  test("is started by mcp__list_tools and mcp__call_tool", async () => {
    const [listing, calling] = [await openOdd(), await openOdd()];

    const listed = await listing.quartermaster.invoke("mcp__list_tools", { server: "odd" });
    const called = await calling.quartermaster.invoke("mcp__call_tool", {
      tool: "odd__echo",
      tool_args: { text: "hi" },
    });

    expect(listed).toMatchObject({ status: "done", data: { tools: [{ tool: "odd__echo" }, {}, {}] } });
    expect(called).toMatchObject({ status: "done", data: "hi" });
  });

  test("answers unknown_action for a tool that it turns out not to have", async () => {
    const { quartermaster, listPids } = await openOdd();

    const outcome = await quartermaster.invoke("mcp__odd__ech");

    expect(outcome).toMatchObject({
      status: "failed",
      error: { code: "unknown_action", suggestions: expect.arrayContaining(["mcp__odd__echo"]) },
    });
    expect(await listPids()).toHaveLength(1);
  });

  test("answers why it cannot be started", async () => {
    const { quartermaster } = await openOdd({ dies: "no licence found" });

    const outcome = await quartermaster.invoke("mcp__odd__echo");

    expect(outcome).toMatchObject({
      status: "failed",
      error: { code: "server_failed", error: expect.stringContaining("no licence found") },
    });
  });

  test("is not waited for after the call is cancelled", async () => {
    const { quartermaster, listPids } = await openOdd({ startDelayMs: 60_000 });
    const cancelling = new AbortController();

    const calling = quartermaster.invoke("mcp__odd__echo", {}, { signal: cancelling.signal });
    await vi.waitFor(async () => expect(await listPids()).toHaveLength(1));
    cancelling.abort();

    expect(await calling).toMatchObject({ status: "failed", error: { code: "cancelled" } });
  });

  const actors = {
    default: { tools: ["*"] },
    reader: { tools: ["file__*"] },
    lister: { tools: ["file__*", "mcp__list_tools", "mcp__call_tool", "mcp__list_servers"] },
    other: { tools: ["file__*", "mcp__other__*", "mcp__list_tools", "mcp__call_tool"] },
  };

  test.each(["reader", "lister", "other"])("stays unknown to the actor %s, which starts nothing", async (actor) => {
    const { quartermaster, listPids } = await openOdd({}, { actors });
    const caller = { actor };
    const surface = await quartermaster.surface(caller, "universal");

    const answersAbout = async (server: string) => {
      const run = (action_name: string, args: object) => surface.call("invoke_action", { action_name, args });
      const given = [
        await surface.call("search_actions", { query: "echo" }),
        await surface.call("list_actions", {}),
        await surface.call("describe_action", { action_name: `mcp__${server}__echo` }),
        await run(`mcp__${server}__echo`, {}),
        await run("mcp__list_tools", { server }),
        await run("mcp__call_tool", { tool: `${server}__echo` }),
      ];
      return given.map(({ ok, text }) => [ok, text.replaceAll("odb", "odd")]);
    };
    const [hidden, missing] = [await answersAbout("odd"), await answersAbout("odb")];

    expect(hidden).toEqual(missing);
    expect(hidden.map(([ok]) => ok)).toEqual([true, true, false, false, false, false]);
    expect(hidden.slice(0, 2).join()).not.toContain("odd");
    expect(await listPids()).toEqual([]);
  });

  test("is started for an actor that may use only this tool of it", async () => {
    const { quartermaster } = await openOdd({}, { actors: { default: { tools: ["mcp__odd__echo"] } } });

    expect(await quartermaster.invoke("mcp__odd__echo", { text: "hi" })).toMatchObject({ status: "done", data: "hi" });
    expect(await quartermaster.invoke("mcp__odd__pid")).toMatchObject({ error: { code: "unknown_action" } });
  });

  test("is started for a tool that the policy lists among the allowed ones", async () => {
    const { quartermaster } = await openOdd({}, { policy: { allowed: ["mcp__odd__echo"] } });

    expect(await quartermaster.invoke("mcp__odd__echo", { text: "hi" })).toMatchObject({ status: "done", data: "hi" });
  });

  test("stays cancelled for an actor that does not see it", async () => {
    const actors = { default: { tools: ["mcp__odd__echo"] } };
    const { quartermaster, listPids } = await openOdd({ startDelayMs: 60_000 }, { actors });
    const cancelling = new AbortController();

    const calling = quartermaster.invoke("mcp__odd__echo", {}, { signal: cancelling.signal });
    await vi.waitFor(async () => expect(await listPids()).toHaveLength(1));
    cancelling.abort();

    expect(await calling).toMatchObject({ status: "failed", error: { code: "cancelled" } });
  });

  test("that fails looks like a missing one to an actor that does not see it", async () => {
    const tools = ["mcp__*__get*", "mcp__list_servers", "mcp__list_tools", "mcp__call_tool"];
    const { quartermaster, listPids } = await openOdd({ dies: "no licence" }, { actors: { default: { tools } } });
    const surface = await quartermaster.surface({}, "universal");
    const answersAbout = async (server: string) => {
      const run = (action_name: string, args: object) => surface.call("invoke_action", { action_name, args });
      const given = [
        await run(`mcp__${server}__get_x`, {}),
        await run(`mcp__${server}__get_x`, {}),
        await run("mcp__call_tool", { tool: `${server}__get_x` }),
        await run("mcp__list_servers", {}),
      ];
      return given.map(({ ok, text }) => [ok, text.replaceAll("odb", "odd")]);
    };

    const [hidden, missing] = [await answersAbout("odd"), await answersAbout("odb")];

    expect(hidden).toEqual(missing);
    expect(hidden[0]?.[1]).toContain("unknown_action");
    expect(await listPids()).toHaveLength(1);
  });

  const aboutTools = "tool.name.startsWith('mcp__odd__')";
  const aboutStart = "tool.name == 'mcp__odd__connect'";
  const withRule = (effect: string, rule: string) => ({ policy: { rules: [{ name: "it", rule, effect }] } });
  const single = { actors: { default: { tools: ["mcp__odd__nonsense"] } } };
  test.each([
    ["a rule asks about it", ["odd"], withRule("ask", aboutTools)],
    ["a rule asks about its start", ["odd"], withRule("ask", aboutStart)],
    ["calls need approval", ["odd"], { approvals: { categories: { mcp: true } } }],
    [
      "some calls need approval",
      ["odd"],
      { approvals: { categories: { mcp: { auto_approve_if: "tool.effect == 'read'" } } } },
    ],
    ["a rule denies its start", ["odd"], withRule("deny", aboutStart)],
    ["a rule hides its start", undefined, withRule("hide", aboutStart)],
    ["its start is not offered", undefined, { policy: { denied: ["mcp__odd__connect"] } }],
    [
      "a rule asks about the start and the actor has one tool",
      undefined,
      { ...single, ...withRule("ask", aboutStart) },
    ],
    [
      "a rule asks about the only tool of the actor",
      undefined,
      { ...single, ...withRule("ask", "tool.name == 'mcp__odd__nonsense'") },
    ],
  ])("is not started by a made-up name if %s", async (_, pending, config) => {
    const { quartermaster, listPids } = await openOdd({}, config);

    const outcome = await quartermaster.invoke("mcp__odd__nonsense");

    expect(outcome).toMatchObject({ status: "failed", error: { code: "unknown_action" } });
    expect(outcome.status === "failed" && outcome.error.pending).toEqual(pending);
    expect(await quartermaster.approvals.list()).toEqual([]);
    expect(await listPids()).toEqual([]);
  });

  test("waits for approval of its start when mcp__list_tools is called", async () => {
    const { quartermaster, listPids } = await openOdd({}, withRule("ask", aboutTools));

    expect(await quartermaster.invoke("mcp__list_tools", { server: "odd" })).toMatchObject({ status: "waiting" });
    expect(await listPids()).toEqual([]);
  });

  test("is named by the error about its tool, however many others are unknown", async () => {
    const names = ["a", "b", "c", "d", "e", "f", "zed"];
    const servers = Object.fromEntries(names.map((name) => [name, { command: node, args: ["-e", ""] }]));
    const { quartermaster } = await openOdd({}, { servers, approvals: { categories: { mcp: true } } });

    expect(await quartermaster.invoke("mcp__zed__echo")).toMatchObject({
      error: { code: "unknown_action", pending: ["zed", "a", "b", "c", "d"] },
    });
  });

  test("is not started for a tool that the policy refuses or the configuration switches off", async () => {
    const folder = await createTestFolder();
    const starts = join(folder, "starts");
    await writeFile(join(folder, "script.json"), JSON.stringify({ tools: [tool("echo")], startsFile: starts }));
    const settings = { tools: { off: { enabled: false }, secret: { tags: ["secret"] } } };
    const policy = {
      denied: ["mcp__odd__denied"],
      rules: [
        { name: "no-secrets", rule: "'secret' in tool.tags", effect: "hide" },
        { name: "no-removal", rule: "tool.name == 'mcp__odd__remove'", effect: "deny" },
      ],
    };
    const config = {
      servers: { odd: { command: node, args: [odd, join(folder, "script.json")], ...settings } },
      policy,
    };
    await writeFile(join(folder, "quartermaster.yaml"), JSON.stringify(config));
    const { quartermaster, close } = await openWorkspace({ cwd: folder, env: { PATH: process.env.PATH } });
    onTestFinished(close);

    for (const name of ["denied", "off", "secret", "remove"])
      expect(await quartermaster.invoke(`mcp__odd__${name}`)).toMatchObject({ error: { code: "unknown_action" } });
    await expect(readFile(starts, "utf8")).rejects.toThrow("ENOENT");
  });

  test("is not started by a replay", async () => {
    const { quartermaster, listPids } = await openOdd();
    const rehearsal = await quartermaster.rehearse([]);

    expect(await rehearsal.invoke("mcp__odd__echo", {})).toMatchObject({ error: { code: "unknown_action" } });
    expect(await listPids()).toEqual([]);
  });
});

test("a server that takes too long does not hold up the others, and is stopped", async () => {
  const { folder, listPids } = await oddFolder({ startDelayMs: 60_000 });
  const config = JSON.parse(await readFile(join(folder, "quartermaster.yaml"), "utf8"));
  const servers = { ...config.servers, memory: reference("memory") };
  await writeFile(join(folder, "quartermaster.yaml"), JSON.stringify({ servers }));
  const workspace = await openWorkspace({ cwd: folder, env: { PATH: process.env.PATH } });
  onTestFinished(workspace.close);

  const learned = await learnServers(workspace.servers, ["odd", "memory"], { timeoutMs: 5_000 });

  expect(learned).toMatchObject([
    { name: "odd", problem: { code: "server_failed", error: expect.stringContaining("within 5 s") } },
    { name: "memory", tools: 9 },
  ]);
  const pids = await listPids();
  expect(pids).toHaveLength(1);
  await vi.waitFor(() => expect(pids.filter(isAlive)).toEqual([]), { timeout: 30_000 });
});

describe("qm mcp asks unknown servers in the background", () => {
  test("only if the configuration is named: one that is found in the folder waits for a call", async () => {
    const { folder, listPids } = await oddFolder();
    const path = join(folder, "quartermaster.yaml");
    const { servers } = JSON.parse(await readFile(path, "utf8"));
    await writeFile(path, JSON.stringify({ servers: { ...servers, memory: reference("memory") } }));
    const { client, search } = await connect(folder);
    const call = (action_name: string) => client.callTool({ name: "invoke_action", arguments: { action_name } });

    // Another server is started and answers meanwhile.
    await call("mcp__memory__read_graph");
    const found = await search("echo");
    const before = await listPids();
    const pid = Number(textOf(await call("mcp__odd__pid")));

    expect(found).toContain("Not known yet: odd.");
    expect(before).toEqual([]);
    expect(await listPids()).toEqual([pid]);
  });

  test("and shares the start with a call that comes meanwhile", async () => {
    const { folder, listPids } = await oddFolder({ startDelayMs: 100 });
    const { client } = await connect(folder, ...NAMED);
    const call = { name: "invoke_action", arguments: { action_name: "mcp__odd__pid" } };

    const pid = Number(textOf(await client.callTool(call)));

    expect(await listPids()).toEqual([pid]);
  });

  test("and does not ask a server again whose tools are known", async () => {
    const { folder, listPids, run } = await oddFolder();
    await run(["servers", "start"]);
    const { search, client } = await connect(folder, ...NAMED);

    expect(await search("echo")).toContain("mcp__odd__echo");
    await client.close();

    expect(await listPids()).toHaveLength(1);
  });

  test.each(["SIGKILL", "SIGTERM"] as const)("and leaves no process behind after %s", async (signal) => {
    const { folder, listPids } = await oddFolder({ startDelayMs: 60_000, deaf: true });
    const { pid } = await connect(folder, ...NAMED);
    await vi.waitFor(async () => expect(await listPids()).toHaveLength(1), { timeout: 30_000 });

    process.kill(pid, signal);

    await vi.waitFor(async () => expect((await listPids()).filter(isAlive)).toEqual([]), { timeout: 30_000 });
  });
});
