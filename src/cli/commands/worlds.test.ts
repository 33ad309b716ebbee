import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { cleanUp, createTestFolder, qm } from "../testing.ts";

afterAll(cleanUp);

const sample = join(import.meta.dirname, "../../../examples/world");

describe("qm worlds", () => {
  test("lists worlds with the number of their skills and actions, and their actors", async () => {
    const folder = await createTestFolder({
      "quartermaster.yaml": "worlds: { sea: { description: Sail., actions: [file__read] } }\nworld: sea\n",
    });

    const { out } = await qm(folder, ["worlds", "list"]);
    const { worlds } = JSON.parse((await qm(sample, ["worlds", "list", "--json"])).out);

    expect(out).toMatch(/^sea \(default\) +0 +1 +default +Sail\.$/m);
    expect(worlds).toEqual([
      {
        name: "releases",
        description: "Check a version and write its release notes.",
        default: false,
        skills: 2,
        actions: 5,
        actors: ["release-manager"],
      },
    ]);
  });

  test("says what to do when no world is configured", async () => {
    const { code, out } = await qm(await createTestFolder({ "quartermaster.yaml": "{}" }), ["worlds", "list"]);

    expect(code).toBe(0);
    expect(out).toContain("Add one under worlds in quartermaster.yaml");
  });

  test("shows a world with its folders, skills, actions, groups and actors", async () => {
    const { out } = await qm(sample, ["worlds", "show", "releases"]);
    const shown = JSON.parse((await qm(sample, ["worlds", "show", "releases", "--json"])).out);

    expect(out).toMatch(/^actors +release-manager$/m);
    expect(out).toMatch(/^folders +.*examples\/world\/skills$/m);
    expect(out).toMatch(/^skill__releases__check-release +Check that a version is ready to be released\.$/m);
    expect(out).toMatch(/^file__write +Create a text file/m);
    expect(shown).toMatchObject({ name: "releases", groups: [{ name: "publishing" }], folders: [expect.any(String)] });
    expect(shown.skills).toHaveLength(2);
    expect(shown.actions).toHaveLength(5);
  });

  test("suggests a name for an unknown world", async () => {
    const { code, err } = await qm(sample, ["worlds", "show", "release"]);

    expect(code).toBe(1);
    expect(err).toContain('no world "release"; did you mean releases?');
  });
});

test("qm list and qm list --inventory show the world of actions", async () => {
  const listed = await qm(sample, ["list", "--actor", "release-manager"]);
  const inventory = await qm(sample, ["list", "--inventory"]);
  const outside = await qm(sample, ["list"]);

  expect(listed.out).toMatch(/^action +effect +world +what it does\nfile__delete +write +releases /);
  expect(inventory.out).toMatch(/^file__edit +write +core +releases /m);
  expect(outside.out).toMatch(/^action +effect +what it does\n/);
});
