import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { expect, onTestFinished, test, vi } from "vitest";
import { openGateway } from "../src/mcp/gateway/create-gateway.ts";
import { openWorkspace } from "../src/workspace/workspace.ts";

const fixture = join(import.meta.dirname, "./fixtures/mcp-servers/asking.mjs");
const question = {
  method: "elicitation/create",
  params: { message: "Which colour?", requestedSchema: { type: "object", properties: {} } },
};

type Era = "legacy" | "modern";

/** An HTTP gateway in front of a stdio server that does not say which call its question belongs to. */
async function gateway() {
  const folder = await mkdtemp(join(tmpdir(), "qm-owner-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const journal = join(folder, "journal");
  const config = {
    servers: { asking: { command: process.execPath, args: [fixture, journal] } },
    gateway: { profiles: { default: { pass_through: ["asking"] } } },
  };
  await writeFile(join(folder, "quartermaster.yaml"), JSON.stringify(config));
  const workspace = await openWorkspace({ cwd: folder, env: { PATH: process.env.PATH } });
  onTestFinished(workspace.close);
  await workspace.servers.hub.connect("asking");
  const opened = openGateway(workspace, () => {});
  onTestFinished(opened.close);
  const { url, tokenPath } = await opened.listen({ port: 0 });
  const authorization = `Bearer ${(await readFile(tokenPath, "utf8")).trim()}`;

  return {
    /** Waits until the server has received a message. */
    waitForMessage: (what: string) => vi.waitFor(async () => expect(await readFile(journal, "utf8")).toContain(what)),
    async client(era: Era) {
      const mode = era === "legacy" ? "legacy" : { pin: "2026-07-28" };
      const client = new Client(
        { name: "test", version: "1" },
        { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } },
      );
      const asked = vi.fn();
      client.setRequestHandler("elicitation/create", () => {
        asked();
        return { action: "accept", content: {} };
      });
      await client.connect(
        new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { authorization } } }),
      );
      onTestFinished(() => client.close());
      const call = async (name: string) => {
        const result = await client.callTool({ name, arguments: { question } });
        return (result.content as { text: string }[])[0]?.text;
      };
      return { asked, call };
    },
  };
}

test.each([
  ["modern", "modern"],
  ["legacy", "legacy"],
  ["legacy", "modern"],
] as const)("a question caused by the call of a %s client does not reach another %s client", async (...eras) => {
  const { client, waitForMessage } = await gateway();
  const [ann, bob] = [await client(eras[0]), await client(eras[1])];

  const waiting = ann.call("later");
  await waitForMessage('"later"');
  await bob.call("now");

  expect(await waiting).toContain("decline");
  expect([ann.asked, bob.asked].map(({ mock }) => mock.calls.length)).toEqual([0, 0]);
});

test("a client with a session receives the questions of all its calls", async () => {
  const { client, waitForMessage } = await gateway();
  const ann = await client("legacy");

  const waiting = ann.call("later");
  await waitForMessage('"later"');
  await ann.call("now");

  expect(await waiting).toContain("accept");
  expect(ann.asked).toHaveBeenCalledOnce();
});
