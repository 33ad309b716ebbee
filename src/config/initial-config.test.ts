import { expect, test } from "vitest";
import { type FileAccess, getInitialConfig } from "./initial-config.ts";
import { parseConfig } from "./parse.ts";
import { listConfigKeys } from "./testing.ts";

test("tells editors in the first line where the schema is", () => {
  expect(getInitialConfig().split("\n", 1)[0]).toBe(
    "# yaml-language-server: $schema=./node_modules/quartermaster/docs/config.schema.json",
  );
});

test("has every section, enabled or as a comment", () => {
  const sections = listConfigKeys().filter(({ path }) => !path.includes("."));

  for (const { path } of sections) expect(getInitialConfig()).toMatch(new RegExp(`^#?${path}:`, "m"));
});

test("has every provider, enabled or as a comment", () => {
  const keys = listConfigKeys().flatMap(({ path }) => /^providers\.(\w+)\.enabled$/.exec(path)?.[1] ?? []);

  expect(keys.length).toBeGreaterThan(4);
  for (const key of keys) expect(getInitialConfig()).toMatch(new RegExp(`^ {2}#?${key}:`, "m"));
});

test("means the same as an empty file", () => {
  const { config } = parseConfig(Buffer.from(getInitialConfig()), "/quartermaster.yaml");

  expect(config).toEqual(parseConfig(Buffer.from(""), "/quartermaster.yaml").config);
});

test.each<[FileAccess, object]>([
  ["read", { enabled: true, readOnly: true }],
  ["write", { enabled: true, readOnly: false }],
  ["none", { enabled: false, readOnly: true }],
])("gives the file actions the access %s", (files, expected) => {
  const { config } = parseConfig(Buffer.from(getInitialConfig(files)), "/quartermaster.yaml");

  expect(config.providers.file).toEqual({ ...expected, root: "." });
});

test("loads with all examples enabled", () => {
  const text = getInitialConfig()
    .replaceAll(/^( *)#(?! |$)/gm, "$1")
    .replaceAll(/^( *)#( {2,}\S)/gm, "$1$2");

  const { config, references } = parseConfig(Buffer.from(text), "/quartermaster.yaml");

  expect(config.policy.rules.map(({ name }) => name)).toEqual(["ask-before-deleting"]);
  expect(config.policy.budgets.session?.calls).toBe(1000);
  expect(Object.keys(config.actors)).toEqual(["default", "reviewer"]);
  expect(references.map(({ variable }) => variable)).toEqual([
    "secret:ANTHROPIC_KEY",
    "secret:TRACKER_TOKEN",
    "REVIEWER_TOKEN",
    "secret:RESEARCH_TOKEN",
    "secret:PARTNER_TOKEN",
    "secret:ANN_TOKEN",
    "OPENAI_API_KEY",
    "GITHUB_TOKEN",
  ]);
  expect(Object.values(config.providers).map(({ enabled }) => enabled)).not.toContain(false);
  expect(Object.keys(config.servers)).toEqual(["memory", "tracker"]);
  expect(Object.keys(config.approvals.categories)).toEqual(["mcp"]);
  expect(config.routing.rules.map(({ name }) => name)).toEqual(["patient-reads"]);
  expect(config.gateway.profiles.reviewing?.surface).toBe("deferred");
});
