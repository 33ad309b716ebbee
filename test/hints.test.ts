import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { cleanUp, createTestFolder, qm as runCli } from "../src/cli/testing.ts";
import type { JsonObject } from "../src/index.ts";
import { openGateway } from "../src/mcp/gateway/create-gateway.ts";
import { clientOf } from "../src/mcp/gateway/testing.ts";
import { openWorkspace, type Workspace } from "../src/workspace/workspace.ts";

/** Every answer names only tools and actions that the caller has on that surface, and tells a model no command. */

afterAll(cleanUp);

interface Setting {
  readonly search: boolean;
  /** Whether the caller sees approval actions and those of the infospace. */
  readonly isWide: boolean;
}

const settings: readonly Setting[] = [
  { search: true, isWide: true },
  { search: false, isWide: true },
  { search: true, isWide: false },
  { search: false, isWide: false },
];
const SERVER = join(import.meta.dirname, "fixtures/counting-server.mjs");
const ENV = { PATH: process.env.PATH, UNIVERSAL: "u".repeat(32), THROUGH: "t".repeat(32) };

async function openWorld({ search, isWide }: Setting): Promise<{ folder: string; workspace: Workspace }> {
  const folder = await createTestFolder({ "a.txt": "hello" });
  const narrow = ["file__*", "mcp__counting__*", "tool__*", "infospace__apply", "infospace__map"];
  const config = {
    providers: { file: { read_only: false } },
    servers: {
      counting: { command: process.execPath, args: [SERVER, join(folder, "journal.txt")] },
      remote: { url: "http://127.0.0.1:9/mcp" },
    },
    actors: { default: { tools: isWide ? ["*"] : narrow } },
    search: { enabled: search },
    policy: {
      rules: [
        { name: "ask", rule: "tool.name == 'mcp__counting__add' || tool.name == 'file__edit'", effect: "ask" },
        { name: "no", rule: "tool.name == 'file__read' && args.path == 'secret.txt'", effect: "deny" },
      ],
      budgets: { session: { calls: 25 } },
    },
    gateway: {
      profiles: {
        universal: { token: `\${env:UNIVERSAL}`, surface: "universal" },
        through: { token: `\${env:THROUGH}`, pass_through: ["counting"] },
      },
    },
  };
  await writeFile(join(folder, "quartermaster.yaml"), JSON.stringify(config));
  const workspace = await openWorkspace({ cwd: folder, env: ENV });
  onTestFinished(workspace.close);
  await workspace.servers.hub.connect("counting");
  await workspace.quartermaster.catalog.settled();
  return { folder, workspace };
}

const EXPIRED = "00000000-0000-0000-0000-000000000000";

/** Calls that fail, wait or find nothing. */
const mistakes: readonly (readonly [action: string, args: JsonObject])[] = [
  ["file__raed", {}],
  ["nothing__like_it", {}],
  ["not a name", {}],
  ["file__read", {}],
  ["file__read", { path: "secret.txt" }],
  ["file__read", { path: "/etc/passwd" }],
  ["file__edit", { path: "a.txt", old_string: "hello", new_string: "bye" }],
  ["mcp__counting__add", { line: "x" }],
  ["mcp__call_tool", { tool: "counting__add", tool_args: { line: "y" } }],
  ["mcp__call_tool", { tool: "counting__nothing", tool_args: {} }],
  ["mcp__list_tools", { server: "nothing" }],
  ["mcp__remote__connect", {}],
  ["infospace__apply", { action: "mcp__counting__add", args: { line: "z" } }],
  ["infospace__apply", { action: "nothing__like_it", args: {} }],
  ["infospace__map", { target: [], action: "nothing__like_it" }],
  ["infospace__map", { target: "collection__99", action: "file__read" }],
  ["infospace__map", { target: [{ line: "m" }], action: "mcp__counting__add" }],
  ["infospace__load", { target: "note__99" }],
  ["infospace__load", { target: "no handle" }],
  ["file__write", { path: "b.txt", content: { $from: "note__99" } }],
  ["approval__await", { approval_id: EXPIRED }],
  ["approval__withdraw", { approval_id: EXPIRED }],
];

const SURFACE_TOOLS = ["list_actions", "search_actions", "describe_action", "invoke_action", "tool_search", "tool_get"];

/** Names in an answer that the caller does not have there. The caller's own words do not count. */
function findForeignNames(answer: string, asked: string, has: (name: string) => boolean): readonly string[] {
  const own = (name: string) => asked.includes(name.replace(/^mcp__/, "")) || /^(note|collection)__\d+$/.test(name);
  const actions = answer.match(/\b[a-z][a-z0-9.]*__[A-Za-z0-9_./-]*[A-Za-z0-9]/g) ?? [];
  const tools = SURFACE_TOOLS.filter((name) => new RegExp(`\\b${name}\\b`).test(answer));
  return [...actions, ...tools].filter((name) => !own(name) && !has(name));
}

const COMMAND = /`qm |\bqm (?:approvals|servers|list|search|secrets|invoke|notes|embeddings|doctor)\b/;

interface Place {
  call(action: string, args: JsonObject): Promise<string>;
  /** Tool calls that find or list nothing. */
  readonly lookups: readonly (readonly [tool: string, args: JsonObject])[];
  look(tool: string, args: JsonObject): Promise<string>;
  has(name: string): boolean;
  readonly isModel: boolean;
  /** Whether the budget of calls is used up, too. */
  readonly canSpend?: boolean;
}

async function expireAll({ quartermaster: { approvals } }: Workspace): Promise<void> {
  for (const { id, actor, session } of await approvals.list({ state: "pending" }))
    await approvals.withdraw(id, { actor, session }).catch(() => {});
}

const universalLookups = [
  ["list_actions", { category: ["nothing"] }],
  ["list_actions", { filter: "zzzz" }],
  ["list_actions", { limit: 0 }],
  ["list_actions", {}],
  ["search_actions", { query: "zzzz qqqq" }],
  ["search_actions", { query: "read", category: ["nothing"] }],
  ["describe_action", { action_name: "file__raed" }],
  ["invoke_action", { action: 1 }],
] as const;

const places: Readonly<Record<string, (workspace: Workspace, folder: string) => Promise<Place>>> = {
  async universal(workspace) {
    const surface = await workspace.quartermaster.surface({ session: "u" }, "universal");
    return {
      isModel: true,
      canSpend: true,
      lookups: universalLookups,
      look: async (tool, args) => (await surface.call(tool, args)).text,
      call: async (action_name, args) => (await surface.call("invoke_action", { action_name, args })).text,
      has: (name) =>
        surface.tools.some((tool) => tool.name === name) || workspace.quartermaster.names().includes(name as never),
    };
  },
  deferred: (workspace) => nativePlace(workspace, "deferred"),
  flat: (workspace) => nativePlace(workspace, "flat"),
  "MCP gateway, universal": (workspace) => overGateway(workspace, ENV.UNIVERSAL, true),
  "MCP gateway, passed through": (workspace) => overGateway(workspace, ENV.THROUGH, false),
  async library(workspace) {
    const { quartermaster } = workspace;
    const names = quartermaster.names();
    return {
      isModel: true,
      lookups: universalLookups,
      async look(tool, args) {
        try {
          if (tool === "list_actions") return JSON.stringify(quartermaster.list(args));
          if (tool === "search_actions") return JSON.stringify(await quartermaster.search(args as never));
          return JSON.stringify(quartermaster.describe(String(args.action_name)));
        } catch (thrown) {
          return JSON.stringify((thrown as { toProblem(): object }).toProblem());
        }
      },
      call: async (action, args) => JSON.stringify(await quartermaster.invoke(action, args)),
      has: (name) => names.includes(name as never),
    };
  },
  async "command line"(workspace, folder) {
    const names = workspace.quartermaster.names();
    const run = async (argv: readonly string[]) => {
      const { out, err } = await runCli(folder, argv, { env: ENV });
      return out + err;
    };
    return {
      isModel: false,
      lookups: [
        ["list", { args: ["nothing"] }],
        ["search", { args: ["zzzz"] }],
        ["describe", { args: ["file__raed"] }],
        ["notes", { args: ["show", "note__99"] }],
      ],
      look: (command, { args }) => run([command, ...(args as string[])]),
      call: (action, args) => run(["invoke", action, JSON.stringify(args)]),
      has: (name) => names.includes(name as never),
    };
  },
};

async function nativePlace({ quartermaster }: Workspace, kind: "deferred" | "flat"): Promise<Place> {
  const surface = await quartermaster.surface({ session: kind }, kind);
  return {
    isModel: true,
    canSpend: true,
    lookups:
      kind === "flat"
        ? []
        : [
            ["tool_search", { query: "zzzz qqqq" }],
            ["tool_search", {}],
            ["tool_get", { names: ["file__raed"] }],
          ],
    look: async (tool, args) => (await surface.call(tool, args)).text,
    call: async (action, args) => (await surface.call(action, args)).text,
    has: (name) => surface.tools.some((tool) => tool.name === name) || quartermaster.names().includes(name as never),
  };
}

async function overGateway(workspace: Workspace, token: string, isUniversal: boolean): Promise<Place> {
  const gateway = openGateway(workspace, (problem) => expect.fail(problem));
  onTestFinished(gateway.close);
  const { url } = await gateway.listen({ port: 0 });
  const client = clientOf("legacy");
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  onTestFinished(() => client.close());
  const tools = (await client.listTools()).tools.map(({ name }) => name);
  const look = async (name: string, args: JsonObject) => {
    try {
      return JSON.stringify(await client.callTool({ name, arguments: args }));
    } catch (thrown) {
      return `${(thrown as Error).message} ${JSON.stringify((thrown as { data?: unknown }).data)}`;
    }
  };
  return {
    isModel: true,
    lookups: isUniversal
      ? universalLookups
      : [
          ["add", {}],
          ["add", { line: "p" }],
          ["nothing", {}],
        ],
    look,
    call: (action, args) => (isUniversal ? look("invoke_action", { action_name: action, args }) : look(action, args)),
    has: (name) =>
      tools.includes(name.replace(/^mcp__counting__/, "")) ||
      (isUniversal && workspace.quartermaster.names().includes(name as never)),
  };
}

describe.each(settings)("with search $search and all actions visible $isWide", (setting) => {
  test.each(Object.keys(places))("answers on %s name only what exists there", async (name) => {
    const { workspace, folder } = await openWorld(setting);
    if (name === "deferred" && !setting.search) return;
    const place = await places[name]?.(workspace, folder);
    if (place === undefined) expect.fail("unknown place");
    const found: unknown[] = [];
    const check = (asked: unknown, answer: string) => {
      const foreign = findForeignNames(answer, JSON.stringify(asked), place.has);
      const command = place.isModel ? COMMAND.exec(answer)?.[0] : undefined;
      const isOff = !setting.search && /\bSearch (?:for|with)\b|qm search/.test(answer);
      if (foreign.length > 0 || command !== undefined || isOff) found.push({ asked, foreign, command, isOff, answer });
      if (/\{(?:search|list|user|qm |approve )/.test(answer)) found.push({ asked, unfilled: answer });
    };

    for (const [tool, args] of place.lookups) check([tool, args], await place.look(tool, args));
    for (const [action, args] of mistakes) check([action, args], await place.call(action, args));
    await expireAll(workspace);
    for (const [action, args] of mistakes.slice(6, 8)) check([action, args], await place.call(action, args));
    const read = ["file__read", { path: "a.txt" }] as const;
    for (let times = 0; place.canSpend && times < 25; times++) check(read, await place.call(...read));

    expect(found).toEqual([]);
  });
});

test("a waiting call tells a model to tell the user, and a person how to approve it", async () => {
  const { workspace, folder } = await openWorld({ search: true, isWide: true });
  const { quartermaster } = workspace;
  const args = { path: "a.txt", old_string: "hello", new_string: "bye" };
  const surface = await quartermaster.surface({ session: "s" }, "flat");

  const shown = await surface.call("file__edit", args);
  const outcome = await quartermaster.invoke("file__edit", args);
  const { err, code } = await runCli(folder, ["invoke", "file__edit", JSON.stringify(args)], { env: ENV });

  expect(shown.text).toContain("Tell the user what waits");
  expect(shown.text).toContain("Call approval__await with");
  const id = outcome.status === "waiting" ? outcome.approval.id : "";
  expect(outcome).toMatchObject({ hint: expect.stringContaining(`qm.approvals.answer("${id}"`) });
  expect(code).toBe(3);
  expect(err).toMatch(/Run `qm approvals approve [\w-]+` to allow it/);
});

test("no hint in the source names a tool of one surface or a command outside of the command line", async () => {
  const src = join(import.meta.dirname, "../src");
  const files = (await readdir(src, { recursive: true })).filter(
    (file) =>
      /\.ts$/.test(file) &&
      !/test\.ts$|testing\.ts$|^cli\/|^config\/|^mcp\/clients\/|^evals\/|^core\/hint\.ts$/.test(file),
  );
  const found: string[] = [];
  for (const file of files) {
    const text = await readFile(join(src, file), "utf8");
    for (const [line] of text.matchAll(/^.*\bhint\b.*$/gm)) {
      if (/["`].*(?:list_actions|search_actions|invoke_action|`qm |\\`qm )/.test(line))
        found.push(`${file}: ${line.trim()}`);
      if (/["`].*(?<![{\w])(?:infospace|mcp|approval)__[a-z]/.test(line)) found.push(`${file}: ${line.trim()}`);
    }
  }

  expect(found).toEqual([]);
});
