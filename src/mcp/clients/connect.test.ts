import { chmod, mkdir, readdir, readFile, readlink, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { applyFileChange, type ClientConnectRequest } from "./client-file.ts";
import type { ClientEnvironment } from "./client-paths.ts";
import { clients, getClientDefinition } from "./clients.ts";
import { listClientConnections, planConnect, planDisconnect } from "./connect.ts";
import { readClients } from "./read-clients.ts";
import { homeWith, own, removeHomes } from "./testing.ts";

afterEach(removeHomes);

let ids = 0;
const runtime = { now: () => new Date("2026-03-04T05:06:07.890Z"), newId: () => `id${++ids}` };

function connecting(
  around: ClientEnvironment,
  client: string,
  given: Partial<ClientConnectRequest> = {},
): ClientConnectRequest {
  return { client: getClientDefinition(client), scope: "user", name: "qm", around, own, ...given };
}

function entryFor(client: string, profile = "default") {
  return getClientDefinition(client).gateway.stdio("/usr/bin/node", [own.bin, "mcp", "--profile", profile]);
}

async function connect(to: ClientConnectRequest, profile?: string) {
  return applyFileChange(await planConnect(to, entryFor(to.client.name, profile)), runtime);
}

async function disconnect(from: ClientConnectRequest) {
  const [change] = await planDisconnect(from);
  if (change === undefined) throw new Error("no change is planned");
  return applyFileChange(change, runtime);
}

const CURSOR = ".cursor/mcp.json";

test("Claude Code shows the model the tools of Quartermaster at once", () => {
  const { stdio, http } = getClientDefinition("claude-code").gateway;

  expect(stdio("qm", ["mcp"])).toMatchObject({ alwaysLoad: true });
  expect(http?.("http://127.0.0.1:7420/mcp", {})).toMatchObject({ alwaysLoad: true });
});

describe.each(["linux", "darwin", "win32"])("on %s", (platform) => {
  test.each(clients.map(({ name }) => name))(
    "%s is connected, found connected, and as before after that",
    async (name) => {
      const around = await homeWith({}, { platform });
      const to = connecting(around, name);
      const [file] = to.client.files(around);
      const path = file?.path ?? "";
      const before = to.client.format === "toml" ? '# mine\nmodel = "m"' : '{\n\t"theme": "dark", // mine\n}';
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, before);

      await connect(to);

      expect(await listClientConnections(to.client, around, own)).toEqual([{ path, name: "qm", scope: "user" }]);
      const { found } = await readClients({ ...around, only: [name] });
      expect(found[0]?.servers[0]?.entry).toMatchObject({
        command: "/usr/bin/node",
        args: [own.bin, "mcp", "--profile", "default"],
      });
      await disconnect(to);
      expect(await readFile(path, "utf8")).toBe(before);
      expect((await readdir(dirname(path))).filter((each) => each.includes(".bak"))).toEqual([]);
    },
  );
});

describe("connecting", () => {
  test("keeps a copy and the permissions, and says where the copy is", async () => {
    const around = await homeWith({ [CURSOR]: "{}" });
    const path = join(around.home, CURSOR);
    await chmod(path, 0o640);

    const { backup = "" } = await connect(connecting(around, "cursor"));

    expect(backup).toBe(`${path}.bak-20260304T050607Z`);
    expect(await readFile(backup, "utf8")).toBe("{}");
    expect((await stat(path)).mode & 0o777).toBe(0o640);
    expect((await stat(backup)).mode & 0o777).toBe(0o640);
  });

  test("creates a file that only its owner can read, and removes it again", async () => {
    const around = await homeWith();
    const to = connecting(around, "cursor");

    await connect(to);

    expect((await stat(join(around.home, CURSOR))).mode & 0o777).toBe(0o600);
    await disconnect(to);
    expect(await readdir(join(around.home, ".cursor"))).toEqual([]);
  });

  test("twice changes nothing the second time", async () => {
    const around = await homeWith({ [CURSOR]: "{}" });
    const to = connecting(around, "cursor");
    await connect(to);

    const change = await planConnect(to, entryFor("cursor"));

    expect(change.edits).toEqual([]);
    expect(await applyFileChange(change, runtime)).toEqual({});
    expect(await readdir(join(around.home, ".cursor"))).toHaveLength(2);
  });

  test("again with other settings can be undone to the first file", async () => {
    const before = '{ "mcpServers": {"a": {"command": "b"}} }';
    const around = await homeWith({ [CURSOR]: before });
    const to = connecting(around, "cursor");
    await connect(to, "one");
    await connect(to, "two");

    await disconnect(to);

    expect(await readFile(join(around.home, CURSOR), "utf8")).toBe(before);
  });

  test("writes through a link, and keeps the link", async () => {
    const around = await homeWith({ "dotfiles/cursor.json": "{}" });
    const path = join(around.home, CURSOR);
    await mkdir(dirname(path));
    await symlink("../dotfiles/cursor.json", path);

    await connect(connecting(around, "cursor"));

    expect(await readlink(path)).toBe("../dotfiles/cursor.json");
    expect(await readFile(join(around.home, "dotfiles/cursor.json"), "utf8")).toContain('"qm"');
  });

  test("writes into the file of a project when asked to", async () => {
    const around = await homeWith();

    await connect(connecting(around, "claude-code", { scope: "project" }));

    expect(await readFile(join(around.cwd, ".mcp.json"), "utf8")).toContain('"qm"');
    await expect(connect(connecting(around, "windsurf", { scope: "project" }))).rejects.toMatchObject({
      code: "invalid_arguments",
    });
  });

  test("writes into the existing one of two possible files", async () => {
    const around = await homeWith({ ".config/opencode/opencode.jsonc": "{}" });

    await connect(connecting(around, "opencode"));

    expect(await readdir(join(around.home, ".config/opencode"))).toEqual([
      "opencode.jsonc",
      "opencode.jsonc.bak-20260304T050607Z",
    ]);
  });

  test("neither replaces nor removes another server", async () => {
    const before = '{"mcpServers": {"qm": {"command": "quick-math"}}}';
    const around = await homeWith({ [CURSOR]: before });
    const to = connecting(around, "cursor");

    await expect(connect(to)).rejects.toMatchObject({ code: "conflict", hint: "Choose another --name." });
    await expect(disconnect(to)).rejects.toMatchObject({ code: "conflict" });
    expect(await readFile(join(around.home, CURSOR), "utf8")).toBe(before);
  });

  test("refuses a name that the client would refuse", async () => {
    const around = await homeWith();

    await expect(connect(connecting(around, "gemini", { name: "my_qm" }))).rejects.toMatchObject({
      code: "invalid_arguments",
    });
  });

  test("writes nothing when the file has changed since it was read", async () => {
    const around = await homeWith({ [CURSOR]: "{}" });
    const change = await planConnect(connecting(around, "cursor"), entryFor("cursor"));
    await writeFile(join(around.home, CURSOR), '{"a": 1}');

    await expect(applyFileChange(change, runtime)).rejects.toMatchObject({ code: "conflict" });
    expect(await readFile(join(around.home, CURSOR), "utf8")).toBe('{"a": 1}');
    expect(await readdir(join(around.home, ".cursor"))).toEqual(["mcp.json"]);
  });

  test.each<[string, string]>([
    ["is broken", '{"mcpServers": '],
    ["has something else there", '{"mcpServers": 7}'],
    ["is too deep", `{"a": ${"[".repeat(100)}${"]".repeat(100)}}`],
  ])("leaves a file alone that %s", async (_, before) => {
    const around = await homeWith({ [CURSOR]: before });

    await expect(connect(connecting(around, "cursor"))).rejects.toMatchObject({
      code: "invalid_config",
      message: expect.stringContaining(CURSOR),
    });
    expect(await readFile(join(around.home, CURSOR), "utf8")).toBe(before);
    expect(await readdir(join(around.home, ".cursor"))).toEqual(["mcp.json"]);
  });

  test("does not change a read-only file or a dangling link", async () => {
    const around = await homeWith({ [CURSOR]: "{}" });
    await chmod(join(around.home, CURSOR), 0o444);
    await mkdir(join(around.home, ".codex"));
    await symlink("nowhere.toml", join(around.home, ".codex/config.toml"));

    await expect(connect(connecting(around, "cursor"))).rejects.toMatchObject({ code: "action_failed" });
    await expect(connect(connecting(around, "codex"))).rejects.toMatchObject({ code: "action_failed" });
    expect(await readFile(join(around.home, CURSOR), "utf8")).toBe("{}");
    expect(await readlink(join(around.home, ".codex/config.toml"))).toBe("nowhere.toml");
  });

  test.skipIf(process.getuid?.() === 0)("says so when a folder cannot be written to", async () => {
    const around = await homeWith({ [CURSOR]: "{}" });
    await chmod(join(around.home, ".cursor"), 0o500);

    await expect(connect(connecting(around, "cursor"))).rejects.toMatchObject({ code: "action_failed" });
    await chmod(join(around.home, ".cursor"), 0o700);
    expect(await readdir(join(around.home, ".cursor"))).toEqual(["mcp.json"]);
  });
});

describe("undoing", () => {
  test("removes only our entry from a file that was changed since, and keeps a copy", async () => {
    const around = await homeWith({ [CURSOR]: "{}" });
    const path = join(around.home, CURSOR);
    const to = connecting(around, "cursor");
    await connect(to);
    const text = await readFile(path, "utf8");
    await writeFile(path, text.replace('"qm": {', '"new": {"command": "n"}, // later\n    "qm": {'));

    const { backup } = await disconnect(to);

    expect(await readFile(path, "utf8")).toBe('{\n  "mcpServers": {\n    "new": {"command": "n"} // later\n  }\n}');
    expect(backup).toBe(`${path}.bak-20260304T050608Z`);
  });

  test("changes nothing in a file without our entry", async () => {
    const around = await homeWith({ [CURSOR]: '{"mcpServers": {"a": {}}}' });

    const [change] = await planDisconnect(connecting(around, "cursor"));

    expect(change?.after).toBe(change?.before);
    expect((await planDisconnect(connecting(around, "zed")))[0]?.after).toBeUndefined();
  });

  test("restores every byte of the file", async () => {
    const piece = fc.constantFrom(
      "\uFEFF",
      "{",
      "}",
      '"a": 1',
      ",",
      '"mcpServers": {',
      "\r\n",
      "\n",
      " ",
      "// c\n",
      "}",
      "/* d */",
    );
    const texts = fc.oneof(
      fc.array(piece, { maxLength: 10 }).map((parts) => parts.join("")),
      fc.json().map((json) => `{"x": ${json}}`),
      fc.constantFrom(
        "",
        " ",
        "{}",
        "{}\n\n",
        "\uFEFF{ }",
        '{"mcpServers":{}}',
        '{"mcpServers": {\r\n  "a": {},\r\n}}\r\n',
      ),
    );
    await fc.assert(
      fc.asyncProperty(texts, fc.boolean(), async (text, isTwice) => {
        const around = await homeWith({ [CURSOR]: text });
        const path = join(around.home, CURSOR);
        const to = connecting(around, "cursor");
        const isConnected = await connect(to).then(
          () => true,
          () => false,
        );
        if (isConnected && isTwice) await connect(to, "another");
        if (isConnected) await disconnect(to);

        expect(await readFile(path)).toEqual(Buffer.from(text));
      }),
      { numRuns: 150 },
    );
  });
});
