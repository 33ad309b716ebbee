import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { clients } from "../../mcp/clients/clients.ts";
import type { Io } from "../context.ts";
import { cleanUp, createTestFolder, qm } from "../testing.ts";
import { ownBin } from "./gateway-entry.ts";

afterEach(cleanUp);

const CONFIG = `gateway: { profiles: { web: { token: "\${env:QM_TOKEN}" }, kept: { token: "\${secret:QM_TOKEN}" } } }\n`;

async function place(files: Record<string, string> = {}, config: string | null = CONFIG) {
  const home = await createTestFolder();
  const cwd = join(home, "work");
  await mkdir(cwd);
  if (config !== null) await writeFile(join(cwd, "quartermaster.yaml"), config);
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(home, name)), { recursive: true });
    await writeFile(join(home, name), content);
  }
  const given = { env: { HOME: home, QM_TOKEN: "the-token" }, platform: "linux", execPath: "/opt/node" };
  return {
    home,
    cwd,
    run: (argv: readonly string[], io: Partial<Io> = {}) => qm(cwd, argv, { ...given, ...io }),
    text: (name: string) => readFile(join(home, name), "utf8"),
  };
}

const CURSOR = ".cursor/mcp.json";
const BEFORE = '{\n  // mine\n  "mcpServers": { "a": { "command": "b", "env": { "A_TOKEN": "hush-hush" } } },\n}\n';

describe("qm connect", () => {
  test("shows only the change, writes it, and prints how to undo it", async () => {
    const { run, text, home, cwd } = await place({ [CURSOR]: BEFORE });

    const { code, out, err } = await run(["connect", "cursor", "--yes"]);

    expect(code).toBe(0);
    expect(out).toContain(`${join(home, CURSOR)}\n  line 3:\n  + "qm":`);
    expect(out + err).not.toContain("hush-hush");
    expect(err).toContain("To undo: qm connect cursor --undo");
    expect(err).toContain(`${join(home, CURSOR)}.bak-`);
    const after = await text(CURSOR);
    expect(after.replace(/"qm":.*?\}, /, "")).toBe(BEFORE);
    expect(after).toContain(
      JSON.stringify({ command: "/opt/node", args: [ownBin, "mcp", "--config", join(cwd, "quartermaster.yaml")] }),
    );
  });

  test("restores the file byte for byte with --undo", async () => {
    const { run, text, home } = await place({ [CURSOR]: BEFORE });
    await run(["connect", "cursor", "--profile", "web", "--yes"]);

    const { code, out } = await run(["connect", "cursor", "--undo", "--yes"]);

    expect([code, out]).toEqual([0, expect.stringContaining("is disconnected")]);
    expect(await text(CURSOR)).toBe(BEFORE);
    expect(await readdir(join(home, ".cursor"))).toEqual(["mcp.json"]);
    expect((await run(["connect", "cursor", "--undo"])).out).toBe("Cursor is not connected as qm.\n");
  });

  test("asks for a yes, except with --dry-run", async () => {
    const { run, text } = await place({ [CURSOR]: BEFORE });

    const [asked, dry] = [await run(["connect", "cursor"]), await run(["connect", "cursor", "--dry-run", "--json"])];

    expect([asked.code, asked.err]).toEqual([3, expect.stringContaining("nobody agreed")]);
    expect(JSON.parse(dry.out)).toMatchObject({
      client: "cursor",
      name: "qm",
      changed: true,
      written: false,
      entry: { command: "/opt/node" },
    });
    expect(await text(CURSOR)).toBe(BEFORE);
  });

  test("reports that the client is already connected", async () => {
    const { run } = await place();
    await run(["connect", "zed", "--yes"]);

    expect(await run(["connect", "zed"])).toMatchObject({ code: 0, out: "Zed is already connected as qm.\n" });
  });

  test.each(clients.map(({ name }) => name))("prints an entry for %s, and changes nothing", async (name) => {
    const { run, home } = await place();

    const { code, out, err } = await run(["connect", name, "--print", "--name", "counter"]);

    expect([code, err]).toEqual([0, expect.stringContaining(`For ${home}`)]);
    expect(out).toContain("counter");
    expect(out).toContain(ownBin);
    expect(await readdir(home)).toEqual(["work"]);
  });

  test("lists the clients and which are connected", async () => {
    const { run, home } = await place({ [CURSOR]: "{}", ".codex/config.toml": "" });
    await run(["connect", "codex", "--yes", "--name", "counter"]);

    const [words, data] = [await run(["connect"]), await run(["connect", "--json"])];

    expect(words.out).toMatch(/codex +yes +as counter +.*config\.toml/);
    expect(words.out).toMatch(/cursor +yes +\/.*mcp\.json/);
    expect(words.out).toMatch(/windsurf +no +\//);
    const listed = JSON.parse(data.out).clients;
    expect(listed).toHaveLength(clients.length);
    expect(listed.find(({ name }: { name: string }) => name === "codex").connected).toEqual([
      { path: join(home, ".codex/config.toml"), name: "counter", scope: "user" },
    ]);
  });

  test("lists and undoes with an invalid configuration", async () => {
    const { run, cwd } = await place();
    await run(["connect", "cursor", "--yes"]);
    await writeFile(join(cwd, "quartermaster.yaml"), "servers: [");

    expect((await run(["connect"])).code).toBe(0);
    expect((await run(["connect", "cursor", "--undo", "--yes"])).code).toBe(0);
    expect((await run(["connect", "cursor", "--yes"])).code).toBe(2);
  });
});

describe("qm connect --project", () => {
  test.each([
    ["claude-code", "work/.mcp.json", "quartermaster.yaml"],
    ["codex", "work/.codex/config.toml", "quartermaster.yaml"],
    ["cursor", "work/.cursor/mcp.json", `\${workspaceFolder}/quartermaster.yaml`],
    ["vscode", "work/.vscode/mcp.json", `\${workspaceFolder}/quartermaster.yaml`],
  ])("writes no path of this machine into the shared file of %s", async (client, file, path) => {
    const { run, text, home } = await place();

    const { code, err } = await run(["connect", client, "--project", "--yes"]);

    expect([code, err]).toEqual([
      0,
      expect.stringContaining("needs `qm` on each machine: install the packed package in the project"),
    ]);
    const written = await text(file);
    for (const word of ["npx", "--no", "qm", "mcp", "--config", path]) expect(written).toContain(JSON.stringify(word));
    for (const machine of [home, ownBin, "/opt/node"]) expect(written).not.toContain(machine);
    expect((await run(["connect", client, "--project", "--undo", "--yes"])).out).toContain("is disconnected");
  });

  test("says that the configuration is outside of the folder", async () => {
    const { run, cwd } = await place();
    await mkdir(join(cwd, "app"));

    const { err } = await run(["connect", "claude-code", "--project", "--yes"], { cwd: join(cwd, "app") });

    expect(err).toContain("The entry refers to ../quartermaster.yaml, outside of this folder.");
  });

  test("writes absolute paths with --absolute, and says so", async () => {
    const { run, text, cwd } = await place();

    const { err } = await run(["connect", "claude-code", "--project", "--absolute", "--yes"]);

    expect(err).toContain("The entry has paths of this machine in it: do not commit it.");
    expect(await text("work/.mcp.json")).toContain(join(cwd, "quartermaster.yaml"));
  });
});

describe("qm connect --http", () => {
  test.each([
    ["claude-code", ".claude.json", `Bearer \${QM_TOKEN}`],
    ["cursor", CURSOR, `Bearer \${env:QM_TOKEN}`],
    ["vscode", ".config/Code/User/mcp.json", `Bearer \${env:QM_TOKEN}`],
    ["gemini", ".gemini/settings.json", `"httpUrl": "http://127.0.0.1:7420/mcp"`],
    ["windsurf", ".codeium/windsurf/mcp_config.json", `"serverUrl": "http://127.0.0.1:7420/mcp"`],
    ["opencode", ".config/opencode/opencode.json", "Bearer {env:QM_TOKEN}"],
    ["codex", ".codex/config.toml", 'bearer_token_env_var = "QM_TOKEN"'],
  ])("gives %s the URL and the name of the variable, not the token", async (client, file, expected) => {
    const { run, text } = await place();

    const { code, err } = await run(["connect", client, "--http", "--profile", "web", "--yes"]);

    expect(code).toBe(0);
    expect(err).toContain("Keep `qm serve` running");
    expect(await text(file)).toContain(expected);
    expect(await text(file)).not.toContain("the-token");
    expect((await run(["connect", client, "--undo", "--yes"])).out).toContain("is disconnected");
  });

  test("writes the plain token for a client without variables, and never prints it", async () => {
    const { run, text } = await place();

    const connected = await run(["connect", "zed", "--http", "--profile", "web", "--yes"]);
    const written = await text(".config/zed/settings.json");
    const undone = await run(["connect", "zed", "--undo", "--yes"]);

    expect(connected.err).toContain("The file contains the token in plain text.");
    expect(written).toContain("Bearer the-token");
    expect(connected.out + connected.err + undone.out).not.toContain("the-token");
    expect(connected.out).toContain("Bearer <token>");
  });

  test("shows the entry as data, without the token", async () => {
    const { run } = await place();

    const { out } = await run(["connect", "zed", "--http", "--profile", "web", "--dry-run", "--json"]);

    expect(JSON.parse(out).entry).toMatchObject({ headers: { Authorization: "Bearer <token>" } });
  });

  test("writes no token into a file of a project", async () => {
    const { run, cwd } = await place();

    const { code } = await run(["connect", "zed", "--http", "--profile", "web", "--project", "--yes"]);

    expect(code).toBe(3);
    expect(await readdir(cwd)).not.toContain(".zed");
  });

  test("takes the token from the secret store", async () => {
    const { run, text } = await place();
    await run(["secrets", "set", "QM_TOKEN"], { stdin: said("stored-token\n") });

    const { code } = await run(["connect", "cursor", "--http", "--profile", "kept", "--yes"]);

    expect(code).toBe(0);
    expect(await text(CURSOR)).toContain("Bearer stored-token");
  });

  test("creates the token of the default profile", async () => {
    const { run, text, cwd } = await place();

    const dry = await run(["connect", "cursor", "--http", "--dry-run"]);
    const isMade = (await readdir(cwd)).includes(".quartermaster");
    const { code, out } = await run(["connect", "cursor", "--http", "--yes"]);

    expect([dry.code, isMade, code]).toEqual([0, false, 0]);
    const token = (await text("work/.quartermaster/token")).trim();
    expect(await text(CURSOR)).toContain(`Bearer ${token}`);
    expect(out).not.toContain(token);
  });

  test("uses stdio for Claude Desktop, which supports no URL", async () => {
    const { run, text } = await place();

    const { err } = await run(["connect", "claude-desktop", "--http", "--profile", "web", "--yes"]);

    expect(err).toContain("supports no URL");
    expect(await text(".config/Claude/claude_desktop_config.json")).toContain('"--profile"');
  });
});

describe("qm connect --undo without a configuration", () => {
  const entry = (url: string, headers: object) => JSON.stringify({ mcpServers: { tour: { url, headers } } });
  const undo = ["connect", "cursor", "--name", "tour", "--config", "gone.yaml", "--undo", "--yes"];

  test("removes a local entry as qm writes it", async () => {
    const { run, text } = await place({
      [CURSOR]: entry("http://127.0.0.1:9876/mcp", { Authorization: "Bearer abc" }),
    });

    expect(await run(undo)).toMatchObject({ code: 0, out: expect.stringContaining("is disconnected") });
    expect(await text(CURSOR)).not.toContain("tour");
  });

  test.each([
    ["http://127.0.0.1:9876/mcp", {}],
    ["http://127.0.0.1:9876/other", { Authorization: "Bearer abc" }],
    ["https://tour.example:9876/mcp", { Authorization: "Bearer abc" }],
  ])("keeps the entry %s with %j", async (url, headers) => {
    const { run } = await place({ [CURSOR]: entry(url, headers) });

    expect(await run(undo)).toMatchObject({ err: expect.stringContaining("is another server, not Quartermaster") });
  });
});

describe("qm connect refuses", () => {
  test.each<[readonly string[], string | null, number, string]>([
    [["--undo"], CONFIG, 2, "--undo needs a client"],
    [["--http"], CONFIG, 2, "--http needs a client"],
    [["cursor", "--absolute"], CONFIG, 2, "--absolute needs --project"],
    [["emacs"], CONFIG, 2, "Valid: claude-code"],
    [["cursor", "--profile", "nobody"], CONFIG, 2, "Known profiles: default, web, kept"],
    [["cursor", "--name", "a b"], CONFIG, 2, "is not a valid server name"],
    [["gemini", "--name", "a_b"], CONFIG, 2, "must not contain one"],
    [["windsurf", "--project"], CONFIG, 2, "no file for a project"],
    [["cursor", "--http", "--profile", "web"], CONFIG.replace("{", "{ port: 0,"), 2, "gateway.port is 0"],
    [["cursor"], null, 2, "Run `qm init` to write one"],
  ])("%j", async (argv, config, code, said) => {
    const { run, home } = await place({}, config);

    const ran = await run(["connect", ...argv, "--yes"]);

    expect([ran.code, ran.err]).toEqual([code, expect.stringContaining(said)]);
    expect(await readdir(home)).toEqual(["work"]);
  });
});

async function* said(text: string): AsyncGenerator<string> {
  yield text;
}
