import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { cleanUp, createTestFolder } from "../src/cli/testing.ts";
import { connectStdioClient } from "./support/stdio-client.ts";

afterEach(cleanUp);

const png = Buffer.from("89504e470d0a1a0a0000000d4948445200000003000000020802000000", "hex");

async function connect() {
  const config = "providers: { web: { enabled: true } }\nactors: { default: { tools: ['*'] } }\n";
  const cwd = await createTestFolder({ "quartermaster.yaml": config, "long.txt": "a line of text\n".repeat(20_000) });
  await writeFile(join(cwd, "picture.png"), png);
  const { client } = await connectStdioClient(cwd);
  const invoke = (action_name: string, args: object) =>
    client.callTool({ name: "invoke_action", arguments: { action_name, args } });
  return { cwd, client, invoke };
}

test("an image file reaches an MCP client as an image", async () => {
  const { invoke } = await connect();

  const { content, isError } = await invoke("file__read", { path: "picture.png" });

  expect(isError ?? false).toBe(false);
  expect(content).toContainEqual(
    expect.objectContaining({ type: "image", mimeType: "image/png", data: png.toString("base64") }),
  );
});

test("a long file reaches an MCP client as a note that can be read to its end", async () => {
  const { cwd, invoke } = await connect();

  const stored = JSON.stringify(await invoke("file__read", { path: "long.txt" }));
  const handle = /note__\d+/.exec(stored)?.[0] ?? "";
  const whole = await readFile(join(cwd, "long.txt"), "utf8");
  const end = { target: handle, path: "content", from: whole.length - 30, to: whole.length };
  const loaded = JSON.stringify(await invoke("infospace__load", end));

  expect(stored.length).toBeLessThan(50_000);
  expect(loaded).toContain(JSON.stringify("a line of text\na line of text\n").slice(1, -1).replaceAll("\\", "\\\\"));
});

test("an MCP client is told that searching the web is unavailable, and why", async () => {
  const { client, invoke } = await connect();
  const list = { name: "list_actions", arguments: { category: ["web"] } };

  expect(JSON.stringify(await client.callTool(list))).toMatch(/unavailable.*No search engine is configured/);
  const found = await client.callTool({ name: "search_actions", arguments: { query: "search the web for pages" } });
  expect(JSON.stringify(found)).toMatch(/web__search.*unavailable/);
  const outcome = await invoke("web__search", { query: "heron" });
  expect(outcome).toMatchObject({ isError: true });
  expect(JSON.stringify(outcome)).toContain("No search engine is configured");
});
