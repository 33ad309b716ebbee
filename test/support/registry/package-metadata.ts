import type { JsonObject } from "../../../src/core/json.ts";

const npm: Readonly<Record<string, JsonObject>> = {
  "@modelcontextprotocol/server-memory@latest": createMemoryPackage("2026.8.31"),
  "@modelcontextprotocol/server-memory@2026.8.31": createMemoryPackage("2026.8.31"),
  "@modelcontextprotocol/server-memory@2025.1.1": createMemoryPackage("2025.1.1"),
  "old-mcp@latest": {
    name: "old-mcp",
    version: "0.3.0",
    bin: "index.js",
    deprecated: "Use new-mcp.",
    scripts: { postinstall: "node build.js", test: "true" },
  },
  "many-programs@latest": { name: "many-programs", version: "1.0.0", bin: { helper: "a.js", "many-mcp": "b.js" } },
  "@example/library@latest": { name: "@example/library", version: "2.0.0" },
};

const pypi: Readonly<Record<string, JsonObject>> = {
  "pypi/mcp-server-time/json": { info: { version: "2026.8.31", summary: "Tells the time." } },
  "pypi/mcp-server-time/2025.1.1/json": { info: { version: "2025.1.1", summary: "Tells the time.", yanked: true } },
};

/** Files of repositories, for any commit. */
const raw: Readonly<Record<string, JsonObject | string>> = {
  "example/node-server/package.json": { name: "node-server", bin: "index.js", scripts: { prepare: "tsc" } },
  "example/no-program/package.json": { name: "no-program" },
  "example/python-server/pyproject.toml": '[project]\nname = "python-server"\n[project.scripts]\nserve = "x:main"\n',
  "example/mono/servers/one/pyproject.toml": '[project]\nname = "one"\n',
  "example/mono/servers/two/package.json": { name: "@example/two", bin: "index.js" },
  "example/broken/pyproject.toml": "[project",
  "modelcontextprotocol/servers/package.json": { name: "@modelcontextprotocol/servers" },
  "modelcontextprotocol/servers/src/memory/package.json": { name: "@modelcontextprotocol/server-memory", bin: "x.js" },
  "modelcontextprotocol/servers/src/time/pyproject.toml": '[project]\nname = "mcp-server-time"\n',
};

/** The fake answers of package registries and repositories. Undefined if there is none. */
export function getPackageMetadata(from: "npm" | "pypi" | "raw", path: string): JsonObject | string | undefined {
  if (from === "pypi") return pypi[path];
  if (from === "npm") return npm[path.replace(/\/([^/]+)$/, "@$1")];
  const [owner, repository, , ...rest] = path.split("/");
  return raw[[owner, repository, ...rest].join("/")];
}

function createMemoryPackage(version: string): JsonObject {
  const bin = { "mcp-server-memory": "dist/index.js" };
  return { name: "@modelcontextprotocol/server-memory", version, description: "Remembers.", bin };
}
