import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { parseConfig } from "../../config/parse.ts";
import type { Io } from "../context.ts";
import { atTerminal, cleanUp, createTestFolder, qm } from "../testing.ts";

afterEach(cleanUp);

const TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ";
const CURSOR = JSON.stringify({
  mcpServers: {
    GitHub: { command: "npx", args: ["-y", "gh-mcp"], env: { GITHUB_TOKEN: TOKEN, REGION: `\${env:REGION}` } },
    old: { type: "sse", url: "https://old.example/sse" },
    qm: { command: "qm", args: ["mcp"] },
  },
});

/** A home with files, and a folder in it to be in. */
async function place(files: Record<string, string> = { ".cursor/mcp.json": CURSOR }) {
  const home = await createTestFolder();
  const cwd = join(home, "work");
  await mkdir(cwd);
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(home, name)), { recursive: true });
    await writeFile(join(home, name), content);
  }
  const given = { env: { HOME: home }, platform: "linux" };
  return {
    home,
    cwd,
    run: (argv: readonly string[], io: Partial<Io> = {}) => qm(cwd, argv, { ...given, ...io }),
    json: async (argv: readonly string[], io: Partial<Io> = {}) =>
      JSON.parse((await qm(cwd, [...argv, "--json"], { ...given, ...io })).out),
  };
}

describe("qm import", () => {
  test("shows which servers it would add or leave out, and changes nothing", async () => {
    const { run, cwd } = await place();

    const { code, out } = await run(["import", "--dry-run"]);

    expect(code).toBe(0);
    expect(out).toContain("github  from Cursor");
    expect(out).toContain("npx -y gh-mcp");
    expect(out).toContain(`GITHUB_TOKEN=\${secret:GITHUB_TOKEN}`);
    expect(out).toContain("the variable REGION is not set here");
    expect(out).toMatch(/old +cursor +it uses the deprecated SSE transport/);
    expect(out).toMatch(/qm +cursor +it is Quartermaster itself/);
    expect(out).not.toContain(TOKEN);
    expect(await readdir(cwd)).toEqual([]);
  });

  test("writes servers into the configuration and secrets into their store", async () => {
    const { run, cwd } = await place();

    const { code, out, err } = await run(["import"], atTerminal("y\n"));

    expect(code).toBe(0);
    expect(out).toContain("Added 1 server");
    expect(err).toContain(`To undo: rm ${join(cwd, "quartermaster.yaml")}`);
    const text = await readFile(join(cwd, "quartermaster.yaml"), "utf8");
    expect(parseConfig(Buffer.from(text), "c").config.servers.github).toMatchObject({
      command: "npx",
      env: { GITHUB_TOKEN: `\${secret:GITHUB_TOKEN}`, REGION: `\${env:REGION}` },
      source: "imported from cursor",
    });
    expect(text + out + err).not.toContain(TOKEN);
    expect((await run(["secrets", "list"])).out).toBe("GITHUB_TOKEN\n");
  });

  test("asks, and accepts only yes", async () => {
    const { run, cwd } = await place();

    const no = await run(["import"], atTerminal("n\n"));
    const nobody = await run(["import"]);

    expect([no.code, nobody.code]).toEqual([3, 3]);
    expect(no.err).toContain("Add 1 server, and start it once to read its tools? [y/N]");
    expect(nobody.err).toContain("QM_APPROVER_TOKEN");
    expect(await readdir(cwd)).toEqual([]);
    expect((await run(["import"], atTerminal("y\n"))).code).toBe(0);
    expect(await readdir(cwd)).toContain("quartermaster.yaml");
  });

  test("adds nothing the second time, and prints how to undo the first", async () => {
    const { run, json, cwd } = await place();
    await writeFile(join(cwd, "quartermaster.yaml"), "# mine\nlimits: { concurrency: 4 }\n");

    const first = await json(["import"], atTerminal("y\n"));
    const second = await json(["import"]);

    expect(first).toMatchObject({ written: true, backup: expect.stringContaining("quartermaster.yaml.bak-") });
    expect(await readFile(first.backup, "utf8")).toBe("# mine\nlimits: { concurrency: 4 }\n");
    expect(await readFile(join(cwd, "quartermaster.yaml"), "utf8")).toMatch(/^# mine/);
    expect(second).toMatchObject({ servers: [], written: false });
    expect(second.skipped[0]).toMatchObject({ called: "GitHub", why: "it is already configured as github" });
    expect((await run(["import"])).out).toContain("There is nothing to add.");
  });

  test("prints the plan as JSON without secrets", async () => {
    const { run } = await place();

    const { out } = await run(["import", "--dry-run", "--json"]);

    expect(out).not.toContain(TOKEN);
    expect(JSON.parse(out)).toMatchObject({
      servers: [{ name: "github", client: "cursor", secrets: [{ name: "GITHUB_TOKEN", where: "env.GITHUB_TOKEN" }] }],
      skipped: [{ called: "old" }, { called: "qm" }],
      problems: [],
      written: false,
    });
  });

  test("imports a project's servers only with --project", async () => {
    const { json } = await place({ "work/.mcp.json": '{"mcpServers": {"theirs": {"command": "x"}}}' });

    expect((await json(["import", "--dry-run"])).servers).toEqual([]);
    expect((await json(["import", "--dry-run", "--project"])).servers).toMatchObject([{ name: "theirs" }]);
  });

  test("imports only the named clients and servers", async () => {
    const { run, json } = await place({
      ".cursor/mcp.json": '{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}',
      ".codex/config.toml": '[mcp_servers.c]\ncommand = "c"\n',
    });

    const named = await json(["import", "cursor", "--dry-run", "--only", "b"]);
    const [client, server] = [await run(["import", "crusor"]), await run(["import", "--only", "bb"])];

    expect(named.servers.map(({ name }: { name: string }) => name)).toEqual(["b"]);
    expect([client.code, client.err]).toEqual([2, expect.stringContaining("Valid: claude-code, ")]);
    expect([server.code, server.err]).toEqual([1, expect.stringContaining('no client has a server called "bb"')]);
  });

  test("reports a broken file and continues", async () => {
    const { run } = await place({
      ".cursor/mcp.json": "{",
      ".codex/config.toml": '[mcp_servers.c]\ncommand = "c"\n',
    });

    const { code, out, err } = await run(["import", "--dry-run"]);

    expect(code).toBe(1);
    expect(out).toContain("c  from Codex");
    expect(err).toMatch(/warning: Cursor: .*mcp\.json: the file cannot be read: it is not JSON at line 1, column 2/);
  });

  test.each([{}, { ".config/zed/settings.json": "{}" }])("reports that a client has no servers: %j", async (files) => {
    const { run } = await place({ ".cursor/mcp.json": CURSOR, ...files });

    const { code, out } = await run(["import", "zed"]);

    expect([code, out]).toEqual([0, "Zed has no MCP servers.\n\nThere is nothing to add.\n"]);
  });

  test("leaves out servers that are not valid in the configuration", async () => {
    const { json } = await place({
      ".cursor/mcp.json": '{"mcpServers": {"a": {"command": "a", "env": {"not a name": "x"}}, "b": {"command": "b"}}}',
    });

    const { servers, skipped } = await json(["import", "--dry-run"]);

    expect(servers).toMatchObject([{ name: "b" }]);
    expect(skipped[0].why).toMatch(/^not valid in the configuration: env: not a name: /);
  });

  test("stores no secret when the configuration cannot be written", async () => {
    const { run, cwd } = await place();
    await writeFile(join(cwd, "quartermaster.yaml"), "servers: { a: { command: a } }\n");
    const spoiled = { ...atTerminal(""), stdin: spoiling(join(cwd, "quartermaster.yaml")) };

    const { code } = await run(["import"], spoiled);

    expect(code).not.toBe(0);
    await writeFile(join(cwd, "quartermaster.yaml"), "");
    expect((await run(["secrets", "list", "--json"])).out).toBe('{"secrets":[]}\n');
  });

  test("reports a missing home folder and missing clients", async () => {
    const { run } = await place({});

    expect((await run(["import"])).out).toContain("No client on this machine");
    expect(await run(["import"], { env: {} })).toMatchObject({ code: 2, err: expect.stringContaining("Set HOME.") });
  });
});

/** A terminal at which the configuration is broken before the answer yes. */
function spoiling(path: string): Io["stdin"] {
  async function* typed(): AsyncGenerator<string> {
    await writeFile(path, "servers: [");
    yield "y\n";
  }
  return Object.assign(typed(), { isTTY: true });
}
