import { describe, expect, test } from "vitest";
import { listInstallChoices, planFromRegistry } from "./plan-registry-server.ts";
import { entryOf, fixture, planOptions as options, planOf as plan, refusalOf } from "./testing.ts";

describe("choosing", () => {
  test("prefers npm packages, then other packages, then remotes, and puts those that cannot run here last", () => {
    const { server } = entryOf(fixture("airtable"));

    expect(listInstallChoices(server).map(({ id }) => id)).toEqual(["npm", "oci", "mcpb"]);
    expect(listInstallChoices(entryOf(fixture("hybrid")).server).map(({ id }) => id)).toEqual([
      "npm",
      "remote",
      "remote-2",
    ]);
    expect(listInstallChoices(server, (command) => command === "docker").map(({ id }) => id)).toEqual([
      "oci",
      "mcpb",
      "npm",
    ]);
  });

  test("lists the choices when the chosen one is missing or unsupported", async () => {
    expect(await refusalOf(plan("hybrid", {}, { choose: "pypi" }))).toMatchObject({
      code: "invalid_arguments",
      message: '"com.example/hybrid-mcp" has no choice "pypi"',
      hint: "Choose: npm, remote.",
    });
    expect((await refusalOf(plan("hybrid", {}, { choose: "remote-2" }))).message).toContain("deprecated SSE transport");
    expect((await refusalOf(plan("sse-only"))).message).toContain("supports only the deprecated SSE transport");
    expect((await refusalOf(plan("cargo-only"))).message).toContain('packages of type "cargo" are not supported');
    const empty = await refusalOf(planFromRegistry(entryOf({ name: "a/b", version: "1", packages: [7] }), {}, options));
    expect(empty.message).toContain("no readable package or URL");
  });

  test("warns about a deprecated server, and refuses a deleted one", async () => {
    const made = await planFromRegistry(entryOf(fixture("deprecated"), "deprecated"), {}, options);

    expect(made.warnings).toContain("its publisher marks it as deprecated");
    const refusal = await refusalOf(planFromRegistry(entryOf(fixture("deleted"), "deleted"), {}, options));
    expect(refusal.message).toContain("was deleted");
  });
});
