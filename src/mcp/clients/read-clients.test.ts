import { chmod, mkdir, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import type { ClientEnvironment } from "./client-paths.ts";
import { clients } from "./clients.ts";
import { planImport } from "./plan-import.ts";
import { readClients } from "./read-clients.ts";
import type { ServerEntry } from "./server-entry.ts";
import { homeWith, planning, removeHomes } from "./testing.ts";

afterEach(removeHomes);

/** What one client has, in our words, or why not. */
async function serversOf(around: ClientEnvironment, client: string) {
  const { found } = await readClients({ ...around, only: [client] });
  const named = found.flatMap(({ servers }) =>
    servers.map(({ name, entry, unfit }) => [name, entry ?? unfit.join("; ")] as const),
  );
  return Object.fromEntries(named) as Record<string, ServerEntry | string>;
}

async function notesOf(around: ClientEnvironment, client: string): Promise<readonly string[]> {
  const { found } = await readClients({ ...around, only: [client] });
  return found.flatMap(({ servers }) => servers.flatMap(({ notes }) => notes));
}

describe("the paths of files", () => {
  const home = "/home/ada";
  const user = (platform: string, env: ClientEnvironment["env"] = {}, folder = home) =>
    Object.fromEntries(
      clients.map((client) => [
        client.name,
        client.files({ home: folder, cwd: "/work", env, platform }).find(({ scope }) => scope === "user")?.path,
      ]),
    );

  test("on Linux", () => {
    expect(user("linux")).toEqual({
      "claude-code": "/home/ada/.claude.json",
      "claude-desktop": "/home/ada/.config/Claude/claude_desktop_config.json",
      cline: "/home/ada/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
      codex: "/home/ada/.codex/config.toml",
      cursor: "/home/ada/.cursor/mcp.json",
      gemini: "/home/ada/.gemini/settings.json",
      opencode: "/home/ada/.config/opencode/opencode.json",
      vscode: "/home/ada/.config/Code/User/mcp.json",
      windsurf: "/home/ada/.codeium/windsurf/mcp_config.json",
      zed: "/home/ada/.config/zed/settings.json",
    });
  });

  test("on macOS", () => {
    const files = user("darwin");

    expect(files["claude-desktop"]).toBe("/home/ada/Library/Application Support/Claude/claude_desktop_config.json");
    expect(files.vscode).toBe("/home/ada/Library/Application Support/Code/User/mcp.json");
    expect(files.zed).toBe("/home/ada/.config/zed/settings.json");
    expect(files.opencode).toBe("/home/ada/.config/opencode/opencode.json");
  });

  test("on Windows, with its separators", () => {
    const files = user("win32", { APPDATA: "C:\\Users\\Ada\\AppData\\Roaming" }, "C:\\Users\\Ada");

    expect(files["claude-desktop"]).toBe("C:\\Users\\Ada\\AppData\\Roaming\\Claude\\claude_desktop_config.json");
    expect(files.zed).toBe("C:\\Users\\Ada\\AppData\\Roaming\\Zed\\settings.json");
    expect(files.cursor).toBe("C:\\Users\\Ada\\.cursor\\mcp.json");
    expect(user("win32", {}, "C:\\Users\\Ada").vscode).toBe("C:\\Users\\Ada\\AppData\\Roaming\\Code\\User\\mcp.json");
  });

  test("with variables that move them", () => {
    const files = user("linux", { XDG_CONFIG_HOME: "/x", CODEX_HOME: "/c", CLAUDE_CONFIG_DIR: "/d" });

    expect(files.zed).toBe("/x/zed/settings.json");
    expect(files.codex).toBe("/c/config.toml");
    expect(files["claude-code"]).toBe("/d/.claude.json");
    expect(user("linux", { XDG_CONFIG_HOME: "relative" }).zed).toBe("/home/ada/.config/zed/settings.json");
  });

  test.each(["linux", "darwin", "win32"])("and they are read there, on %s", async (platform) => {
    const empty = await homeWith({}, { platform });
    for (const client of clients) {
      const [file] = client.files(empty);
      if (file === undefined) continue;
      await mkdir(join(file.path, ".."), { recursive: true });
      const key = file.keys[0];
      const command = client.name === "opencode" ? '["a", "b"]' : '"a"';
      await writeFile(
        file.path,
        client.format === "toml" ? `[${key}.one]\ncommand = "a"\n` : `{"${key}": {"one": {"command": ${command}}}}`,
      );
    }

    const { found } = await readClients(empty);

    expect(found.map(({ client }) => client.name)).toEqual(clients.map(({ name }) => name));
    for (const { servers, scope } of found) {
      expect(scope).toBe("user");
      expect(servers[0]?.entry?.command).toBe("a");
    }
  });
});

describe("the content of files", () => {
  test("Claude Desktop: text as it is, for it fills in nothing", async () => {
    const around = await homeWith({
      ".config/Claude/claude_desktop_config.json": `{"mcpServers": {
        "fs": {"command": "npx", "args": ["-y", "fs", "\${HOME}"], "env": {"PORT": 8080, "ON": true}},
        "nothing": {"env": {}}
      }, "theme": "dark"}`,
    });

    expect(await serversOf(around, "claude-desktop")).toEqual({
      fs: { command: "npx", args: ["-y", "fs", "$${HOME}"], env: { PORT: "8080", ON: "true" } },
      nothing: "it has neither a command nor a URL",
    });
  });

  test("Claude Code: the user's, this folder's and the project's", async () => {
    const around = await homeWith({
      "project/.mcp.json": `{"mcpServers": {"shared": {"command": "./run.sh"}}}`,
    });
    await writeFile(
      join(around.home, ".claude.json"),
      JSON.stringify({
        mcpServers: {
          git: { type: "stdio", command: "git-mcp", args: ["$NOT", `a\${TOKEN}b`, `\${REGION:-eu}`], alwaysLoad: true },
          web: { type: "http", url: `https://\${HOST}/mcp`, headers: { "X-Team": `\${TEAM}` }, timeout: 5000 },
          old: { type: "sse", url: "https://x.example/sse" },
          socket: { type: "ws", url: "wss://x.example" },
          odd: { type: "carrier-pigeon", command: "coo" },
        },
        projects: {
          [around.cwd]: { mcpServers: { local: { command: "mine" } } },
          "/somewhere/else": { mcpServers: { theirs: { command: "other" } } },
        },
      }),
    );

    const { found } = await readClients({ ...around, only: ["claude-code"] });

    expect(found.map(({ scope, part, servers }) => [scope, part, servers.map(({ name }) => name)])).toEqual([
      ["user", undefined, ["git", "web", "old", "socket", "odd"]],
      ["user", "for this folder", ["local"]],
      ["project", undefined, ["shared"]],
    ]);
    const servers = await serversOf(around, "claude-code");
    expect(servers.git).toEqual({ command: "git-mcp", args: ["$NOT", `a\${env:TOKEN}b`, `\${env:REGION}`] });
    expect(servers.web).toEqual({
      url: `https://\${env:HOST}/mcp`,
      headers: { "X-Team": `\${env:TEAM}` },
      call_timeout_ms: 5000,
    });
    expect(servers.old).toMatch(/SSE/);
    expect(servers.socket).toMatch(/WebSocket/);
    expect(servers.odd).toMatch(/unknown type .*carrier-pigeon/);
    expect(await notesOf(around, "claude-code")).toEqual(["the default of REGION was not imported: set the variable"]);
  });

  test("Cursor: comments, commas too many, places and a login", async () => {
    const around = await homeWith({
      ".cursor/mcp.json": `\uFEFF{
        // mine
        "mcpServers": {
          "a": {"command": "\${userHome}/bin/a", "cwd": "\${workspaceFolder}/sub", "env": {"T": "\${env:T}"}, "envFile": ".env",},
          "b": {"url": "https://b.example/mcp", "auth": {"CLIENT_ID": "id", "CLIENT_SECRET": "\${env:S}", "scopes": ["x"]}, "disabled": true},
        },
      }`,
    });

    expect(await serversOf(around, "cursor")).toEqual({
      a: { command: `${around.home}/bin/a`, cwd: `${around.cwd}/sub`, env: { T: `\${env:T}` } },
      b: {
        url: "https://b.example/mcp",
        oauth: { client_id: "id", client_secret: `\${env:S}`, scopes: ["x"] },
        enabled: false,
      },
    });
    expect(await notesOf(around, "cursor")).toEqual([
      `\${workspaceFolder} was replaced by this folder`,
      'not imported: "envFile"',
    ]);
  });

  test("VS Code: an input becomes a secret, or its default", async () => {
    const around = await homeWith({
      ".config/Code/User/mcp.json": `{
        "inputs": [
          {"id": "api-key", "type": "promptString", "password": true, "default": "never"},
          {"id": "region", "type": "pickString", "default": "eu", "options": ["eu"]}, 7
        ],
        "servers": {
          "a": {"type": "http", "url": "https://a.example/\${input:region}", "headers": {"X-Key": "\${input:api-key}"}},
          "pipe": {"type": "http", "url": "unix:///tmp/x.sock"}
        }
      }`,
    });

    expect(await serversOf(around, "vscode")).toEqual({
      a: { url: "https://a.example/eu", headers: { "X-Key": `\${secret:API_KEY}` } },
      pipe: "its URL is not http or https",
    });
    expect(await notesOf(around, "vscode")).toEqual([
      'VS Code asks for "region"; its default was used',
      'VS Code asks for "api-key": store the answer with `qm secrets set API_KEY`',
    ]);
  });

  test("Codex: its own keys for variables, times and tools", async () => {
    const around = await homeWith({
      ".codex/config.toml": `
model = "gpt-5"
[mcp_servers.docs]
command = "docs"
args = ["\${LITERAL}"]
env_vars = ["TOKEN", { name = "OTHER", source = "local" }]
startup_timeout_sec = 20
tool_timeout_sec = 0.5
enabled_tools = ["read", "list"]
disabled_tools = ["list"]
[mcp_servers.docs.env]
A = "1"
[mcp_servers.web]
url = "https://web.example/mcp"
bearer_token_env_var = "WEB_TOKEN"
http_headers = { "X-A" = "b" }
env_http_headers = { "X-C" = "C_VALUE" }
enabled = false
`,
    });

    expect(await serversOf(around, "codex")).toEqual({
      docs: {
        command: "docs",
        args: ["$${LITERAL}"],
        env: { A: "1", TOKEN: `\${env:TOKEN}`, OTHER: `\${env:OTHER}` },
        start_timeout_ms: 20_000,
        tools: { "*": { enabled: false }, read: { enabled: true }, list: { enabled: false } },
      },
      web: {
        url: "https://web.example/mcp",
        headers: { "X-A": "b", Authorization: `Bearer \${env:WEB_TOKEN}`, "X-C": `\${env:C_VALUE}` },
        enabled: false,
      },
    });
    expect(await notesOf(around, "codex")).toEqual([
      "tool_timeout_sec was ignored: it is not between one second and one day",
    ]);
  });

  test("Gemini CLI: httpUrl is HTTP, url is SSE, $VAR is a variable", async () => {
    const around = await homeWith({
      ".gemini/settings.json": `{"mcp": {"excluded": ["c"]}, "mcpServers": {
        "a": {"httpUrl": "https://a.example/mcp", "headers": {"K": "$KEY-\${KEY}"}, "includeTools": ["x"]},
        "b": {"url": "https://b.example/sse"},
        "bb": {"url": "https://b.example/mcp", "type": "http"},
        "c": {"command": "c", "cwd": "rel", "trust": true},
        "d": {"command": "d", "args": ["$$KEY"]}
      }}`,
    });

    const servers = await serversOf(around, "gemini");

    expect(servers).toMatchObject({
      a: {
        url: "https://a.example/mcp",
        headers: { K: `\${env:KEY}-\${env:KEY}` },
        tools: { "*": { enabled: false }, x: { enabled: true } },
      },
      bb: { url: "https://b.example/mcp" },
      c: { command: "c", cwd: join(around.cwd, "rel"), enabled: false },
    });
    expect(servers.b).toMatch(/SSE/);
    expect(servers.d).toMatch(/a \$ directly before a variable/);
  });

  test("Windsurf: serverUrl", async () => {
    const around = await homeWith({
      ".codeium/windsurf/mcp_config.json": `{"mcpServers": {
        "a": {"serverUrl": "https://a.example/mcp", "headers": {"K": "\${env:K}"}, "disabledTools": ["rm"]}
      }}`,
    });

    expect(await serversOf(around, "windsurf")).toEqual({
      a: { url: "https://a.example/mcp", headers: { K: `\${env:K}` }, tools: { rm: { enabled: false } } },
    });
  });

  test("Zed: both forms of a command, and none from extensions", async () => {
    const around = await homeWith({
      ".config/zed/settings.json": `{
        "theme": "One", // and more
        "context_servers": {
          "new": {"source": "custom", "command": "n", "args": ["1"], "env": {}, "enabled": false},
          "old": {"command": {"path": "o", "args": ["2"], "env": {"A": "b"}}},
          "web": {"url": "https://w.example/mcp"},
          "ext": {"source": "extension", "settings": {"token": "x"}},
        },
      }`,
    });

    const servers = await serversOf(around, "zed");

    expect(servers).toMatchObject({
      new: { command: "n", args: ["1"], enabled: false },
      old: { command: "o", args: ["2"], env: { A: "b" } },
      web: { url: "https://w.example/mcp" },
    });
    expect(servers.ext).toMatch(/Zed extension/);
  });

  test("opencode: a command that is a list, {env:…} and {file:…}, in .json and .jsonc", async () => {
    const around = await homeWith({
      ".config/opencode/opencode.jsonc": `{"mcp": {
        "a": {"type": "local", "command": ["bun", "x", "a"], "environment": {"K": "{env:K}", "API_TOKEN": "{file:~/.token}"}},
        "b": {"type": "remote", "url": "https://b.example/mcp", "oauth": false, "enabled": false},
      }}`,
      "project/opencode.json": `{"mcp": {"c": {"type": "remote", "url": "https://c.example/mcp", "oauth": {"scope": "r w"}}}}`,
    });

    expect(await serversOf(around, "opencode")).toEqual({
      a: { command: "bun", args: ["x", "a"], env: { K: `\${env:K}`, API_TOKEN: `\${secret:A_API_TOKEN}` } },
      b: { url: "https://b.example/mcp", enabled: false },
      c: { url: "https://c.example/mcp", oauth: { scopes: ["r", "w"] } },
    });
    expect(await notesOf(around, "opencode")).toEqual([
      'API_TOKEN is read from the file "~/.token": store its content with `qm secrets set A_API_TOKEN`',
    ]);
  });

  test("Cline: an address without a type is SSE", async () => {
    const folder = ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings";
    const around = await homeWith({
      [`${folder}/cline_mcp_settings.json`]: `{"mcpServers": {
        "a": {"command": "a", "disabled": true, "autoApprove": ["x"], "timeout": 60},
        "b": {"url": "https://b.example"},
        "c": {"type": "streamableHttp", "url": "https://c.example"}
      }}`,
    });

    const servers = await serversOf(around, "cline");

    expect(servers).toMatchObject({
      a: { command: "a", enabled: false, call_timeout_ms: 60_000 },
      c: { url: "https://c.example" },
    });
    expect(servers.b).toMatch(/SSE/);
  });
});

describe("a file that is not as it should be", () => {
  const CURSOR = ".cursor/mcp.json";

  test.each<[string, string | Uint8Array, RegExp]>([
    ["is cut off", '{"mcpServers": {', /line 1, column/],
    ["is not an object", "[1, 2]", /does not contain an object/],
    ["has a list where the servers are", '{"mcpServers": []}', /mcpServers is not an object/],
    ["is UTF-16", Buffer.from("{}", "utf16le"), /cannot be read/],
    ["is no text", Buffer.from([0xff, 0xfe, 0x00]), /UTF-8/],
    ["is as deep as a well", "[".repeat(1_000_000), /levels deep/],
    ["is deep inside", `{"mcpServers": ${'{"a":'.repeat(100)}1${"}".repeat(100)}}`, /levels deep/],
  ])("that %s loses only itself, and quotes nothing", async (_, content, expected) => {
    const around = await homeWith({ [CURSOR]: content, ".codex/config.toml": '[mcp_servers.a]\ncommand = "a"\n' });

    const { found } = await readClients(around);

    expect(found.map(({ client, servers }) => [client.name, servers.length])).toEqual([
      ["codex", 1],
      ["cursor", 0],
    ]);
    expect(found[1]?.problems.join()).toMatch(expected);
  });

  test("of TOML is reported by its position, without the line, which may hold a key", async () => {
    const around = await homeWith({ ".codex/config.toml": 'x = 1\ntoken = "sk-secret\n' });

    const { found } = await readClients(around);

    expect(found[0]?.problems.join()).toMatch(/not TOML at line 2/);
    expect(found[0]?.problems.join()).not.toContain("sk-secret");
  });

  test("that is huge is not read", async () => {
    const around = await homeWith({ [CURSOR]: "{}" });
    await truncate(join(around.home, CURSOR), 1e12);

    const { found } = await readClients(around);

    expect(found[0]?.problems.join()).toMatch(/more than \d+ bytes/);
  });

  test("that is a folder, or a link to itself, is reported", async () => {
    const around = await homeWith();
    await mkdir(join(around.home, CURSOR), { recursive: true });
    await symlink("config.toml", join(await homeFolder(around, ".codex"), "config.toml"));

    const { found } = await readClients(around);

    expect(found.map(({ client, problems }) => [client.name, problems.length])).toEqual([
      ["codex", 1],
      ["cursor", 1],
    ]);
  });

  test.skipIf(process.getuid?.() === 0)("that may not be read is told of", async () => {
    const around = await homeWith({ [CURSOR]: "{}" });
    await chmod(join(around.home, CURSOR), 0);

    const { found } = await readClients(around);

    expect(found[0]?.problems.join()).toMatch(/EACCES/);
  });

  test("with keys of prototypes returns only its own content", async () => {
    const around = await homeWith({
      [CURSOR]: `{"mcpServers": {
        "__proto__": {"command": "proto"},
        "constructor": {"__proto__": {"command": "inherited"}},
        "a": {"command": "a", "env": {"__proto__": "x", "toString": "y"}}
      }}`,
    });

    const { found } = await readClients(around);
    const servers = found[0]?.servers ?? [];

    expect(servers.map(({ name, entry }) => [name, entry?.command])).toEqual([
      ["__proto__", "proto"],
      ["constructor", undefined],
      ["a", "a"],
    ]);
    expect(Object.entries(servers[2]?.entry?.env ?? {})).toEqual([
      ["__proto__", "x"],
      ["toString", "y"],
    ]);
    expect(({} as Record<string, unknown>).command).toBeUndefined();
  });

  test("with wrong types leaves out only the servers that have them", async () => {
    const around = await homeWith({
      [CURSOR]: `{"mcpServers": {
        "n": null, "s": "text", "l": [], "c": {"command": 7}, "args": {"command": "a", "args": "b"},
        "arg": {"command": "a", "args": [{}]}, "env": {"command": "a", "env": []}, "null": {"command": "a", "env": {"A": null}},
        "type": {"type": 1, "command": "a"}, "headers": {"url": "https://a.example", "headers": 1}, "good": {"command": "a"}
      }}`,
    });

    const servers = await serversOf(around, "cursor");

    expect(servers.good).toEqual({ command: "a" });
    const { good: _, ...rest } = servers;
    expect(Object.values(rest).filter((each) => typeof each !== "string")).toEqual([]);
    expect(Object.keys(rest)).toHaveLength(10);
  });

  test("with texts that are slow to match is read", async () => {
    const slow = [`\${A:-`, `\${input:`, "{file:", "$", "-", "token=", `\${env:`].map((part) => part.repeat(20_000));
    const servers = { ["-".repeat(2_000_000)]: { command: "a", args: slow.slice(1), env: { [slow[4] ?? ""]: "x" } } };
    const mcpServers = {
      ...servers,
      nested: { command: "a", args: [`\${A:-\${B}}`] },
      long: { command: "x".repeat(2e5) },
    };
    const around = await homeWith({
      ".claude.json": JSON.stringify({ mcpServers }),
      ".gemini/settings.json": JSON.stringify({ mcpServers }),
      ".config/opencode/opencode.json": JSON.stringify({ mcp: mcpServers }),
      ".config/Code/User/mcp.json": JSON.stringify({ servers: mcpServers }),
    });

    const { found } = await readClients(around);
    const { servers: planned } = await planImport(found, planning());

    expect(found).toHaveLength(4);
    expect(planned.length).toBeGreaterThan(0);
    expect((await serversOf(around, "claude-code")).nested).toMatch(/a variable in a default/);
    expect((await serversOf(around, "claude-code")).long).toMatch(/longer than 100000 characters/);
  });

  test("with too many servers is read up to a limit", async () => {
    const many = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`s${at}`, { command: "a" }]));
    const around = await homeWith({ [CURSOR]: JSON.stringify({ mcpServers: many }) });

    const { found } = await readClients(around);

    expect(found[0]?.servers).toHaveLength(1000);
    expect(found[0]?.problems).toEqual(["only the first 1000 servers were read"]);
  });
});

test("reports an unknown client, with the known ones", async () => {
  const around = await homeWith();

  await expect(readClients({ ...around, only: ["emacs"] })).rejects.toMatchObject({
    code: "invalid_arguments",
    details: { valid: clients.map(({ name }) => name) },
  });
});

async function homeFolder({ home }: ClientEnvironment, name: string): Promise<string> {
  await mkdir(join(home, name), { recursive: true });
  return join(home, name);
}
