import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createGitLsRemote, parseRepository, resolveCommit } from "./github.ts";
import { type PackagePlanOptions, type PackageRequest, planFromPackage } from "./plan-package.ts";
import { refusalOf, testFolder, testStandIn } from "./testing.ts";

const COMMIT = "0123456789abcdef0123456789abcdef01234567";

async function planning(own: Partial<PackagePlanOptions> = {}) {
  const { url, requests, behave } = await testStandIn();
  const asked: string[][] = [];
  const deps: PackagePlanOptions = {
    fetch,
    npmUrl: `${url}/npm`,
    pypiUrl: `${url}/pypi`,
    githubFilesUrl: `${url}/raw`,
    lsRemote: async (repository, refs) => {
      asked.push([repository, ...refs]);
      return refs.map((ref) => `${COMMIT}\t${ref}\n`).join("");
    },
    ...own,
  };
  const plan = (request: PackageRequest, signal?: AbortSignal) => planFromPackage(request, deps, signal);
  const argv = async (request: PackageRequest) => {
    const { launch } = await plan(request);
    return launch.kind === "stdio" ? [launch.command, ...launch.args].join(" ") : "";
  };
  return { plan, argv, asked, requests, behave, host: new URL(url).host };
}

describe("npm", () => {
  test("is pinned to the version that is newest now", async () => {
    const { plan, host, requests } = await planning();

    const made = await plan({ kind: "npm", identifier: "@modelcontextprotocol/server-memory", args: ["--x"] });

    expect(requests).toEqual(["/npm/@modelcontextprotocol/server-memory/latest"]);
    expect(made).toMatchObject({
      name: "memory",
      version: "2026.8.31",
      source: "npm:@modelcontextprotocol/server-memory@2026.8.31",
      description: "Remembers.",
      command: "npx -y @modelcontextprotocol/server-memory@2026.8.31 --x",
      hosts: [host],
      missing: [],
      warnings: [],
    });
  });

  test("accepts a version beside the name or in it", async () => {
    const { argv } = await planning();
    const identifier = "@modelcontextprotocol/server-memory";

    expect(await argv({ kind: "npm", identifier, version: "2025.1.1" })).toBe(`npx -y ${identifier}@2025.1.1`);
    expect(await argv({ kind: "npm", identifier: `${identifier}@2025.1.1` })).toBe(`npx -y ${identifier}@2025.1.1`);
    expect(await argv({ kind: "npm", identifier, version: "latest" })).toBe(`npx -y ${identifier}@2026.8.31`);
  });

  test("refuses an unknown package, a range of versions and an option as a name", async () => {
    const { plan } = await planning();

    const absent = await refusalOf(plan({ kind: "npm", identifier: "no-such-package" }));
    const range = await refusalOf(plan({ kind: "npm", identifier: "old-mcp", version: "^1.0.0" }));
    const option = await refusalOf(plan({ kind: "npm", identifier: "--registry=x" }));

    expect(absent).toMatchObject({ code: "not_found", message: 'npm has no package "no-such-package"' });
    expect(range).toMatchObject({ code: "invalid_arguments", message: '"^1.0.0" matches more than one version' });
    expect(option.code).toBe("invalid_arguments");
  });

  test("warns about packages that are deprecated, run scripts, have several programs, none, or a borrowed name", async () => {
    const { plan, argv } = await planning();
    const warningsOf = async (identifier: string) => (await plan({ kind: "npm", identifier })).warnings;

    expect(await warningsOf("old-mcp")).toEqual([
      'old-mcp 0.3.0 is deprecated: "Use new-mcp."',
      "installing it runs its own scripts (postinstall)",
    ]);
    expect(await argv({ kind: "npm", identifier: "many-programs" })).toBe(
      "npx -y --package=many-programs@1.0.0 -- many-mcp",
    );
    expect(await warningsOf("@example/library")).toEqual([expect.stringContaining("may not be a server")]);
  });

  test("fails when the registry does, and stops when its signal aborts", async () => {
    const { plan, behave } = await planning();
    behave("failing");
    const request: PackageRequest = { kind: "npm", identifier: "old-mcp" };

    expect(await refusalOf(plan(request))).toMatchObject({
      code: "registry_failed",
      message: expect.stringContaining("the npm registry at"),
    });
    await expect(plan(request, AbortSignal.abort(new Error("enough")))).rejects.toThrow("enough");
  });
});

test("PyPI is pinned too", async () => {
  const { plan, argv } = await planning();

  const made = await plan({ kind: "pypi", identifier: "mcp-server-time", version: "2025.1.1" });

  expect(made).toMatchObject({ name: "time", command: "uvx mcp-server-time==2025.1.1" });
  expect(made.warnings).toEqual(["mcp-server-time 2025.1.1 was withdrawn by its publisher"]);
  expect(await argv({ kind: "pypi", identifier: "mcp-server-time" })).toBe("uvx mcp-server-time==2026.8.31");
  expect((await refusalOf(plan({ kind: "pypi", identifier: "nothing" }))).code).toBe("not_found");
});

describe("docker", () => {
  const digest = `sha256:${"ab".repeat(32)}`;

  test("needs a tag or a digest, and forwards variables by name", async () => {
    const { plan, argv } = await planning();

    const made = await plan({ kind: "docker", identifier: "mcp/time:1.2", env: { ZONE: "UTC" }, args: ["--x"] });

    expect(made.command).toBe("ZONE=UTC docker run -i --rm -e ZONE mcp/time:1.2 --x");
    expect(made).toMatchObject({ name: "time", version: "1.2", hosts: ["docker.io"] });
    expect(made.warnings).toEqual([expect.stringContaining("can be moved")]);
    expect(await argv({ kind: "docker", identifier: "ghcr.io/a/b", version: digest })).toBe(
      `docker run -i --rm ghcr.io/a/b@${digest}`,
    );
    expect((await plan({ kind: "docker", identifier: `ghcr.io:443/a/b@${digest}` })).hosts).toEqual(["ghcr.io:443"]);
    expect((await plan({ kind: "docker", identifier: `a/b@${digest}` })).warnings).toEqual([]);
  });

  test.each(["mcp/time", "mcp/time:latest", "--privileged", "a b", "UPPER/$(x):1", "a//b:1"])(
    "refuses %s",
    async (identifier) => {
      const { plan } = await planning();
      const refusal = await refusalOf(plan({ kind: "docker", identifier }));
      expect(refusal).toMatchObject({ code: "invalid_arguments", hint: expect.stringContaining(":1.2.3") });
    },
  );
});

describe("GitHub", () => {
  test("a package of npm is run at the commit that a branch means now", async () => {
    const { plan, asked, requests } = await planning();

    const made = await plan({ kind: "github", identifier: "https://github.com/example/node-server" });

    expect(asked).toEqual([["https://github.com/example/node-server.git", "HEAD"]]);
    expect(requests).toEqual([`/raw/example/node-server/${COMMIT}/package.json`]);
    expect(made).toMatchObject({
      name: "node",
      version: COMMIT,
      command: `npx -y github:example/node-server#${COMMIT}`,
      warnings: [expect.stringContaining("with its own scripts (prepare)")],
    });
  });

  test("a package of Python is run from its source, in its folder", async () => {
    const { argv } = await planning();

    expect(await argv({ kind: "github", identifier: "example/python-server", version: "v1" })).toBe(
      `uvx --from git+https://github.com/example/python-server@${COMMIT} serve`,
    );
    expect(await argv({ kind: "github", identifier: "https://github.com/example/mono/tree/main/servers/one" })).toBe(
      `uvx --from git+https://github.com/example/mono@${COMMIT}#subdirectory=servers/one one`,
    );
  });

  test("the reference servers are taken from where they are published", async () => {
    const { argv, plan } = await planning();
    const at = (folder: string): PackageRequest => ({
      kind: "github",
      identifier: `https://github.com/modelcontextprotocol/servers${folder}`,
    });

    expect(await argv(at("/tree/main/src/memory"))).toBe("npx -y @modelcontextprotocol/server-memory@2026.8.31");
    expect(await argv(at("/tree/main/src/time"))).toBe("uvx mcp-server-time==2026.8.31");
    expect((await refusalOf(plan(at("")))).hint).toContain("Use the URL of the server's folder");
  });

  test.each([
    ["example/no-program", "no program that npx can start"],
    ["example/nothing-there", "has no package.json and no pyproject.toml"],
    ["example/broken", "pyproject.toml cannot be read"],
    ["https://github.com/example/mono/tree/main/servers/two", "npm cannot install a folder"],
    ["https://gitlab.com/a/b", "is not a repository on GitHub"],
    ["https://github.com/a", "is not a repository on GitHub"],
    ["-a/b", "is not a repository on GitHub"],
    ["a/b/tree/main/../../c", "is not a repository on GitHub"],
    ["a/b#--upload-pack=x", "is not a repository on GitHub"],
  ])("says why %s cannot be had", async (identifier, why) => {
    const { plan } = await planning();

    expect((await refusalOf(plan({ kind: "github", identifier }))).message).toContain(why);
  });

  test("asks git without a shell for branches, tags and their commits", async () => {
    const folder = await testFolder();
    const git = (...args: string[]) => execFileSync("git", ["-C", folder, ...args], { encoding: "utf8" }).trim();
    const commit = (text: string) => {
      writeFileSync(join(folder, "file"), text);
      git("add", "file");
      git("-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-qm", text);
      return git("rev-parse", "HEAD");
    };
    git("init", "-q", "-b", "main");
    const first = commit("one");
    git("-c", "user.name=x", "-c", "user.email=x@example.com", "tag", "-am", "first", "v1");
    const second = commit("two");
    const real = createGitLsRemote({ PATH: "/usr/local/bin:/usr/bin:/bin" });
    const inFolder: PackagePlanOptions["lsRemote"] = (_, refs, signal) => real(folder, refs, signal);
    const at = (ref?: string) => resolveCommit(parseRepository("a/b", ref), inFolder);

    expect(await at()).toBe(second);
    expect(await at("main")).toBe(second);
    expect(await at("v1")).toBe(first);
    expect(await at(COMMIT)).toBe(COMMIT);
    expect(await refusalOf(at("nothing"))).toMatchObject({ code: "not_found", message: 'a/b has no "nothing"' });
    expect((await refusalOf(real(join(folder, "gone"), ["HEAD"]))).code).toBe("registry_failed");
    const missing = createGitLsRemote({ PATH: folder });
    expect((await refusalOf(missing(folder, ["HEAD"]))).message).toBe("git is not installed");
    await expect(real(folder, ["HEAD"], AbortSignal.abort(new Error("enough")))).rejects.toThrow("enough");
  });
});

describe("a model's input", () => {
  const request = (own: Partial<PackageRequest>): PackageRequest => ({
    kind: "docker",
    identifier: "a/b:1",
    ...own,
  });

  test.each([
    { env: { GITHUB_TOKEN: "abc123" } },
    { env: { dbPassword: "hunter2" } },
    { env: { SETTINGS: "ghp_abcdefghijklmnopqrstuvwxyz0123456789" } },
    { env: { DATABASE_URL: "postgres://me:hunter2@db.example/x" } },
    { args: ["--api-key", "hunter2hunter2"] },
    { args: ["--api-key=hunter2"] },
    { args: ["sk-abcdefghijklmnopqrstuvwx"] },
    { env: { API_KEY: `hunter2hunter2hunter2\${env:X}` } },
  ])("is refused as a secret in plain text: %j", async (own) => {
    const { plan } = await planning();

    const refusal = await refusalOf(plan(request(own)));

    expect(refusal.code).toBe("invalid_arguments");
    expect(refusal.hintTemplate).toContain("{qm secrets set NAME}");
    expect(JSON.stringify(refusal.toProblem())).not.toMatch(/hunter2|abc123|abcdefg/);
  });

  test.each([
    { env: { GITHUB_TOKEN: `\${secret:GITHUB_TOKEN}`, TOKEN_FILE: "/run/token", AUTH_MODE: "none" } },
    { env: { AUTHORIZATION: `Bearer \${env:X}`, EMPTY_TOKEN: "" } },
    { args: ["--api-key", `\${secret:K}`, "--max-tokens", "100", "--token", "--verbose"] },
  ])("is taken as it is: %j", async (own) => {
    const { plan } = await planning();

    const { launch } = await plan(request(own));

    expect(launch).toMatchObject(own.env === undefined ? {} : { env: own.env });
    expect(JSON.stringify(launch)).toContain(JSON.stringify(own.args ?? []).slice(1, -1));
  });

  test.each([{ env: { "A B": "x" } }, { env: { A: `\${x}` } }, { env: { A: "a\0b" } }, { args: ["x".repeat(20_000)] }])(
    "is refused where it cannot be written down",
    async (own) => {
      const { plan } = await planning();

      expect((await refusalOf(plan(request(own)))).code).toBe("invalid_arguments");
    },
  );
});
