import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { parseConfig } from "../../config/parse.ts";
import type { Io } from "../context.ts";
import type { DoctorCheck } from "../doctor/environment-checks.ts";
import { atTerminal, cleanUp, createTestFolder, qm } from "../testing.ts";

afterEach(cleanUp);

const TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ";
const CURSOR = ".cursor/mcp.json";
const BEFORE = `{
  // mine
  "mcpServers": {
    "GitHub": { "command": "npx", "args": ["-y", "gh-mcp"], "env": { "GITHUB_TOKEN": "${TOKEN}" } },
    "old": { "type": "sse", "url": "https://old.example/sse" },
    "memory": { "command": "memory-mcp" }, // notes
  },
}
`;

async function place(files: Record<string, string> = { [CURSOR]: BEFORE }) {
  const home = await createTestFolder();
  const cwd = join(home, "work");
  await mkdir(cwd);
  for (const [name, content] of Object.entries({ "work/quartermaster.yaml": "# ours\n", ...files })) {
    await mkdir(dirname(join(home, name)), { recursive: true });
    await writeFile(join(home, name), content);
  }
  const given = { env: { HOME: home }, platform: "linux", execPath: "/opt/node" };
  return {
    home,
    run: (argv: readonly string[], io: Partial<Io> = {}) => qm(cwd, argv, { ...given, ...io }),
    text: (name: string) => readFile(join(home, name), "utf8"),
    servers: async () => parseConfig(await readFile(join(cwd, "quartermaster.yaml")), "c").config.servers,
  };
}

describe("qm connect --move", () => {
  test("imports the servers, takes them out of the client, and puts every byte back with --undo", async () => {
    const { run, text, servers, home } = await place();

    const moved = await run(["connect", "cursor", "--move"], atTerminal("y\n"));
    const after = await text(CURSOR);
    const undone = await run(["connect", "cursor", "--undo", "--yes"]);

    expect(moved).toMatchObject({ code: 0, out: expect.stringContaining("Moved 2 servers of Cursor.") });
    expect(moved.err).toContain("To undo: qm connect cursor --undo");
    expect(await servers()).toMatchObject({
      github: { env: { GITHUB_TOKEN: `\${secret:GITHUB_TOKEN}` }, source: "imported from cursor" },
      memory: { command: "memory-mcp" },
    });
    expect(after).toMatch(/"qm": .*"old": /s);
    expect(after).not.toMatch(/GitHub|"memory"|ghp_/);
    expect(undone).toMatchObject({ code: 0, err: expect.stringContaining("still in quartermaster.yaml") });
    expect(await text(CURSOR)).toBe(BEFORE);
    expect(await readdir(join(home, ".cursor"))).toEqual(["mcp.json"]);
    for (const { out, err } of [moved, undone]) expect(out + err).not.toContain(TOKEN);
  });

  test("starts the moved servers once, and stays done when one of them fails", async () => {
    const memory = join(import.meta.dirname, "../../../node_modules/@modelcontextprotocol/server-memory/dist/index.js");
    const servers = {
      memory: { command: process.execPath, args: [memory] },
      broken: { command: process.execPath, args: ["-e", "process.exit(3)"] },
    };
    const { run, text } = await place({ [CURSOR]: JSON.stringify({ mcpServers: servers }) });

    const moved = await run(["connect", "cursor", "--move", "--no-color"], atTerminal("y\n"));

    expect([moved.code, moved.err]).toEqual([0, expect.stringContaining(", and start each once to read their tools?")]);
    expect(moved.out).toMatch(/memory: works, \d+ tools/);
    expect(moved.out).toMatch(/broken: .*\n.*qm servers logs broken/);
    expect(moved.out).toContain("Not asked yet: broken. Try again: qm servers start broken");
    expect(Object.keys(JSON.parse(await text(CURSOR)).mcpServers)).toEqual(["qm"]);
    expect((await run(["search", "knowledge graph"])).out).toContain("mcp__memory__");
  });

  test("starts no server with --no-start", async () => {
    const { run } = await place();

    const moved = await run(["connect", "cursor", "--move", "--no-start"], atTerminal("y\n"));

    expect(moved).toMatchObject({ code: 0, err: expect.stringContaining("Write these changes? [y/N]") });
    expect(moved.out + moved.err).not.toMatch(/Not asked yet|servers asked/);
  });

  test("needs a person for new servers, and shows the plan without a change", async () => {
    const { run, text, servers } = await place();

    const [yes, dry] = [
      await run(["connect", "cursor", "--move", "--yes"]),
      await run(["connect", "cursor", "--move", "--dry-run", "--json"]),
    ];

    expect([yes.code, yes.err]).toEqual([3, expect.stringContaining("takes a person at a terminal")]);
    expect(JSON.parse(dry.out)).toMatchObject({
      client: "cursor",
      moved: ["GitHub", "memory"],
      servers: [{ name: "github" }, { name: "memory" }],
      skipped: [{ called: "old" }],
      changed: true,
      written: false,
      entry: { command: "/opt/node" },
    });
    expect(dry.out + dry.err + yes.out).not.toContain(TOKEN);
    expect([await text(CURSOR), await servers()]).toEqual([BEFORE, {}]);
  });

  test("only takes servers out that are imported already, with --yes", async () => {
    const { run, text } = await place();
    await run(["import", "cursor"], atTerminal("y\n"));
    await run(["connect", "cursor", "--name", "counter", "--yes"]);

    const { code, out } = await run(["connect", "cursor", "--move", "--yes", "--json"]);

    expect([code, JSON.parse(out)]).toMatchObject([0, { moved: ["GitHub", "memory"], servers: [], written: true }]);
    expect(await text(CURSOR)).toMatch(/"counter": .*"old": /s);
    expect(await text(CURSOR)).not.toContain('"qm"');
    expect((await run(["connect", "cursor", "--move"])).out).toContain("Cursor has no servers to move.");
    await run(["connect", "cursor", "--undo", "--name", "counter", "--yes"]);
    expect(await text(CURSOR)).toBe(BEFORE);
  });

  test("with --project moves the servers of the project", async () => {
    const shared = '{"mcpServers": {"memory": {"command": "memory-mcp"}}}';
    const { run, text, servers } = await place({ "work/.mcp.json": shared, ".claude.json": shared });

    await run(["connect", "claude-code", "--project", "--move"], atTerminal("y\n"));

    expect(Object.keys(await servers())).toEqual(["memory"]);
    expect(Object.keys(JSON.parse(await text("work/.mcp.json")).mcpServers)).toEqual(["qm"]);
    expect(await text(".claude.json")).toBe(shared);
  });

  test.each([
    [["--undo"], "--move and --undo do not go together"],
    [["--print"], "--move and --print do not go together"],
  ])("refuses %j", async (options, message) => {
    const { run, text } = await place();

    const { code, err } = await run(["connect", "cursor", "--move", ...options]);

    expect([code, err]).toEqual([2, expect.stringContaining(message)]);
    expect(await text(CURSOR)).toBe(BEFORE);
  });
});

test("doctor finds the servers that a connected client has twice, until they are moved", async () => {
  const { run } = await place();
  const findTwice = async () => {
    const { checks } = JSON.parse((await run(["doctor", "--json"])).out) as { checks: readonly DoctorCheck[] };
    return checks.filter(({ about }) => about === "client");
  };
  const { err: next } = await run(["import", "cursor"], atTerminal("y\n"));
  const imported = await findTwice();
  const { err: note } = await run(["connect", "cursor", "--yes"]);
  const connected = await findTwice();
  await run(["connect", "cursor", "--move", "--yes"]);

  expect(next).toContain("Next: `qm connect <client>`");
  expect(note).toContain(
    "Cursor now has GitHub, memory twice. To take them out of its own list: qm connect cursor --move",
  );
  expect(imported).toEqual([]);
  expect(connected).toEqual([
    {
      about: "client",
      status: "warn",
      message: "Cursor has GitHub, memory twice: itself and through Quartermaster",
      todo: "Run `qm connect cursor --move`.",
    },
  ]);
  expect(await findTwice()).toEqual([]);
});
