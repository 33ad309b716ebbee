import { describe, expect, test } from "vitest";
import { planLocal } from "./install-planner.ts";
import { refusalOf } from "./testing.ts";

describe("a command", () => {
  test("is taken with its arguments, variables and folder", () => {
    const made = planLocal({
      name: "notes",
      command: "node",
      args: ["server.mjs", "two words", 'a"b\\c'],
      env: { KEY: `\${secret:KEY}` },
      cwd: "/srv/my notes",
    });

    expect(made.launch).toEqual({
      kind: "stdio",
      command: "node",
      args: ["server.mjs", "two words", 'a"b\\c'],
      env: { KEY: `\${secret:KEY}` },
      cwd: "/srv/my notes",
    });
    expect(made.command).toBe(`KEY=\${secret:KEY} node server.mjs "two words" "a\\"b\\\\c" (in "/srv/my notes")`);
    expect(made).toMatchObject({ name: "notes", source: "local", hosts: [], missing: [], warnings: [] });
  });

  test.each([
    [
      "sh",
      ["-c", "curl x | sh"],
      ["it starts a shell (sh), which can run anything", expect.stringContaining("contains shell characters")],
    ],
    ["/bin/bash", ["run.sh"], ["it starts a shell (bash), which can run anything"]],
    ["C:\\Windows\\cmd.exe", ["/c", "x"], ["it starts a shell (cmd.exe), which can run anything"]],
    ["sudo", ["x"], ["it runs with another user's rights"]],
    ["node", ["a;b"], [expect.stringContaining("no shell interprets them")]],
    ["node", ["раураl"], ["it contains look-alike or invisible characters"]],
    ["npx", ["-y", "some-mcp"], [expect.stringContaining("some-mcp has no exact version")]],
    ["npx", ["-y", "@a/some-mcp@latest"], [expect.stringContaining("@a/some-mcp has no exact version")]],
    ["npx", ["-y", "@a/some-mcp@1.2.3"], []],
    ["uvx", ["some-mcp==1.2.3"], []],
    ["uvx", ["mcp-server-tine==1.2.3"], ["mcp-server-tine is similar to, but not, the well-known mcp-server-time"]],
    ["docker", ["run", "--privileged", "a/b:1"], [expect.stringContaining("privileged")]],
    ["docker", ["run", "-v", "/:/host", "a/b:1"], ["the container can read all of /"]],
    ["docker", ["run", "--volume=/var/run/docker.sock:/x", "a/b:1"], [expect.stringContaining("can control Docker")]],
    ["docker", ["run", "-v", "data:/data", "a/b:1"], []],
    [
      "podman",
      ["run", "--net=host", "--cap-add", "ALL", "a/b:1"],
      [expect.stringContaining("net"), expect.stringContaining("--cap-add")],
    ],
  ] as const)("%s %j: what is pointed out", (command, args, warnings) => {
    expect(planLocal({ name: "x", command, args }).warnings).toEqual(warnings);
  });

  test("in one text with its arguments is refused, because it is never split", async () => {
    const refusal = await refusalOf(() => planLocal({ name: "x", command: "npx -y some-mcp" }));

    expect(refusal.hint).toContain("each argument as an item");
    expect(planLocal({ name: "x", command: "/opt/my tools/server" }).command).toBe('"/opt/my tools/server"');
  });

  test("shows invisible characters, and cuts nothing", () => {
    const long = "x".repeat(5000);

    const { command } = planLocal({ name: "x", command: "node", args: ["a\u202eb", "\u3164", "é", "\n", long] });

    expect(command).toBe(`node "a\\u{202e}b" "\\u{3164}" é "\\u{a}" ${long}`);
  });
});

describe("a URL", () => {
  test("is taken with its headers", () => {
    const made = planLocal({
      name: "x",
      url: "https://mcp.example/mcp",
      headers: { Authorization: `Bearer \${env:T}` },
    });

    expect(made.launch).toEqual({
      kind: "http",
      url: "https://mcp.example/mcp",
      headers: { Authorization: `Bearer \${env:T}` },
    });
    expect(made).toMatchObject({ source: "url", hosts: ["mcp.example"], warnings: [] });
    expect(planLocal({ name: "x", url: `\${env:WHERE}/mcp` }).hosts).toEqual([]);
  });

  test.each([
    { url: "ftp://x" },
    { url: "https://me:pw@x.example" },
    { url: "nonsense" },
    { url: "https://x.example", headers: { Authorization: "Bearer abc" } },
    { url: "https://x.example", headers: { "X-Note": "a\r\nHost: evil" } },
    { url: "https://x.example", command: "node" },
    {},
    { command: "" },
  ])("or a command, and a proper one: %j is refused", async (own) => {
    expect((await refusalOf(() => planLocal({ name: "x", ...own }))).code).toBe("invalid_arguments");
  });
});

test.each(["", "X", "a__b", "a b", "-a", "a".repeat(41), "../x"])("%j is no name of a server", async (name) => {
  expect((await refusalOf(() => planLocal({ name, command: "node" }))).code).toBe("invalid_arguments");
});
