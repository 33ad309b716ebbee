import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { openWorkspace } from "../src/index.ts";
import { openGateway } from "../src/mcp/gateway/exports.ts";

const folder = await mkdtemp(join(tmpdir(), "qm-example-"));
await writeFile(join(folder, "hello.txt"), "Hello.\n");
const env = { WRITER_TOKEN: "a-token-of-the-writers-0123456789" };

// #region serve

const yaml = `
providers:
  file: { read_only: false }
policy:
  denied: [file__delete]
  rules:
    - name: drafts-only
      rule: "tool.name == 'file__write' && !args.path.startsWith('drafts/')"
      effect: deny
      reason: Only drafts may be written.
actors:
  writer: { tools: ["file__*"] }
gateway:
  profiles:
    writers: { actor: writer, token: "\${env:WRITER_TOKEN}" }
`;
await writeFile(join(folder, "quartermaster.yaml"), yaml);

const workspace = await openWorkspace({ cwd: folder, env });
const gateway = openGateway(workspace, console.error);
const { url, close } = await gateway.listen({ port: 0 }); // `qm serve` does the same

const headers = { authorization: `Bearer ${env.WRITER_TOKEN}` };
const client = new Client({ name: "example", version: "1.0.0" });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));

const write = (path: string) => {
  const args = { action_name: "file__write", args: { path, content: "A first line.\n" } };
  return client.callTool({ name: "invoke_action", arguments: args });
};
console.log((await write("drafts/a.md")).isError ?? false); // false
console.log((await write("hello.txt")).isError); // true: only drafts may be written

// #endregion

const { tools } = await client.listTools();
assert.deepEqual(tools.map(({ name }) => name).sort(), [
  "describe_action",
  "invoke_action",
  "list_actions",
  "search_actions",
]);
assert.ok(client.getInstructions()?.includes("## Action categories"));
const refused = await write("hello.txt");
assert.match(JSON.stringify(refused.content), /Only drafts may be written/);

await client.close();
await close();
await gateway.close();
await workspace.close();
await rm(folder, { recursive: true });
