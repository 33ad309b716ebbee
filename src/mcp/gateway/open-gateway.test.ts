import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { expect, onTestFinished, test, vi } from "vitest";
import { openWorkspace } from "../../workspace/workspace.ts";
import { openGateway } from "./create-gateway.ts";

const asking = join(import.meta.dirname, "../../../test/fixtures/mcp-servers/plain.mjs");

async function gatewayOf(config: object, env: Record<string, string> = {}) {
  const folder = await mkdtemp(join(tmpdir(), "qm-gateway-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "quartermaster.yaml"), JSON.stringify(config));
  const workspace = await openWorkspace({ cwd: folder, env: { PATH: process.env.PATH, ...env } });
  onTestFinished(workspace.close);
  const problems: string[] = [];
  const gateway = openGateway(workspace, (problem) => problems.push(problem));
  onTestFinished(gateway.close);
  return { gateway, problems, workspace };
}

async function client(url: string, token: string): Promise<Client> {
  const made = new Client({ name: "test", version: "1" });
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  await made.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  onTestFinished(() => made.close());
  return made;
}

test("creates a private token once, which gives access to the profile default", async () => {
  const { gateway } = await gatewayOf({});

  const { url, tokenPath } = await gateway.listen({ port: 0 });
  const token = await readFile(tokenPath, "utf8");

  expect((await stat(tokenPath)).mode & 0o777).toBe(0o600);
  const { tools } = await (await client(url, token.trim())).listTools();
  expect(tools.map(({ name }) => name)).toContain("invoke_action");
  await gateway.listen({ port: 0 });
  expect(await readFile(tokenPath, "utf8")).toBe(token);
});

test("instructions fit the tools of the profile", async () => {
  const { gateway } = await gatewayOf(
    {
      servers: { plain: { command: process.execPath, args: [asking] } },
      gateway: {
        profiles: {
          deferring: { token: `\${env:A}`, surface: "deferred" },
          flat: { token: `\${env:B}`, surface: "flat" },
          through: { token: `\${env:C}`, pass_through: ["plain"] },
          acting: { token: `\${env:D}`, actor: "searcher" },
        },
      },
      actors: { default: { tools: ["*"] }, searcher: { tools: ["*"], surface: { kind: "deferred" } } },
    },
    { A: "a".repeat(32), B: "b".repeat(32), C: "c".repeat(32), D: "d".repeat(32) },
  );
  const { url } = await gateway.listen({ port: 0 });
  const told = async (letter: string) => (await client(url, letter.repeat(32))).getInstructions();

  expect(await told("a")).toContain("tool_search");
  expect(await told("d")).toContain("tool_search");
  expect(await told("b")).toBeUndefined();
  expect(await told("c")).toBeUndefined();
});

test("instructions name no search when search is off", async () => {
  const { gateway } = await gatewayOf({ search: { enabled: false } });
  const { url, tokenPath } = await gateway.listen({ port: 0 });
  const token = await readFile(tokenPath, "utf8");

  const instructions = (await client(url, token.trim())).getInstructions();

  expect(instructions).toContain("list_actions");
  expect(instructions).not.toMatch(/search/i);
});

test("connects to a server that is passed through before the client lists its tools", async () => {
  const { gateway } = await gatewayOf(
    {
      servers: { plain: { command: process.execPath, args: [asking] } },
      gateway: { profiles: { through: { token: `\${env:TOKEN}`, pass_through: ["plain"] } } },
    },
    { TOKEN: "t".repeat(32) },
  );
  const { url } = await gateway.listen({ port: 0 });
  const connected = await client(url, "t".repeat(32));

  await vi.waitFor(async () => expect((await connected.listTools()).tools.length).toBeGreaterThan(0), 10_000);
});

test("leaves out a profile without its token, and refuses two with the same token", async () => {
  const profiles = { one: { token: `\${env:ONE}` }, two: { token: `\${env:TWO}` } };
  const half = await gatewayOf({ gateway: { profiles } }, { ONE: "1".repeat(32) });
  const same = await gatewayOf({ gateway: { profiles } }, { ONE: "1".repeat(32), TWO: "1".repeat(32) });

  await half.gateway.listen({ port: 0 });

  expect(half.problems).toEqual([expect.stringContaining("no client gets the profile two")]);
  await expect(same.gateway.listen({ port: 0 })).rejects.toMatchObject({ code: "invalid_config" });
});

test("names the known profiles for an unknown one", async () => {
  const { gateway } = await gatewayOf({});

  expect(() => gateway.profile("defualt")).toThrow("did you mean default?");
});
