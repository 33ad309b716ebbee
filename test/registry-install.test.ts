import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterEach, expect, onTestFinished, test } from "vitest";
import { atTerminal, cleanUp, createTestFolder, eventTypes, qm } from "../src/cli/testing.ts";
import { openWorkspace } from "../src/workspace/workspace.ts";
import { startFakeRegistry } from "./support/registry/fake-registry.ts";

const approving = { ask: async () => ({ decision: "approved", by: "ann" }) as const };

afterEach(cleanUp);

/** A folder that uses a local HTTP registry with realistic servers. */
async function folderWithRegistry() {
  const registry = await startFakeRegistry();
  onTestFinished(registry.close);
  const cwd = await createTestFolder({ "quartermaster.yaml": `mcp: { registry: "${registry.url}" }\n` });
  const env = { PATH: process.env.PATH, HOME: cwd, USER: "ann" };
  const run = (...argv: string[]) => qm(cwd, argv, { env });
  const agree = (...argv: string[]) => qm(cwd, argv, { env: { ...env, NO_COLOR: "1" }, ...atTerminal("y\n") });
  return { registry, cwd, env, run, agree };
}

const NOTES = "registry:io.github.example/notes-bundle";

test("finds, plans and installs a working server as published", async () => {
  const { cwd, run, agree } = await folderWithRegistry();

  const found = await run("invoke", "mcp__search_registry", '{"query":"short notes"}', "--json");
  const planned = await run("servers", "add", NOTES, "--dry-run", "--json");
  const added = await agree("servers", "add", NOTES);
  const listed = await run("servers", "list", "--json");

  expect(JSON.parse(found.out).data.servers[0]).toMatchObject({ name: "io.github.example/notes-bundle" });
  expect(JSON.parse(planned.out).plan).toMatchObject({
    version: "1.0.0",
    missing: [],
    hash: expect.stringMatching(/^[0-9a-f]{64}$/),
  });
  expect(added).toMatchObject({ code: 0, out: expect.stringContaining("works and is saved") });
  expect(added.out).toContain("Runs:");
  const [server] = JSON.parse(listed.out).servers;
  expect(server).toMatchObject({ state: "known", version: "1.0.0", source: expect.stringContaining("registry:") });
  const [tool] = (await run("list", "mcp", "--all", "--json").then(({ out }) => JSON.parse(out).items)).filter(
    ({ qualified_name }: { qualified_name: string }) => qualified_name.startsWith(`mcp__${server.name}__`),
  );
  expect(tool).toBeDefined();
  expect(await eventTypes(cwd)).toEqual(expect.arrayContaining(["server.added", "catalog.changed"]));
});

test("refuses a bundle that is not the published one and leaves nothing behind", async () => {
  const { cwd, agree } = await folderWithRegistry();
  const before = await readFile(join(cwd, "quartermaster.yaml"), "utf8");

  const refused = await agree("servers", "add", "registry:io.github.example/replaced-bundle");

  expect(refused.code).toBe(1);
  expect(refused.err).toContain("is not the published one");
  expect(await readFile(join(cwd, "quartermaster.yaml"), "utf8")).toBe(before);
  await expect(stat(join(cwd, ".quartermaster/bundles"))).rejects.toThrow("ENOENT");
});

test("refuses a server that changed between plan and installation", async () => {
  const { registry, cwd, env } = await folderWithRegistry();
  const { quartermaster, servers, close } = await openWorkspace({ cwd, env });
  onTestFinished(close);
  const request = { from: "registry", id: "io.github.example/notes-bundle", inputs: {} } as const;
  const { hash } = await servers.installer.plan(request);
  const [entry] = (await servers.installer.registry.search("notes bundle", { limit: 1 })).servers;
  const { name = "" } = entry ?? {};
  registry.put({
    name,
    description: "Another one.",
    version: "2.0.0",
    packages: [],
    remotes: [{ type: "streamable-http", url: "https://mcp.example.com/mcp" }],
  });

  const outcome = await quartermaster.invoke("mcp__install_registry", { server_id: name, expect: hash }, approving);

  expect(outcome).toMatchObject({ status: "failed", error: { code: "conflict" } });
  expect(servers.list()).toEqual([]);
});

test("does not install a version that the approver was not shown", async () => {
  const { registry, cwd, env } = await folderWithRegistry();
  const { quartermaster, servers, close } = await openWorkspace({ cwd, env });
  onTestFinished(close);
  const name = "io.github.example/notes-bundle";

  const outcome = await quartermaster.invoke(
    "mcp__install_registry",
    { server_id: name },
    {
      ask: async ({ preview }) => {
        expect(preview).toContain("notes");
        registry.put({
          name,
          description: "Another one.",
          version: "2.0.0",
          packages: [],
          remotes: [{ type: "streamable-http", url: "https://mcp.example.com/mcp" }],
        });
        return { decision: "approved", by: "ann", roles: ["approver"] };
      },
    },
  );

  expect(outcome).toMatchObject({ status: "failed", error: { code: "conflict" } });
  expect(servers.list()).toEqual([]);
});

test("names the command that stores a missing secret, and the plan is complete afterwards", async () => {
  const { cwd, env, run } = await folderWithRegistry();
  const airtable = ["servers", "add", "registry:io.github.example/airtable-mcp-server", "--choose", "npm"];
  const before = await readFile(join(cwd, "quartermaster.yaml"), "utf8");

  const early = await run(...airtable, "--yes");
  await qm(cwd, ["secrets", "set", "AIRTABLE_API_KEY"], { env, stdin: Readable.from(["pat-hunter2-hunter2"]) });
  const later = await run(...airtable, "--dry-run", "--json");

  expect(early).toMatchObject({ code: 2, err: expect.stringContaining("qm secrets set AIRTABLE_API_KEY") });
  expect(JSON.parse(later.out).plan).toMatchObject({
    missing: [],
    launch: { kind: "stdio", command: "npx", env: { AIRTABLE_API_KEY: `\${secret:AIRTABLE_API_KEY}` } },
  });
  expect(later.out).not.toContain("hunter2");
  expect(await readFile(join(cwd, "quartermaster.yaml"), "utf8")).toBe(before);
});

test("searches the local copy when the registry is unreachable", async () => {
  const { registry, run } = await folderWithRegistry();
  const search = () =>
    run("invoke", "mcp__search_registry", '{"query":"notes"}', "--json").then(({ out }) => JSON.parse(out));
  expect((await search()).data.servers.length).toBeGreaterThan(0);

  await registry.close();

  expect((await search()).data.servers.length).toBeGreaterThan(0);
});

test("refuses an incomplete installation even if a person approves it", async () => {
  const { cwd, env } = await folderWithRegistry();
  const { quartermaster, servers, close } = await openWorkspace({ cwd, env });
  onTestFinished(close);

  const outcome = await quartermaster.invoke(
    "mcp__install_registry",
    { server_id: "io.github.example/airtable-mcp-server", choose: "npm" },
    approving,
  );

  expect(outcome).toMatchObject({
    status: "failed",
    error: { code: "invalid_arguments", missing: [{ key: "AIRTABLE_API_KEY" }] },
  });
  expect(servers.list()).toEqual([]);
});
