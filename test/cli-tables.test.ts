import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { measureWidth } from "../src/cli/terminal-text.ts";
import { cleanUp, createTestFolder, qm } from "../src/cli/testing.ts";

const odd = join(import.meta.dirname, "fixtures/odd-server.mjs");
const SERVER = "a-server-with-a-long-name-of-forty-chars";
const TOOL = `tool_${"that_does_many_things_".repeat(3)}end`;
const ACTION = `mcp__${SERVER}__${TOOL}`;
const SESSION = `会議室の予約を調べて変更する長い名前のセッション-${"0123456789-".repeat(3)}`;
const RULE = `rule-${"against-many-things-".repeat(3)}😀`;
const CASE = `事例-${"that-was-recorded-".repeat(4)}`;
const WIDTH = 80;

const tools = [
  { name: TOOL, description: `説明文${"がとても長い".repeat(20)}`, inputSchema: { type: "object" } },
  { name: "echo", description: "Says it again.", inputSchema: { type: "object" } },
];
const config = (folder: string) => ({
  servers: { [SERVER]: { command: process.execPath, args: [odd, join(folder, "script.json")] } },
  policy: {
    rules: [{ name: RULE, rule: `tool.name.endsWith('${TOOL}')`, effect: "ask" }],
  },
});

let cwd: string;
const env = { PATH: process.env.PATH, USER: "ann", NO_COLOR: "1" };

beforeEach(async () => {
  cwd = await createTestFolder({ "script.json": JSON.stringify({ tools }), "a.txt": "hello\n" });
  await writeFile(join(cwd, "quartermaster.yaml"), JSON.stringify(config(cwd)));
  expect(await qm(cwd, ["servers", "start"], { env })).toMatchObject({ code: 0, err: "" });
});
afterEach(cleanUp);

/** The lines of a table at a terminal of 80 columns, up to the first empty line. */
async function showTable(argv: readonly string[], more: object = {}): Promise<readonly string[]> {
  const { out } = await qm(cwd, argv, { env: { ...env, ...more }, columns: WIDTH });
  return (out.split("\n\n").find((part) => /^\S+ {2,}\S/m.test(part)) ?? out).trimEnd().split("\n");
}

/** Every line fits, unless it is one name alone that is wider than the terminal. Every name is there, uncut. */
function expectWhole(lines: readonly string[], names: readonly string[]): void {
  const wide = lines.filter((line) => measureWidth(line) > WIDTH);
  expect(wide.filter((line) => !names.includes(line))).toEqual([]);
  for (const name of names) expect(lines.filter((line) => line.includes(name))).not.toEqual([]);
}

test.each<[string, readonly string[], readonly string[]]>([
  ["actions", ["list"], [ACTION, `mcp__${SERVER}__echo`]],
  ["found actions", ["search", "says it again"], [`mcp__${SERVER}__echo`]],
  ["checked actions", ["preflight", ACTION, "file__read", "--no-start"], [ACTION]],
  ["servers", ["servers", "list"], [SERVER]],
  ["the layers of an explanation", ["explain", ACTION], [RULE]],
])("shows %s in 80 columns", async (_, argv, names) => {
  expectWhole(await showTable(argv), names);
});

test("shows waiting calls, events and a replay in 80 columns", async () => {
  await qm(cwd, ["invoke", ACTION, '{"text":"長い"}', "--session", SESSION], { env });
  await qm(cwd, ["invoke", "file__read", '{"path":"a.txt"}', "--session", SESSION], { env });
  const [{ id = "" } = {}] = JSON.parse((await qm(cwd, ["approvals", "list", "--json"], { env })).out).approvals;

  expectWhole(await showTable(["approvals", "list"]), [id.slice(0, 13), ACTION]);
  expectWhole(await showTable(["events"]), [SESSION, ACTION, "approval.requested", "config.loaded"]);
  expectWhole(await showTable(["replay", SESSION, "--all"]), [ACTION, "file__read"]);
});

test("shows notes in 80 columns", async () => {
  const note = JSON.stringify({ value: `大きな値 ${"words ".repeat(40)}`, name: `名前${"が長い".repeat(20)}` });
  await qm(cwd, ["invoke", "infospace__create-note", note], { env });
  const [{ handle = "" } = {}] = JSON.parse((await qm(cwd, ["notes", "list", "--json"], { env })).out).items;

  const [head = "", row = ""] = await showTable(["notes", "list"]);
  expectWhole([head, row], [handle, "infospace__create-note"]);
  expectWhole(await showTable(["notes", "search", "words"]), [handle]);
  expectWhole(await showTable(["notes", "show", handle, "--history"]), ["1 (now)"]);
});

test("keeps short facts whole beside long texts", async () => {
  const note = JSON.stringify({ value: "words ".repeat(400), name: "a name of a note that is long" });
  await qm(cwd, ["invoke", "infospace__create-note", note, "--session", "chat-of-this-long-afternoon"], { env });

  const events = await showTable(["events", "--type", "call."]);
  const notes = await showTable(["notes", "list", "--session", "chat-of-this-long-afternoon"]);

  expect(events[0]).toMatch(/^\d{4}-\d\d-\d\d +session +actor +event +action +details$/);
  expect(events.join("\n")).toMatch(/^\d\d:\d\d:\d\d +chat-of-this-long-afternoon\n? +default +call\.received /m);
  expect(notes.join("\n")).toMatch(/text, 2\.4 kB/);
  expect(notes.join("\n")).toMatch(/ \d+s +\d+h /);
});

test("doctor does not warn of long names of a server, which the user cannot change", async () => {
  const { checks } = JSON.parse((await qm(cwd, ["doctor", "--json"], { env })).out);

  const [names] = checks.filter(({ about }: { about: string }) => about === "names");
  expect(names).toMatchObject({ status: "ok", message: expect.stringContaining("names rewritten") });
});

test("shows cases in 80 columns", async () => {
  await qm(cwd, ["invoke", "file__read", '{"path":"a.txt"}', "--session", "chat"], { env });
  await qm(cwd, ["eval", "record", "chat", "--to", "case.json", "--id", CASE], { env });

  expectWhole(await showTable(["eval", "case.json"]), [CASE]);
});

test("shows clients and their servers in 80 columns", async () => {
  const home = await createTestFolder();
  const name = `${"名前".repeat(20)}-of-a-server`;
  const servers = { [name]: { type: "sse", url: `https://${"a".repeat(60)}.example/sse` } };
  await writeFile(join(home, ".claude.json"), JSON.stringify({ mcpServers: servers }));

  expectWhole(await showTable(["connect"], { HOME: home }), ["claude-desktop"]);
  expectWhole(await showTable(["import", "--dry-run"], { HOME: home }), [name, "claude-code"]);
});

test("shows a broken ledger in 80 columns", async () => {
  await qm(cwd, ["invoke", "file__read", '{"path":"a.txt"}', "--session", SESSION], { env });
  await qm(cwd, ["events", "verify", "--save", "heads.json"], { env });
  const heads = JSON.parse(await readFile(join(cwd, "heads.json"), "utf8"));
  const later = heads.map((head: { seq: number }) => ({ ...head, seq: head.seq + 1000 }));
  await writeFile(join(cwd, "heads.json"), JSON.stringify(later));

  expectWhole(await showTable(["events", "verify", "--against", "heads.json"]), [SESSION]);
});

test("does not cut a table that is not for a terminal", async () => {
  const { out } = await qm(cwd, ["list"], { env });

  expect(out).toContain("がとても長い".repeat(5));
  expect(out).not.toContain("…");
});
