import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { cleanUp, createTestFolder, qm } from "../testing.ts";

afterAll(cleanUp);

const TRIAGE = "---\nname: triage\ndescription: Sort issues by age. Use daily.\n---\nStart with the oldest.\n";

async function createSkills(skills: Record<string, string>): Promise<string> {
  const folder = await createTestFolder({ "quartermaster.yaml": "skills: { folders: [skills] }\n" });
  for (const [name, content] of Object.entries(skills)) {
    await mkdir(join(folder, "skills", name), { recursive: true });
    await writeFile(join(folder, "skills", name, "SKILL.md"), content);
  }
  return folder;
}

describe("qm skills", () => {
  test("lists skills, and warns of files that cannot be used", async () => {
    const folder = await createSkills({ triage: TRIAGE, broken: "# no front matter\n" });

    const { code, out, err } = await qm(folder, ["skills", "list"]);

    expect(code).toBe(0);
    expect(out).toMatch(/^triage +instruction +configured +Sort issues by age\.$/m);
    expect(err).toMatch(/skills\/broken\/SKILL\.md:1 error front-matter:/);
  });

  test("says what to do when no folder is configured", async () => {
    const { out } = await qm(await createTestFolder({ "quartermaster.yaml": "{}" }), ["skills", "list"]);

    expect(out).toContain("`qm skills new <name>` creates a skill");
  });

  test("shows a skill with its files and digest, and suggests a name for an unknown one", async () => {
    const folder = await createSkills({ triage: TRIAGE });

    const shown = JSON.parse((await qm(folder, ["skills", "show", "triage", "--json"])).out);
    const unknown = await qm(folder, ["skills", "show", "triag"]);

    expect(shown).toMatchObject({
      name: "triage",
      files: ["SKILL.md"],
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    expect(unknown.err).toContain("did you mean triage?");
  });

  test("escapes terminal codes in a skill's texts", async () => {
    const folder = await createSkills({
      evil: `---\nname: evil\ndescription: "a \\e[2J b"\n---\n\u001B]0;owned\u0007\n`,
    });

    const { out } = await qm(folder, ["skills", "show", "evil"]);

    expect(out).not.toContain("\u001B");
    expect(out).toContain("\\u{1b}");
  });

  test("lints with file, line and rule, counts findings by rule and exits with 1", async () => {
    const folder = await createSkills({ triage: TRIAGE, Bad: TRIAGE.replace("Use daily.", "See [a](a.md).") });

    const found = await qm(folder, ["skills", "lint"]);
    const clean = await qm(folder, ["skills", "lint", "skills/triage"]);

    expect(found.code).toBe(1);
    expect(found.out).toContain('skills/Bad/SKILL.md:2 warning name: "triage" is not the folder\'s name, "Bad"');
    expect(found.out).toMatch(/2 skills|1 skill, .*name 1/);
    expect(clean).toMatchObject({ code: 0, out: "1 skill, no findings.\n" });
  });

  test("creates a skill whose only finding is its placeholder, and overwrites nothing", async () => {
    const folder = await createSkills({});

    const created = await qm(folder, ["skills", "new", "release-notes"]);
    const linted = await qm(folder, ["skills", "lint"]);
    const again = await qm(folder, ["skills", "new", "release-notes"]);

    expect(created.code).toBe(0);
    expect(await readFile(join(folder, "skills/release-notes/SKILL.md"), "utf8")).toContain("name: release-notes");
    expect(linted.out).toContain('SKILL.md:3 warning description: still ends with the placeholder "Use when …"');
    expect(linted.out).toContain("1 skill, 1 finding: description 1.");
    expect(again).toMatchObject({ code: 1, err: expect.stringContaining("nothing was changed") });
  });

  test.each(["Bad_Name", "../outside", "a b"])("refuses to create a skill called %j", async (name) => {
    const { code, err } = await qm(await createSkills({}), ["skills", "new", name]);

    expect(code).toBe(2);
    expect(err).toContain("release-notes");
  });
});
