import { spawnSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterEach, expect, test } from "vitest";
import { cleanUp, createTestFolder, plainEnvironment, qm, qmCommand, testWorkspace } from "../testing.ts";

afterEach(cleanUp);

test.for(["bash", "zsh", "fish"])("prints a %s script that the shell accepts", async (shell, context) => {
  const cwd = await createTestFolder();
  await writeFile(join(cwd, "script"), (await qm(cwd, ["completion", shell])).out);
  if (spawnSync(shell, ["--version"]).error !== undefined) context.skip(`${shell} is not installed`);

  const read = spawnSync(shell, ["-n", "script"], { cwd, encoding: "utf8" });

  expect(read).toMatchObject({ status: 0, stderr: "" });
});

const odd = join(import.meta.dirname, "../../../test/fixtures/odd-server.mjs");

/** A workspace with two servers. Each start of `known` is recorded in `starts`; its tool `echo` is known already. */
async function serverWorkspace(): Promise<string> {
  const tools = [{ name: "echo", description: "Says it again.", inputSchema: { type: "object" } }];
  const cwd = await createTestFolder();
  await writeFile(join(cwd, "script.json"), JSON.stringify({ tools, startsFile: join(cwd, "starts") }));
  const servers = {
    known: { command: process.execPath, args: [odd, join(cwd, "script.json")] },
    remote: { url: "https://mcp.example/mcp" },
  };
  await writeFile(join(cwd, "quartermaster.yaml"), JSON.stringify({ servers }));
  expect(await qm(cwd, ["servers", "start", "known"], { env: { PATH: process.env.PATH } })).toMatchObject({ code: 0 });
  return cwd;
}

test("completes clients, servers and actions in bash, and starts no server", async () => {
  const cwd = await serverWorkspace();
  const lines = ["connect claude-c", "servers logs ", "invoke mcp__known", "describe mcp__known", "explain mcp__known"];
  const { out } = await qm(cwd, ["completion", "bash"]);
  const steps = lines.map((line) => {
    const words = line.split(" ");
    const typed = words.map((word) => `"${word}"`).join(" ");
    return `COMP_WORDS=(qm ${typed}); COMP_CWORD=${words.length}; _qm; echo "\${COMPREPLY[*]}"`;
  });
  const script = `qm() { ${qmCommand.map((word) => `"${word}"`).join(" ")} "$@"; }\n${out}\n${steps.join("\n")}`;

  const ran = spawnSync("bash", ["-c", script], { cwd, encoding: "utf8", env: plainEnvironment() });

  const action = "mcp__known__echo";
  expect(ran).toMatchObject({ stderr: "" });
  expect(ran.stdout.trim().split("\n")).toEqual(["claude-code", "known remote", action, action, action]);
  expect((await readFile(join(cwd, "starts"), "utf8")).trim().split("\n")).toHaveLength(1);
});

test.each([
  [
    ["servers", "start", ""],
    ["known", "remote"],
  ],
  [["servers", "start", "known", ""], ["remote"]],
  [["servers", "remove", "known", ""], []],
  [["servers", "list", ""], []],
  [["preflight", "mcp__known__echo", "mcp__kno"], []],
  [["search", "--category", "mc"], ["mcp"]],
  [
    ["search", "--type", ""],
    ["fts", "regex", "exact", "semantic", "hybrid"],
  ],
  [["import", "claude-code", "claude"], ["claude-desktop"]],
  [["secrets", "remove", ""], ["TOKEN"]],
])("of servers, %j: %j", async (words, expected) => {
  const cwd = await serverWorkspace();
  await qm(cwd, ["secrets", "set", "TOKEN"], { stdin: Readable.from(["x"]) });

  expect(await complete(cwd, words)).toEqual(expected);
});

test("completes the ids of approvals and the handles of notes", async () => {
  const cwd = await testWorkspace();
  await qm(cwd, ["invoke", "file__edit", '{"path":"a.txt","old_string":"hello","new_string":"bye"}']);
  await qm(cwd, ["invoke", "infospace__create-note", '{"value":"some text"}']);
  const [{ id = "" } = {}] = JSON.parse((await qm(cwd, ["approvals", "list", "--json"])).out).approvals;

  expect(id).not.toBe("");
  expect(await complete(cwd, ["approvals", "approve", ""])).toEqual([id]);
  expect(await complete(cwd, ["notes", "show", ""])).toEqual(["note__1"]);
  expect(await complete(cwd, ["notes", "remove", ""])).toEqual(["note__1"]);
  await qm(cwd, ["approvals", "deny", id, "--yes"]);
  expect(await complete(cwd, ["approvals", "approve", ""])).toEqual([]);
  expect(await complete(cwd, ["approvals", "show", ""])).toEqual([id]);
});

async function complete(cwd: string, words: readonly string[]): Promise<readonly string[]> {
  const ran = await qm(cwd, ["complete", "--", ...words]);
  expect(ran).toMatchObject({ code: 0, err: "" });
  const lines = ran.out.split("\n").filter(Boolean);
  return lines.map((line) => line.split("\t")[0] ?? "");
}

test.each([
  [["li"], ["list"]],
  [
    ["events", ""],
    ["verify", "prune"],
  ],
  [["events", "--fo"], ["--follow"]],
  [["invoke", "--ti"], ["--timeout"]],
  [["invoke", "--js"], ["--json"]],
  [
    ["--actor", ""],
    ["default", "reader", "nobody"],
  ],
  [
    ["--actor", "reader", "invoke", ""],
    ["file__list", "file__read"],
  ],
  [
    ["explain", "--actor", "reader", "file__w"],
    ["file__watch", "file__write"],
  ],
  [
    ["list", ""],
    ["approval", "file", "infospace", "mcp", "skill"],
  ],
  [["invoke", "file__read", ""], []],
  [
    ["events", "--session", ""],
    ["system", "local"],
  ],
  [
    ["events", "--type", "call."],
    ["call.decided", "call.ended", "call.received", "call.resumed", "call.retried", "call.suspended"],
  ],
  [
    ["completion", ""],
    ["bash", "zsh", "fish"],
  ],
  [
    ["help", "e"],
    ["explain", "events", "eval", "embeddings"],
  ],
  [
    ["help", "events", ""],
    ["verify", "prune"],
  ],
  [["help", "nope", ""], []],
  [["nonsense", ""], []],
  [["--config", ""], []],
  [["--config", "nowhere.yaml", "invoke", ""], []],
  [["--actor", "nobady", "invoke", ""], []],
])("%j: %j", async (words, expected) => {
  const cwd = await testWorkspace();
  await qm(cwd, ["invoke", "file__read", '{"path":"a.txt"}']);
  await qm(cwd, ["invoke", "file__read", '{"path":"a.txt"}', "--session", "$(touch pwned) *"]);

  expect(await complete(cwd, words)).toEqual(expected);
});

test("completes the names of worlds", async () => {
  const sample = join(import.meta.dirname, "../../../examples/world");

  expect(await complete(sample, ["worlds", "show", ""])).toEqual(["releases"]);
});
