import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterEach, describe, expect, onTestFinished, test } from "vitest";
import { usedOptions } from "../src/cli/global-options.ts";
import { atTerminal, cleanUp, createTestFolder, endings, qm } from "../src/cli/testing.ts";
import { openGateway } from "../src/mcp/gateway/create-gateway.ts";
import { openWorkspace } from "../src/workspace/workspace.ts";
import { connectStdioClient } from "./support/stdio-client.ts";

afterEach(cleanUp);

const CONFIG = `
providers: { memory: { enabled: true } }
actors:
  default: { tools: ["*"] }
  reader: { tools: [file__read, file__list] }
  broken: { tools: [file__read, file__raed] }
gateway:
  profiles:
    reading: { actor: reader }
`;

const MEMORY = "---\nname: Tea\ndescription: What Ann drinks.\ntype: user\n---\nGreen tea.\n";
const createFolder = () => createTestFolder({ "quartermaster.yaml": CONFIG, "a.txt": "hello\n", "tea.md": MEMORY });

/** A command line of each command that takes `--actor`, and whether it acts as that actor or only filters by it. */
const lines: Readonly<Record<string, readonly [line: string, use: "acts" | "filters"]>> = {
  list: ["list", "acts"],
  search: ["search read", "acts"],
  describe: ["describe file__read", "acts"],
  invoke: [`invoke file__read {"path":"a.txt"}`, "acts"],
  explain: ["explain file__read", "acts"],
  chat: ["chat", "acts"],
  run: ["run task", "acts"],
  "sessions list": ["sessions list", "filters"],
  "sessions show": ["sessions show s", "filters"],
  "sessions remove": ["sessions remove s", "filters"],
  "approvals list": ["approvals list", "filters"],
  "approvals watch": ["approvals watch", "filters"],
  events: ["events", "filters"],
  "notes list": ["notes list", "filters"],
  "notes search": ["notes search hello", "acts"],
  "notes export": ["notes export", "filters"],
  "notes import": ["notes import none.jsonl", "acts"],
  "notes rm": ["notes rm --all", "filters"],
  "memory list": ["memory list", "acts"],
  "memory show": ["memory show one", "acts"],
  "memory history": ["memory history one", "acts"],
  "memory forget": ["memory forget one", "acts"],
  "memory export": ["memory export out", "acts"],
  "memory import": ["memory import .", "acts"],
  "servers add": ["servers add -- node server.mjs", "acts"],
  "servers remove": ["servers remove one", "acts"],
  preflight: ["preflight file__read --no-start", "acts"],
  mcp: ["mcp", "acts"],
  prompt: ["prompt", "acts"],
  directory: ["directory", "acts"],
  hints: ["hints read", "acts"],
};

const takesActor = Object.entries(usedOptions).flatMap(([path, used]) => (used.includes("actor") ? [path] : []));

test("the table has every command that takes --actor", () => {
  expect(Object.keys(lines)).toEqual(takesActor);
});

describe.each(Object.entries(lines))("qm %s --actor", (path, [line, use]) => {
  const [command = "", ...rest] = line.split(" ");
  const run = (cwd: string, actor: string) => qm(cwd, ["--json", "--actor", actor, command, ...rest]);

  test("refuses an actor that is not configured, and suggests one", async () => {
    const ran = await run(await createFolder(), "readr");

    expect(ran.code, ran.out + ran.err).toBe(2);
    expect(ran.out).toMatch(/"code": *"unknown_actor"/);
    expect(ran.out).toContain("Did you mean reader?");
  });

  // These two ask a person first. The library refuses the call that follows.
  const asks = path === "servers add" || path === "servers remove";
  test.runIf(use === "acts" && !asks)("refuses an actor that lists an unknown action, and no other", async () => {
    const cwd = await createFolder();
    await writeFile(join(cwd, "none.jsonl"), "");
    const ran = await run(cwd, "broken");
    const other = await run(cwd, "reader");

    expect(ran.code, ran.out + ran.err).toBe(2);
    expect(ran.out).toMatch(/"code": *"invalid_config"/);
    expect(ran.out).toContain('actor broken lists \\"file__raed\\", which does not exist');
    expect(other.out).not.toContain("invalid_config");
  });
});

describe("an option that a command does not use", () => {
  test.each([
    ["serve --actor reader", "qm serve` has no option --actor"],
    ["doctor --actor reader", "qm doctor` has no option --actor"],
    ["secrets list --tenant t", "qm secrets list` has no option --tenant"],
    ["servers list --actor reader", "qm servers list` has no option --actor"],
    ["notes show note__1 --session s", "qm notes show` has no option --session"],
    ["approvals show 0198c0de --user u", "qm approvals show` has no option --user"],
    ["mcp --session s", "qm mcp` has no option --session"],
    ["replay s --actor reader", "qm replay` has no option --actor"],
    ["connect --actor reader", "qm connect` has no option --actor"],
    ["tour --config quartermaster.yaml", "qm tour` has no option --config"],
    ["completion bash --config quartermaster.yaml", "qm completion` has no option --config"],
    ["events verify --type call.", "qm events verify` has no option --type"],
    ["notes rm note__1 --actor reader", "select nothing without --all"],
    ["list --inventory --actor reader", "--inventory lists the actions of all callers"],
  ])("qm %s", async (line, message) => {
    const ran = await qm(await createFolder(), line.split(" "));

    expect(ran).toMatchObject({ code: 2, err: expect.stringContaining(message) });
  });

  test("is not in the help of the command", async () => {
    const cwd = await createFolder();
    const [serve, list] = [await qm(cwd, ["serve", "--help"]), await qm(cwd, ["list", "--help"])];

    expect(serve.out).toContain("--config <path>");
    expect(serve.out).not.toContain("--actor");
    expect(list.out).toContain("--actor <name>");
  });
});

test("a filter finds the events of an actor that is no longer configured", async () => {
  const cwd = await createFolder();
  await qm(cwd, ["invoke", "file__list", "{}", "--actor", "reader"]);
  await writeFile(join(cwd, "quartermaster.yaml"), "{}");

  const ran = await qm(cwd, ["events", "--actor", "reader"]);

  expect(ran.code, ran.err).toBe(0);
  expect(ran.out).toContain("file__list");
});

test("the inventory and doctor help to repair an actor, also the default one", async () => {
  const config = `actors: { default: { tools: [file__raed] } }`;
  const cwd = await createTestFolder({ "quartermaster.yaml": config });

  expect((await qm(cwd, ["list"])).code).toBe(2);
  const inventory = await qm(cwd, ["list", "--inventory", "--json"]);
  expect(inventory.code).toBe(0);
  expect(JSON.parse(inventory.out).actions).toContainEqual(
    expect.objectContaining({ name: "file__read", source: "core", type: "operation" }),
  );
  expect((await qm(cwd, ["list", "file", "--inventory", "--filter", "READ"], { columns: 200 })).out).toContain(
    "file__read",
  );
  const doctor = await qm(cwd, ["doctor"]);
  expect(doctor.out).toContain("did you mean file__read?");
});

test("tools of a server are unknown only after the server has told its tools", async () => {
  const server = join(import.meta.dirname, "fixtures/odd-server.mjs");
  const tool = { name: "echo", description: "Repeat a text.", inputSchema: { type: "object" } };
  const cwd = await createTestFolder({ "script.json": JSON.stringify({ tools: [tool] }) });
  const config = {
    servers: { odd: { command: process.execPath, args: [server, join(cwd, "script.json")] } },
    actors: { right: { tools: ["mcp__odd__echo"] }, wrong: { tools: ["mcp__odd__ecko"] } },
  };
  await writeFile(join(cwd, "quartermaster.yaml"), JSON.stringify(config));
  const env = { PATH: process.env.PATH };
  const list = async (actor: string) => (await qm(cwd, ["list", "--actor", actor], { env })).code;

  expect([await list("right"), await list("wrong")]).toEqual([0, 0]);
  await qm(cwd, ["servers", "start"], { env });
  expect([await list("right"), await list("wrong")]).toEqual([0, 2]);
  const { items } = JSON.parse((await qm(cwd, ["list", "--actor", "right", "--json"], { env })).out);
  expect(items).toMatchObject([{ qualified_name: "mcp__odd__echo", source: "server:odd", type: "operation" }]);
});

test("over HTTP, a broken actor fails for the clients of its profile alone", async () => {
  const cwd = await createFolder();
  const profiles = `
    broken: { actor: broken, token: "\${env:BROKEN_TOKEN}" }
    reading: { actor: reader, token: "\${env:READING_TOKEN}" }`;
  await writeFile(join(cwd, "quartermaster.yaml"), CONFIG.replace("\n    reading: { actor: reader }", profiles));
  const problems: string[] = [];
  const env = { BROKEN_TOKEN: "b".repeat(40), READING_TOKEN: "r".repeat(40) };
  const workspace = await openWorkspace({ cwd, env });
  onTestFinished(() => workspace.close());
  const gateway = openGateway(workspace, (problem) => problems.push(problem));
  onTestFinished(() => gateway.close());
  const { url } = await gateway.listen({ port: 0 });
  const connect = async (token: string) => {
    const requestInit = { headers: { Authorization: `Bearer ${token}` } };
    const client = new Client({ name: "test", version: "1" });
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
    onTestFinished(() => client.close());
    return client;
  };

  const broken = await connect(env.BROKEN_TOKEN);
  await expect(broken.listTools()).rejects.toThrow('actor broken lists "file__raed"');
  const reading = await connect(env.READING_TOKEN);
  expect((await reading.listTools()).tools).toHaveLength(4);
  expect(problems.join()).toContain('actor broken lists "file__raed"');
});

describe("qm mcp --actor", () => {
  test.each([[["--actor", "reader"]], [["--profile", "reading", "--actor", "reader"]]])(
    "serves the actor's actions: %s",
    async (options) => {
      const cwd = await createFolder();
      const { client } = await connectStdioClient(cwd, ...options);

      const invoke = (action_name: string, args: object) =>
        client.callTool({ name: "invoke_action", arguments: { action_name, args } });
      expect(await invoke("file__read", { path: "a.txt" })).not.toMatchObject({ isError: true });
      expect(await invoke("file__write", { path: "b.txt", content: "" })).toMatchObject({ isError: true });

      await client.close();
      expect(await endings(cwd)).toMatchObject([{ status: "done" }, { status: "failed", code: "unknown_action" }]);
      const events = await qm(cwd, ["events", "--actor", "reader", "--type", "call.received", "--json"]);
      expect(JSON.parse(events.out).events).toHaveLength(2);
    },
  );

  test("refuses an actor that the profile contradicts", async () => {
    const ran = await qm(await createFolder(), ["mcp", "--profile", "reading", "--actor", "default"]);

    expect(ran.code).toBe(2);
    expect(ran.err).toContain('the clients of the profile "reading" act as reader, not as default');
  });

  test("refuses a profile whose actor is broken", async () => {
    const cwd = await createFolder();
    await writeFile(join(cwd, "quartermaster.yaml"), CONFIG.replace("actor: reader", "actor: broken"));

    const ran = await qm(cwd, ["mcp", "--profile", "reading"], atTerminal(""));

    expect(ran.code).toBe(2);
    expect(ran.err).toContain('actor broken lists "file__raed"');
  });
});
