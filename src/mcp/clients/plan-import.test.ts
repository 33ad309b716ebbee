import { afterEach, describe, expect, test } from "vitest";
import { serverSchema } from "../../config/mcp-schema.ts";
import { type ImportPlanOptions, planImport } from "./plan-import.ts";
import { readClients } from "./read-clients.ts";
import { homeWith, planning, removeHomes } from "./testing.ts";

afterEach(removeHomes);

/** What would be imported of Cursor's servers, and of others' where files are given. */
async function plan(servers: object, options: Partial<ImportPlanOptions> = {}, files: Record<string, string> = {}) {
  const around = await homeWith({ ".cursor/mcp.json": JSON.stringify({ mcpServers: servers }), ...files });
  const { found } = await readClients(around);
  const planned = await planImport(found, planning(options));
  return {
    ...planned,
    names: planned.servers.map(({ name }) => name),
    why: Object.fromEntries(planned.skipped.map(({ called, why }) => [called, why])),
  };
}

describe("an import", () => {
  test("changes names that do not fit, and reports them", async () => {
    const { servers } = await plan({
      "My Server": { command: "a" },
      "my-server": { command: "b" },
      MY_SERVER: { command: "c" },
    });

    expect(servers.map(({ name, notes }) => [name, notes])).toEqual([
      ["my-server", ['"My Server" is called my-server here']],
      ["my-server-2", ['"my-server" is called my-server-2 here']],
      ["my_server", ['"MY_SERVER" is called my_server here']],
    ]);
  });

  test("imports a server of several clients once, also with a secret", async () => {
    const server = { command: "npx", args: ["-y", "x"], env: { X_TOKEN: "secret-1" } };
    const { names, why } = await plan(
      { same: server, twin: server },
      {},
      {
        ".codeium/windsurf/mcp_config.json": JSON.stringify({
          mcpServers: { other: { ...server, args: ["-y", "x"] } },
        }),
      },
    );

    expect(names).toEqual(["same"]);
    expect(why).toEqual({
      twin: "it is the same server as same from cursor",
      other: "it is the same server as same from cursor",
    });
  });

  test("keeps two accounts of one server apart", async () => {
    const { servers } = await plan({
      github: { command: "gh", env: { GITHUB_TOKEN: "one" } },
      "github-work": { command: "gh", env: { GITHUB_TOKEN: "two" } },
    });

    expect(servers.map(({ name, secrets }) => [name, secrets.map((secret) => [secret.name, secret.value])])).toEqual([
      ["github", [["GITHUB_TOKEN", "one"]]],
      ["github-work", [["GITHUB_TOKEN_2", "two"]]],
    ]);
  });

  test("does not overwrite a stored secret, and reuses one with the same value", async () => {
    const storedSecret = async (name: string) => (name === "A_TOKEN" ? "stored" : undefined);
    const other = await plan({ a: { command: "a", env: { TOKEN: "mine" } } }, { storedSecret });
    const same = await plan({ a: { command: "a", env: { TOKEN: "stored" } } }, { storedSecret });

    expect(other.servers[0]?.secrets[0]?.name).toBe("A_TOKEN_2");
    expect(same.servers[0]?.secrets[0]?.name).toBe("A_TOKEN");
  });

  test("finds servers that are already configured under any name, and avoids the names of others", async () => {
    const configured = {
      renamed: serverSchema.parse({ command: "a", env: { A_TOKEN: `\${secret:A_TOKEN}` } }),
      b: serverSchema.parse({ command: "other" }),
    };
    const { servers, why } = await plan(
      { a: { command: "a", env: { A_TOKEN: "x" } }, b: { command: "b" } },
      { configured, storedSecret: async (name) => (name === "A_TOKEN" ? "x" : undefined) },
    );

    expect(why).toEqual({ a: "it is already configured as renamed" });
    expect(servers.map(({ name }) => name)).toEqual(["b-2"]);
  });

  test("leaves out Quartermaster itself, in every spelling", async () => {
    const { names, why } = await plan({
      qm: { command: "qm", args: ["mcp"] },
      http: { url: "http://localhost:7420/mcp" },
      other: { command: "other" },
    });

    expect(names).toEqual(["other"]);
    expect(why).toEqual({ qm: "it is Quartermaster itself", http: "it is Quartermaster itself" });
  });

  test("leaves out a project's servers unless asked, and keeps their folder", async () => {
    const files = { "project/.mcp.json": '{"mcpServers": {"theirs": {"command": "./x"}}}' };
    const without = await plan({}, {}, files);
    const withThem = await plan({}, { project: true, projectFolder: `/p/$\${x}` }, files);

    expect(without.names).toEqual([]);
    expect(without.why.theirs).toMatch(/--project/);
    expect(withThem.servers[0]).toMatchObject({ scope: "project", entry: { command: "./x", cwd: `/p/$$\${x}` } });
  });

  test("imports only the named servers, by the old or the new name", async () => {
    const servers = { "A B": { command: "a" }, c: { command: "c" }, d: { command: "d" } };

    expect((await plan(servers, { only: ["a-b", "d"] })).names).toEqual(["a-b", "d"]);
  });

  test("reports variables that are not set", async () => {
    const { servers } = await plan(
      { a: { command: "a", env: { A: `\${env:SET}`, B: `\${env:UNSET}`, C: `x\${env:UNSET}` } } },
      { env: { SET: "1" } },
    );

    expect(servers[0]?.notes).toEqual(["the variable UNSET is not set here"]);
  });

  test("leaves out servers that the configuration cannot hold", async () => {
    const { names, why } = await plan(
      { a: { command: "a" }, b: { command: "b" } },
      { check: (name) => (name === "a" ? "no" : undefined) },
    );

    expect(names).toEqual(["b"]);
    expect(why).toEqual({ a: "no" });
  });

  test("leaves out servers beyond the 99th of one name", async () => {
    const many = Object.fromEntries(
      Array.from({ length: 1000 }, (_, at) => [`s${"-".repeat(at)}`, { command: `c${at}` }]),
    );
    const { names, skipped } = await plan(many);

    expect(names).toHaveLength(99);
    expect(skipped).toHaveLength(901);
  });
});
