import { describe, expect, test } from "vitest";
import { type AddServerOptions, buildInstallCall } from "./install-call.ts";

const call = (
  what: string,
  options: AddServerOptions = {},
  given: readonly string[] = [],
  configFolder = "/home/ann/shop",
) => buildInstallCall(what, given, options, { cwd: "/home/ann/shop", configFolder });

describe("the form of a server", () => {
  test.each([
    ["npm:@scope/server@1.2.3", "mcp__install_package", { kind: "npm", identifier: "@scope/server", version: "1.2.3" }],
    ["pypi:server", "mcp__install_package", { kind: "pypi", identifier: "server" }],
    ["docker:mcp/time:1", "mcp__install_package", { kind: "docker", identifier: "mcp/time:1" }],
    ["https://github.com/a/b", "mcp__install_package", { kind: "github", identifier: "https://github.com/a/b" }],
    ["registry:io.github.a/b@2", "mcp__install_registry", { server_id: "io.github.a/b", version: "2" }],
    ["https://mcp.linear.app/mcp", "mcp__install_local", { name: "linear", url: "https://mcp.linear.app/mcp" }],
  ])("%s", (what, action, args) => {
    expect(call(what)).toMatchObject({ action, args });
  });

  test.each(["foo:bar", "ftp://foo/bar", "npm:", "htp:/x"])("%s has an unknown form", (what) => {
    expect(() => call(what, { name: "x" })).toThrow(
      expect.objectContaining({
        code: "invalid_arguments",
        message: expect.stringContaining("unknown form of server"),
        hint: expect.stringMatching(/npm:.*pypi:.*docker:.*registry:.*GitHub.*https.*command/),
      }),
    );
  });

  test("a drive letter is no form", () => {
    expect(call("C:\\tools\\server.exe", { name: "x" }).args).toMatchObject({ command: "C:\\tools\\server.exe" });
  });
});

describe("options without effect are refused", () => {
  test.each<[string, AddServerOptions, RegExp]>([
    ["npm:a", { header: ["A=b"] }, /--header has no effect on a package/],
    ["node", { name: "x", header: ["A=b"] }, /--header has no effect on a command/],
    ["registry:a/b", { header: ["A=b"] }, /--header/],
    ["https://a.example/mcp", { env: ["A=b"] }, /--env has no effect on the URL of a server/],
    ["https://a.example/mcp", { cwd: "x" }, /--cwd/],
    ["npm:a", { cwd: "x" }, /--cwd/],
    ["docker:a", { input: ["A=b"] }, /--input has no effect on an image/],
    ["node", { name: "x", choose: "npm" }, /--choose/],
  ])("%s %j", (what, options, message) => {
    expect(() => call(what, options)).toThrow(
      expect.objectContaining({ code: "invalid_arguments", message: expect.stringMatching(message) }),
    );
  });

  test.each(["https://a.example/mcp", "registry:a/b"])("arguments of %s", (what) => {
    expect(() => call(what, {}, ["--read-only"])).toThrow("takes no arguments");
  });
});

describe("a URL", () => {
  test.each([
    "https://ann:hunter2@a.example/mcp",
    "https://hunter2@a.example/mcp",
    "https://a.example/mcp?token=hunter2",
    "https://a.example/mcp?x=1&apiKey=hunter2",
    "https://a.example/mcp?api_key=hunter2",
    "https://a.example/mcp?client-secret=hunter2",
    "https://a.example/mcp?PASSWORD=hunter2",
  ])("%s holds a secret, and is refused without printing it", (url) => {
    expect(() => call(url)).toThrow(
      expect.objectContaining({
        code: "invalid_arguments",
        message: expect.not.stringContaining("hunter2"),
        hint: expect.stringContaining(`--header 'Authorization=Bearer \${secret:NAME}'`),
      }),
    );
  });

  test.each([`https://a.example/mcp?token=\${secret:A}`, "https://a.example/mcp?monkey=1&keyboard=us"])(
    "%s holds none",
    (url) => {
      expect(call(url, { name: "a" }).args).toMatchObject({ url });
    },
  );

  test.each([
    ["https://mcp.linear.app/sse", "linear"],
    ["https://api.githubcopilot.com/mcp/", "githubcopilot"],
    ["https://docs.mcp.cloudflare.com/mcp", "cloudflare"],
    ["https://www.shop.co.uk/mcp", "shop"],
    ["https://mcp.dev/mcp", "mcp"],
  ])("%s is called %s", (url, name) => {
    expect(call(url).args).toMatchObject({ name });
  });

  test.each([
    "http://127.0.0.1:3000/mcp",
    "http://[::1]/mcp",
    "http://localhost/mcp",
    "https://xn--bcher-kva.example/",
    "https://",
  ])("%s needs a name", (url) => {
    expect(() => call(url)).toThrow(expect.objectContaining({ hint: "Give --name <name>." }));
  });
});

describe("the folder of a command", () => {
  const cwdOf = (options: AddServerOptions, configFolder?: string) =>
    call("node", { name: "x", ...options }, [], configFolder).args.cwd;

  test("is left out if it is the folder of the configuration", () => {
    expect(cwdOf({})).toBeUndefined();
  });

  test("is the current folder if the configuration is in a parent folder", () => {
    expect(cwdOf({}, "/home/ann")).toBe("/home/ann/shop");
    expect(cwdOf({ cwd: "notes" }, "/home/ann")).toBe("/home/ann/shop/notes");
    expect(cwdOf({ cwd: "/srv" }, "/home/ann")).toBe("/srv");
    expect(cwdOf({ cwd: `\${env:WORK}/x` }, "/home/ann")).toBe(`\${env:WORK}/x`);
  });
});
