import { describe, expect, test } from "vitest";
import { listInstallChoices, planFromRegistry } from "./plan-registry-server.ts";
import { entryOf, fixture, planOptions as options, planOf as plan, refusalOf } from "./testing.ts";

describe("choosing", () => {
  test("prefers what npx starts, then other packages, then what runs elsewhere; what cannot be had is last", () => {
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

  test("says what there is when what was chosen is not there, or cannot be had", async () => {
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

  test("what is deprecated is pointed out, and what was deleted refused", async () => {
    const made = await planFromRegistry(entryOf(fixture("deprecated"), "deprecated"), {}, options);

    expect(made.warnings).toContain("its publisher marks it as deprecated");
    const refusal = await refusalOf(planFromRegistry(entryOf(fixture("deleted"), "deleted"), {}, options));
    expect(refusal.message).toContain("was deleted");
  });
});
