import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import { applyFileChange, type ClientConnectRequest, type FileChange } from "./client-file.ts";
import type { ClientEnvironment } from "./client-paths.ts";
import { clients, getClientDefinition } from "./clients.ts";
import { planConnect, planDisconnect } from "./connect.ts";
import { planMove } from "./move.ts";
import { planImport } from "./plan-import.ts";
import { readClients } from "./read-clients.ts";
import { homeWith, own, planning, removeHomes } from "./testing.ts";

afterEach(removeHomes);

let ids = 0;
const runtime = { now: () => new Date("2026-03-04T05:06:07.890Z"), newId: () => `id${++ids}` };

const connecting = (around: ClientEnvironment, client: string): ClientConnectRequest => ({
  client: getClientDefinition(client),
  scope: "user",
  name: "qm",
  around,
  own,
});

async function apply(changes: readonly FileChange[]) {
  for (const change of changes) await applyFileChange(change, runtime);
  return changes.flatMap(({ moved = [] }) => moved);
}

async function move(request: ClientConnectRequest) {
  const { found } = await readClients({ ...request.around, only: [request.client.name] });
  const { servers } = await planImport(found, planning());
  const entry = request.client.gateway.stdio("/usr/bin/node", [own.bin, "mcp"]);
  return apply(await planMove(request, entry, servers));
}

const undo = async (request: ClientConnectRequest) => apply(await planDisconnect(request));

test.each(clients.map(({ name }) => name))("takes the servers of %s out, and puts every byte back", async (name) => {
  const around = await homeWith();
  const request = connecting(around, name);
  const path = request.client.files(around)[0]?.path ?? "";
  const key = request.client.files(around)[0]?.keys[0] ?? "";
  const before =
    request.client.format === "toml"
      ? `# mine\nmodel = "m"\n\n[${key}.a]\ncommand = "a"\n\n[${key}.b]\ncommand = "b" # b\n\n[other]\nx = 1`
      : `{\n\t"${key}": {\n\t\t// first\n\t\t"a": { "command": ${name === "opencode" ? '["a"]' : '"a"'} }, // a\n\t\t"b": { "command": ${name === "opencode" ? '["b"]' : '"b"'} },\n\t},\n\t"theme": "dark",\n}\n`;
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, before);

  expect(await move(request)).toEqual(["a", "b"]);
  const moved = await readFile(path, "utf8");
  expect(moved).not.toMatch(/"?command"? ?[:=] ?\[?"[ab]"/);
  expect(moved).toContain("qm");
  expect(moved).toContain(request.client.format === "toml" ? "# mine" : '"theme": "dark"');
  expect(await undo(request)).toEqual(["a", "b"]);

  expect(await readFile(path, "utf8")).toBe(before);
  expect((await readdir(dirname(path))).filter((each) => /\.(?:bak|moved)-/.test(each))).toEqual([]);
});

const CURSOR = ".cursor/mcp.json";
const BEFORE = '{"mcpServers": {"a": {"command": "a", "env": {"X": "1"}}, "b": {"command": "b"}}}\n';

test("undoes a connection, a move and another move, back to the first file", async () => {
  const around = await homeWith({ [CURSOR]: BEFORE });
  const path = join(around.home, CURSOR);
  const request = connecting(around, "cursor");
  await apply([await planConnect(request, request.client.gateway.stdio("/usr/bin/node", [own.bin, "mcp"]))]);
  const source = { client: "cursor", path, scope: "user" } as const;
  for (const called of ["a", "b"]) await apply(await planMove(request, undefined, [{ ...source, called }]));

  await undo(request);

  expect(await readFile(path, "utf8")).toBe(BEFORE);
  expect(await readdir(dirname(path))).toEqual(["mcp.json"]);
});

test("puts the entries back into a file that was changed since, and keeps the change", async () => {
  const around = await homeWith({ [CURSOR]: BEFORE });
  const path = join(around.home, CURSOR);
  const request = connecting(around, "cursor");
  await move(request);
  const text = await readFile(path, "utf8");
  await writeFile(path, text.replace('"mcpServers": {', '"theme": "dark", "mcpServers": {"new": {"command": "n"}, '));

  await undo(request);

  expect(JSON.parse(await readFile(path, "utf8"))).toEqual({
    theme: "dark",
    mcpServers: { new: { command: "n" }, ...JSON.parse(BEFORE).mcpServers },
  });
});

test("does not bring back an entry that was removed by hand after a plain connection", async () => {
  const around = await homeWith({ [CURSOR]: BEFORE });
  const path = join(around.home, CURSOR);
  const request = connecting(around, "cursor");
  await apply([await planConnect(request, request.client.gateway.stdio("/usr/bin/node", [own.bin, "mcp"]))]);
  const text = await readFile(path, "utf8");
  await writeFile(path, text.replace(', "b": {"command": "b"}', ""));

  await undo(request);

  expect(Object.keys(JSON.parse(await readFile(path, "utf8")).mcpServers)).toEqual(["a"]);
});

test("moves both parts of Claude Code's file", async () => {
  const around = await homeWith();
  const path = join(around.home, ".claude.json");
  const folder = { mcpServers: { here: { command: "h" } }, history: ["x"] };
  const before = JSON.stringify({ mcpServers: { all: { command: "a" } }, projects: { [around.cwd]: folder } }, null, 2);
  await writeFile(path, before);
  const request = connecting(around, "claude-code");

  expect(await move(request)).toEqual(["all", "here"]);
  expect(JSON.parse(await readFile(path, "utf8")).projects[around.cwd]).toEqual({ mcpServers: {}, history: ["x"] });
  await undo(request);

  expect(await readFile(path, "utf8")).toBe(before);
});

test("restores every byte of any file", async () => {
  const space = fc.constantFrom("", " ", "\n", "\r\n  ", " /* c */ ", " // d\n");
  const entry = fc.tuple(space, fc.constantFrom("a", "b", "c d", "é"), space);
  const texts = fc
    .tuple(fc.uniqueArray(entry, { selector: ([, name]) => name, minLength: 1 }), space, fc.boolean(), fc.boolean())
    .map(([entries, end, hasComma, hasBom]) => {
      const listed = entries.map(([before, name, after]) => `${before}"${name}": {"command": "${name}"}${after}`);
      const comma = hasComma ? "," : "";
      return `${hasBom ? "\uFEFF" : ""}{${end}"x": 1, "mcpServers": {${listed.join(",")}${comma}${end}}${end}}${end}`;
    });
  await fc.assert(
    fc.asyncProperty(texts, async (text) => {
      const around = await homeWith({ [CURSOR]: text });
      const request = connecting(around, "cursor");
      const isMoved = await move(request).then(
        () => true,
        () => false,
      );
      if (isMoved) await undo(request);

      expect(await readFile(join(around.home, CURSOR))).toEqual(Buffer.from(text));
    }),
    { numRuns: 100 },
  );
});
