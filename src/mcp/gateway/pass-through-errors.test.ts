import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as OldClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as OldTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { describe, expect, onTestFinished, test } from "vitest";
import { openWorkspace } from "../../workspace/workspace.ts";
import { openGateway } from "./create-gateway.ts";

const odd = join(import.meta.dirname, "../../../test/fixtures/odd-server.mjs");
const TOKEN = "t".repeat(32);

const inputSchema = { type: "object" };
const outputSchema = { type: "object", properties: { rows: { type: "array" } }, required: ["rows"] };
const tools = [
  { name: "decline", description: "Fails, with rows.", inputSchema, outputSchema },
  { name: "denied", description: "Never allowed.", inputSchema, outputSchema },
  { name: "asked", description: "A person must agree.", inputSchema, outputSchema },
  { name: "plain", description: "Never allowed, without an output schema.", inputSchema },
];

/** The address of a gateway that passes the tools of a real server through. */
async function openOddGateway(): Promise<URL> {
  const folder = await mkdtemp(join(tmpdir(), "qm-gateway-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "script.json"), JSON.stringify({ tools }));
  const config = {
    servers: {
      odd: {
        command: process.execPath,
        args: [odd, join(folder, "script.json")],
        tools: { asked: { approval: true } },
      },
    },
    policy: {
      rules: [{ name: "no", rule: "tool.name in ['mcp__odd__denied', 'mcp__odd__plain']", effect: "deny" }],
    },
    gateway: { profiles: { through: { token: `\${env:TOKEN}`, pass_through: ["odd"] } } },
  };
  await writeFile(join(folder, "quartermaster.yaml"), JSON.stringify(config));
  const workspace = await openWorkspace({ cwd: folder, env: { PATH: process.env.PATH, TOKEN } });
  onTestFinished(workspace.close);
  await workspace.servers.hub.connect("odd");
  const gateway = openGateway(workspace, () => {});
  onTestFinished(gateway.close);
  return new URL((await gateway.listen({ port: 0 })).url);
}

const requestInit = { headers: { authorization: `Bearer ${TOKEN}` } };
const connectors = {
  async "1.x"(url: URL) {
    const client = new OldClient({ name: "old", version: "1" });
    // Its types do not fit our strict compiler options.
    await client.connect(new OldTransport(url, { requestInit }) as never);
    return client;
  },
  async "2.x"(url: URL) {
    const client = new Client({ name: "new", version: "1" });
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
    return client;
  },
};

describe.each(["1.x", "2.x"] as const)("a client of SDK %s that checks results against the output schema", (sdk) => {
  async function connect() {
    const client = await connectors[sdk](await openOddGateway());
    onTestFinished(() => client.close());
    // The client remembers the output schemas of the list.
    await client.listTools();
    return (name: string) => client.callTool({ name, arguments: {} });
  }

  test("reads why a call was refused or waits", async () => {
    const call = await connect();

    const [denied, asked] = [await call("denied"), await call("asked")];

    expect(denied).toMatchObject({ isError: true, content: [{ text: expect.stringContaining("denied") }] });
    expect(asked).toMatchObject({ isError: true, content: [{ text: expect.stringContaining("approv") }] });
    expect([denied, asked].filter((result) => "structuredContent" in result)).toEqual([]);
  });

  test("gets the structured content that the server sent with its error", async () => {
    const call = await connect();

    expect(await call("decline")).toMatchObject({
      isError: true,
      content: [{ type: "text", text: "no rows" }],
      structuredContent: { rows: [], why: "empty" },
    });
  });

  test("gets our problem as structured content of a tool without an output schema", async () => {
    const call = await connect();

    expect(await call("plain")).toMatchObject({ isError: true, structuredContent: { code: "denied" } });
  });
});
