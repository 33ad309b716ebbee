import { mkdir, readFile, realpath, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { cleanUp, createTestFolder, qm } from "../../src/cli/testing.ts";
import {
  actionName,
  createQuartermaster,
  defineAction,
  defineResource,
  type Quartermaster,
  type QuartermasterOptions,
} from "../../src/index.ts";
import { openGateway } from "../../src/mcp/gateway/create-gateway.ts";
import { clientOf, invoke, saidBy } from "../../src/mcp/gateway/testing.ts";
import { openWorkspace, type Workspace } from "../../src/workspace/workspace.ts";

const closing: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  await cleanUp();
});

const RULES = `
providers: { file: { read_only: false } }
policy:
  rules:
    - { name: private, rule: "has(args.path) && args.path.startsWith('private/')", effect: deny, reason: It is private. }
    - { name: ask, rule: "has(args.path) && args.path == 'ask/me'", effect: ask }
`;

/** The rule of docs/guides/write-policy.md. */
const NO_DOTFILES = `
providers: { file: { read_only: false } }
policy:
  rules:
    - { name: no-dotfiles, rule: "tool.category == 'file' && has(args.path) && args.path.matches('(^|/)[.]+[^./]')", effect: deny, reason: It is private. }
`;

async function workspaceFolder(config = RULES): Promise<string> {
  const folder = await createTestFolder({ "quartermaster.yaml": config });
  for (const name of ["private", "public", "ask", "public/.git"]) await mkdir(join(folder, name));
  for (const name of ["private/key", "public/a.txt", "ask/me", "public/.git/config", ".env"])
    await writeFile(join(folder, name), `this is ${name}\n`);
  return folder;
}

async function openIn(folder: string): Promise<Workspace> {
  const workspace = await openWorkspace({ cwd: folder, env: { PATH: process.env.PATH } });
  closing.push(() => workspace.close());
  return workspace;
}

/** Every spelling that the file provider resolves to the same file. */
function spellings(path: string, roots: readonly string[]): fc.Arbitrary<string> {
  const noise = fc
    .array(fc.constantFrom("", "."), { maxLength: 3 })
    .map((parts) => parts.map((part) => `${part}/`).join(""));
  const start = fc.constantFrom("", "./", ...roots.map((root) => `${root}/`));
  const parts = path.split("/");
  return (
    fc
      .record({
        start,
        between: fc.array(noise, { minLength: parts.length, maxLength: parts.length }),
        end: fc.constantFrom("", "/", "/.", "//"),
      })
      // Without a start, the path must not begin with a slash. That would be another root.
      .map(({ start, between, end }) => {
        const first = start === "" ? (between[0] ?? "").replace(/^\/+/, "") : (between[0] ?? "");
        return start + parts.map((part, at) => (at === 0 ? first : `/${between[at]}`) + part).join("") + end;
      })
  );
}

async function samples(path: string, root: string, count = 25): Promise<readonly string[]> {
  const known = [path, `./${path}`, `.//${path.replace("/", "/./")}`, join(root, path)];
  return [...known, ...fc.sample(spellings(path, [root]), count)];
}

describe("a rule about a path", () => {
  test.each([
    ["private/key", RULES],
    ["public/.git/config", NO_DOTFILES],
    [".env", NO_DOTFILES],
  ])("denies every spelling of %s", async (path, config) => {
    const root = await workspaceFolder(config);
    const { quartermaster } = await openIn(root);

    await fc.assert(
      fc.asyncProperty(spellings(path, [root]), fc.constantFrom("read", "delete", "grep"), async (spelling, entry) => {
        const args = entry === "grep" ? { path: spelling, pattern: "this" } : { path: spelling };
        const outcome = await quartermaster.invoke(`file__${entry}`, args);
        expect(outcome, spelling).toMatchObject({
          status: "refused",
          error: { code: "denied", error: "It is private." },
        });
      }),
      { numRuns: 150 },
    );
    expect(await readFile(join(root, path), "utf8")).toBe(`this is ${path}\n`);
  });

  test("allows every spelling of a file that it does not cover", async () => {
    const root = await workspaceFolder();
    const { quartermaster } = await openIn(root);

    for (const spelling of await samples("public/a.txt", root))
      expect(await quartermaster.invoke("file__read", { path: spelling }), spelling).toMatchObject({
        status: "done",
        data: { path: "public/a.txt" },
      });
  });

  test("applies on every surface", async () => {
    const root = await workspaceFolder();
    const { quartermaster } = await openIn(root);
    const universal = await quartermaster.surface({}, "universal");
    const flat = await quartermaster.surface({}, "flat");
    const deferred = await quartermaster.surface({}, "deferred");

    for (const path of await samples("private/key", root)) {
      const answers = [
        await universal.call("invoke_action", { action_name: "file__read", args: { path } }),
        await flat.call("file__read", { path }),
        await deferred.call("file__read", { path }),
      ];
      for (const answer of answers) expect(JSON.stringify(answer), path).toMatch(/It is private/);
    }
  });

  test("applies at the command line", async () => {
    const root = await workspaceFolder();

    for (const path of await samples("private/key", root, 4)) {
      const { code, out, err } = await qm(root, ["invoke", "file__read", "--arg", `path=${path}`]);
      expect([code === 0, out + err], path).toEqual([false, expect.stringContaining("It is private")]);
    }
  });

  test.each(["legacy", "modern"] as const)("applies to an MCP client (%s)", async (era) => {
    const root = await workspaceFolder();
    const workspace = await openIn(root);
    const { url, tokenPath, close } = await openGateway(workspace, () => {}).listen({ port: 0 });
    closing.push(close);
    const token = (await readFile(tokenPath ?? "", "utf8")).trim();
    const client = clientOf(era);
    const requestInit = { headers: { authorization: `Bearer ${token}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
    closing.push(() => client.close());

    for (const path of await samples("private/key", root, 8))
      expect(saidBy(await invoke(client, "file__read", { path })), path).toContain("It is private");
  });

  test("applies when the root is reached through a link", async () => {
    const root = await workspaceFolder();
    const link = join(await createTestFolder(), "link");
    await symlink(root, link);
    const { quartermaster } = await openIn(link);

    for (const folder of [link, root])
      expect(await quartermaster.invoke("file__read", { path: `${folder}/private/key` }), folder).toMatchObject({
        error: { code: "denied" },
      });
  });

  test("refuses a path that has no normal form inside the root", async () => {
    const root = await workspaceFolder();
    const { quartermaster } = await openIn(root);

    for (const path of ["../x", "public/../private/key", "/etc/passwd", "~/x", "a\\b", "a\0b"])
      expect(await quartermaster.invoke("file__read", { path }), path).toMatchObject({
        error: { code: "path_refused" },
      });
  });
});

describe("the normal form of an argument", () => {
  test("is bound by an approval, so all spellings share one question", async () => {
    const root = await workspaceFolder();
    const { quartermaster } = await openIn(root);
    const ids = new Set<string>();

    for (const path of await samples("ask/me", root, 10)) {
      const outcome = await quartermaster.invoke("file__read", { path });
      if (outcome.status !== "waiting") throw new Error(JSON.stringify(outcome));
      ids.add(outcome.approval.id);
    }

    expect(ids.size).toBe(1);
    const [id = ""] = ids;
    expect(await quartermaster.approvals.get(id)).toMatchObject({ args: { path: "ask/me" } });
  });

  test("is recorded in the ledger next to the original argument", async () => {
    const root = await workspaceFolder();
    const { quartermaster } = await openIn(root);

    const { callId } = await quartermaster.invoke("file__read", { path: ".//public/./a.txt" });
    await quartermaster.invoke("file__read", { path: "public/a.txt" });

    const events = await quartermaster.ledger.read({ session: "local" });
    expect(events.filter(({ type }) => type === "arguments.repaired")).toMatchObject([
      {
        callId,
        data: { repairs: ["/path: brought into its normal form"], args: { path: "public/a.txt" } },
      },
    ]);
    expect(events.find(({ type }) => type === "call.received")).toMatchObject({
      data: { args: { path: ".//public/./a.txt" } },
    });
  });

  test("is passed to the handler of a registered tool", async () => {
    const quartermaster = await start();
    quartermaster.register({
      name: "fetch",
      description: "Fetches a page.",
      inputSchema: z.object({ url: z.string(), also: z.array(z.object({ file: z.string() })).optional() }),
      normalize: { url: "url", "also.file": "path" },
      handler: (args) => args,
      scope: "generalist",
      effect: "read",
    });

    expect(
      await quartermaster.invoke("tool__fetch", {
        url: "HTTPS://Example.COM:443/%7Eada/../b#top",
        also: [{ file: "a//b" }, { file: "./c/../d" }],
      }),
    ).toMatchObject({ data: { url: "https://example.com/b", also: [{ file: "a/b" }, { file: "d" }] } });
    expect(await quartermaster.invoke("tool__fetch", { url: "https://good.example@evil.example/" })).toMatchObject({
      error: { code: "invalid_arguments" },
    });
  });

  test("is validated against the schema again", async () => {
    const quartermaster = await start();
    quartermaster.register({
      name: "look",
      description: "Looks at a file.",
      inputSchema: { type: "object", properties: { file: { type: "string", pattern: "^[.]/" } } },
      normalize: { file: "path" },
      handler: (args) => args,
      scope: "generalist",
      effect: "read",
    });

    expect(await quartermaster.invoke("tool__look", { file: "./a" })).toMatchObject({
      error: { code: "invalid_arguments" },
    });
  });

  test.each([undefined, "options"])("is passed to the operation of a resource (wrap: %s)", async (wrap) => {
    const base = { description: "Reads.", effect: "read" } as const;
    const inner = z.object({ path: z.string().default("x") });
    const read = defineAction("disk", {
      ...base,
      entry: "read",
      input: wrap === undefined ? inner.extend({ root: z.string() }) : z.object({ root: z.string(), options: inner }),
      normalize: { [wrap === undefined ? "path" : "options.path"]: "path", root: "path" },
      run: (args) => args,
    });
    const disk = defineResource("drive", {
      entry: "main",
      description: "The main drive.",
      target: actionName("disk", "read"),
      transform: { set: { root: "./$entry//" }, ...(wrap === undefined ? {} : { wrap }) },
    });
    const rule = `tool.name == 'disk__read' && ${wrap === undefined ? "args" : "args.options"}.path.startsWith('private/')`;
    const quartermaster = await start({
      providers: [
        { category: "disk", capability: "read", list: () => [read] },
        { category: "drive", capability: "drives", list: () => [disk] },
      ],
      policy: { rules: [{ rule, effect: "deny" }] },
    });

    for (const path of ["private/key", "./private/key", "private//key", "x/../private/./key"])
      expect(await quartermaster.invoke("drive__main", { path }), path).toMatchObject({ error: { code: "denied" } });
    expect(await quartermaster.invoke("drive__main", { path: ".//a" })).toMatchObject({
      data: { root: "$entry", ...(wrap === undefined ? { path: "a" } : { options: { path: "a" } }) },
    });
  });
});

describe("a declared argument of an MCP server", () => {
  const server = join(import.meta.dirname, "../../node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");

  test("has the same spelling for rules and for the server", async () => {
    const root = await realpath(await workspaceFolder("{}"));
    const rule = (argument: string) =>
      `tool.category == 'mcp' && has(args.${argument}) && args.${argument}.startsWith('${root}/private')`;
    const config = {
      policy: { rules: [{ name: "private", rule: rule("path"), effect: "deny", reason: "It is private." }] },
      servers: {
        files: {
          command: process.execPath,
          args: [server, root],
          tools: { "*": { arguments: { path: "file", paths: "file" } } },
        },
      },
    };
    await writeFile(join(root, "quartermaster.yaml"), JSON.stringify(config));
    const { quartermaster, servers } = await openIn(root);
    await servers.hub.connect("files");
    const read = (path: string) => quartermaster.invoke("mcp__files__read_text_file", { path });

    for (const path of [
      ...(await samples("private/key", root)),
      `${root}/public/../private/key`,
      "public/../private/key",
    ])
      expect(await read(path), path).toMatchObject({ error: { code: "denied" } });
    for (const path of await samples("public/a.txt", root, 5))
      expect(JSON.stringify(await read(path)), path).toContain("this is public/a.txt");
    expect(await read("~/private/key")).toMatchObject({ error: { code: "path_refused" } });
    expect(
      JSON.stringify(await quartermaster.invoke("mcp__files__read_multiple_files", { paths: ["./public//a.txt"] })),
    ).toContain(`${root}/public/a.txt`);
  });
});

async function start(options: QuartermasterOptions = {}): Promise<Quartermaster> {
  const quartermaster = await createQuartermaster(options);
  closing.push(() => quartermaster.close());
  return quartermaster;
}
