import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { expect, onTestFinished, test } from "vitest";
import { openGateway } from "../src/mcp/gateway/create-gateway.ts";
import { openWorkspace } from "../src/workspace/workspace.ts";

const fixtures = join(import.meta.dirname, "./fixtures/mcp-servers");
const question = {
  method: "elicitation/create",
  params: {
    message: "Which colour?",
    requestedSchema: { type: "object", properties: { colour: { type: "string" } }, required: ["colour"] },
  },
};

/** A gateway over HTTP in front of a server of the era before 2026-07-28 that asks during a call. */
async function gateway() {
  const folder = await mkdtemp(join(tmpdir(), "qm-dialogue-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const config = {
    servers: { asking: { command: process.execPath, args: [join(fixtures, "asking.mjs")] } },
    gateway: { profiles: { default: { pass_through: ["asking"] } } },
    limits: { timeout_ms: 1500 },
  };
  await writeFile(join(folder, "quartermaster.yaml"), JSON.stringify(config));
  const workspace = await openWorkspace({ cwd: folder, env: { PATH: process.env.PATH } });
  onTestFinished(workspace.close);
  await workspace.servers.hub.connect("asking");
  const problems: string[] = [];
  const opened = openGateway(workspace, (problem) => problems.push(problem));
  onTestFinished(opened.close);
  const { url, tokenPath } = await opened.listen({ port: 0 });
  return { url, tokenPath, quartermaster: workspace.quartermaster };
}

async function connected(
  { url, tokenPath }: { url: string; tokenPath: string },
  era: "legacy" | "modern",
  answer?: () => Promise<string>,
) {
  const token = (await readFile(tokenPath, "utf8")).trim();
  const client = new Client(
    { name: "test", version: "1" },
    {
      capabilities: answer === undefined ? {} : { elicitation: { form: {} } },
      versionNegotiation: { mode: era === "legacy" ? "legacy" : { pin: "2026-07-28" } },
    },
  );
  if (answer !== undefined)
    client.setRequestHandler("elicitation/create", async () => ({
      action: "accept",
      content: { colour: await answer() },
    }));
  await client.connect(
    new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { authorization: `Bearer ${token}` } } }),
  );
  onTestFinished(() => client.close());
  const ask = async () => {
    const result = await client.callTool({ name: "ask", arguments: { question } });
    return (result.content as { text: string }[])[0]?.text;
  };
  return { ask };
}

test.each(["legacy", "modern"] as const)("passes the question of an older server to a %s client", async (era) => {
  const { quartermaster, ...where } = await gateway();
  const { ask } = await connected(where, era, async () => "teal");

  expect(await ask()).toContain("teal");

  const calls = (await quartermaster.ledger.read({})).filter(({ type }) => type === "call.received");
  expect(calls).toHaveLength(1);
});

test.each(["legacy", "modern"] as const)(
  "waits for a person at a %s client longer than the call's timeout",
  async (era) => {
    const { ask } = await connected(await gateway(), era, async () => {
      await new Promise((resolve) => setTimeout(resolve, 2500));
      return "mauve";
    });

    expect(await ask()).toContain("mauve");
  },
);

test.each(["legacy", "modern"] as const)("declines for a %s client that cannot be asked", async (era) => {
  const { ask } = await connected(await gateway(), era);

  expect(await ask()).toContain("decline");
});

test("asks each of two clients the question of its own call", async () => {
  const where = await gateway();
  const first = await connected(where, "legacy", async () => "red");
  const second = await connected(where, "legacy", async () => "blue");

  // One after the other, because a stdio server does not say which of two running calls a question belongs to.
  expect(await first.ask()).toContain("red");
  expect(await second.ask()).toContain("blue");
});
