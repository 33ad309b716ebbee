import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { openWorkspace } from "../../workspace/workspace.ts";
import { openGateway } from "./create-gateway.ts";
import type { GatewayEra } from "./gateway.ts";
import { clientOf } from "./testing.ts";

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

async function client(url: string, token: string, era: GatewayEra = "legacy"): Promise<Client> {
  const made = clientOf(era);
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

test("instructions fit the surface of the profile", async () => {
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

  for (const deferring of [await told("a"), await told("d")]) {
    expect(deferring).toContain("tool_search finds tools");
    expect(deferring).not.toMatch(/_actions?\b/);
  }
  expect(await told("b")).not.toMatch(/tool_|_actions?\b|Action categories/);
  expect(await told("b")).toContain("## Behaviour");
  expect(await told("c")).toBeUndefined();
});

describe.each(["legacy", "modern"] as const)("a client of the %s era", (era) => {
  test("gets the constant part of the prompt of its actor", async () => {
    const { gateway, workspace } = await gatewayOf({
      actors: { default: { tools: ["*"], instructions: "You review code." } },
      search: { directory: { enabled: true } },
    });
    const { url, tokenPath } = await gateway.listen({ port: 0 });

    const instructions = (await client(url, (await readFile(tokenPath, "utf8")).trim(), era)).getInstructions() ?? "";

    const { prefix } = await workspace.quartermaster.prompt({}, { dynamic: false });
    expect(instructions).toBe(prefix);
    expect(instructions).toContain("You review code.");
    expect(instructions.length).toBeLessThanOrEqual(2000);
    // A directory that the client does not get was not shown either.
    await workspace.quartermaster.ledger.flush(0);
    expect(await workspace.quartermaster.ledger.read({ type: "directory.rendered" })).toEqual([]);
  });

  test("gets whole sections, and leaves out those that are too long", async () => {
    const { gateway } = await gatewayOf({
      actors: { default: { tools: ["*"], tier: "light", instructions: "x".repeat(2000) } },
    });
    const { url, tokenPath } = await gateway.listen({ port: 0 });

    const instructions = (await client(url, (await readFile(tokenPath, "utf8")).trim(), era)).getInstructions() ?? "";

    expect(instructions.length).toBeLessThanOrEqual(2000);
    expect(instructions.match(/^## .*$/gm)).toEqual(["## Capabilities", "## Action categories"]);
    expect(instructions).toMatch(/anything\.$/);
  });

  test("is told only of the categories that it may see", async () => {
    const rule = "tool.category == 'file' && ctx.user.id != 'ann'";
    const { gateway } = await gatewayOf({
      policy: { rules: [{ name: "no-files", rule, effect: "hide" }], denied: ["mcp__*"] },
    });
    const { url, tokenPath } = await gateway.listen({ port: 0 });

    const instructions = (await client(url, (await readFile(tokenPath, "utf8")).trim(), era)).getInstructions();

    expect(instructions).toContain("- skill: ");
    expect(instructions).not.toMatch(/- (file|mcp)\b|MCP/);
  });

  test("connects without instructions when its actor cannot be used", async () => {
    const { gateway, problems } = await gatewayOf({ actors: { default: { tools: ["file__nonsense"] } } });
    const { url, tokenPath } = await gateway.listen({ port: 0 });

    const connected = await client(url, (await readFile(tokenPath, "utf8")).trim(), era);

    expect(connected.getInstructions()).toBeUndefined();
    expect(problems).toContainEqual(expect.stringContaining("file__nonsense"));
  });
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
