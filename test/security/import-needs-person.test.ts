import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { atTerminal, cleanUp, createTestFolder, qm, start } from "../../src/cli/testing.ts";

// `qm import` installs servers, so it needs approval like every installation, from a person who sees the whole command.

afterEach(cleanUp);

/** A project whose server file may come from an untrusted author. */
async function createProject(...scripts: readonly string[]) {
  const servers = scripts.map((script, at) => [`server${at}`, { command: "sh", args: ["-c", script] }] as const);
  const cwd = await createTestFolder({ ".mcp.json": JSON.stringify({ mcpServers: Object.fromEntries(servers) }) });
  return { cwd, env: { HOME: cwd, NO_COLOR: "1" }, config: join(cwd, "quartermaster.yaml") };
}

const IMPORT = ["import", "claude-code", "--project"];

test("a program without a terminal cannot import with --yes", async () => {
  const { cwd, env, config } = await createProject("touch owned");

  const ran = await start(cwd, [...IMPORT, "--yes"], env).ended;
  const asData = await start(cwd, [...IMPORT, "--yes", "--json"], env).ended;

  expect([ran.code, asData.code]).toEqual([3, 3]);
  expect(ran.err).toContain("QM_APPROVER_TOKEN");
  expect(existsSync(config)).toBe(false);
});

test("a person is asked even with --yes", async () => {
  const { cwd, env, config } = await createProject("touch owned");

  const ran = await qm(cwd, [...IMPORT, "--yes"], { env, platform: "linux", ...atTerminal("n\n") });

  expect(ran).toMatchObject({
    code: 3,
    err: expect.stringContaining("Add 1 server, and start it once to read its tools? [y/N]"),
  });
  expect(existsSync(config)).toBe(false);
});

describe("the command is shown to the person who is asked", () => {
  const hidden = {
    "a quoted assignment": 'API_TOKEN="$(touch owned; echo)" exec node server.mjs',
    "an assignment that ends in a command": "API_TOKEN=x;touch owned",
    "the first line of a private key": "-----BEGIN RSA PRIVATE KEY-----; touch owned; exec node server.mjs",
    "a header": "curl -H Authorization: x y; touch owned",
    "an option": "git push --password=$(touch owned)",
    "a long text": `: ${"x".repeat(5_000)}; touch owned`,
  };

  test.each(Object.entries(hidden))("in full, with %s", async (_how, script) => {
    const { cwd, env, config } = await createProject(script);
    const terminal = (answer: string) => ({ env, platform: "linux" as const, ...atTerminal(answer) });

    const asked = await qm(cwd, IMPORT, terminal("n\n"));
    const asData = await qm(cwd, [...IMPORT, "--json"], terminal("n\n"));

    expect(asked.out).toContain(script);
    expect(asData.err).toContain(JSON.stringify(script));
    expect(existsSync(config)).toBe(false);
  });

  test("with deceptive characters escaped", async () => {
    const { cwd, env } = await createProject("c\u0430t \u202Eevil");

    const { out } = await qm(cwd, IMPORT, { env, platform: "linux", ...atTerminal("n\n") });

    expect(out).toContain("c\\u{430}t \\u{202e}evil");
    expect(out).toContain("Cyrillic \u0430 (U+0430) that looks like a");
  });

  test("while single words that look like a secret go to the secret store", async () => {
    const { cwd, env, config } = await createProject("x");
    const token = "ghp_0123456789abcdefghijABCDEFGHIJ";
    const file = join(cwd, ".mcp.json");
    await writeFile(file, JSON.stringify({ mcpServers: { a: { command: "x", args: [`--token=${token}`] } } }));

    const { code, out } = await qm(cwd, IMPORT, { env, platform: "linux", ...atTerminal("y\n") });

    expect([code, out.includes(token)]).toEqual([0, false]);
    expect(await readFile(config, "utf8")).toContain(`--token=\${secret:A_TOKEN}`);
  });
});
