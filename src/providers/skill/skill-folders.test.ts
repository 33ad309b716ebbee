import { existsSync, readdirSync } from "node:fs";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { loadSkills, readSkillContents, type Skill } from "./skill-folders.ts";

const folders: string[] = [];
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true });
});

async function createFolder(files: Record<string, string | Uint8Array>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "qm-skills-"));
  folders.push(folder);
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
  return folder;
}

const toRoot = (folder: string, source = "configured") => ({ folder, source });
const describeSkill = (name: string) => `---\nname: ${name}\ndescription: Does ${name}.\n---\nDo it.\n`;
const load = async (...roots: readonly string[]) => loadSkills(roots.map((folder) => toRoot(folder)));

async function loadOne(folder: string): Promise<Skill> {
  const { skills } = await load(folder);
  const [skill] = skills;
  if (skill === undefined) throw new Error("no skill was found");
  return skill;
}

describe("skills in folders", () => {
  test("are found at any depth, but not below another skill", async () => {
    const folder = await createFolder({
      "a/SKILL.md": describeSkill("a"),
      "team/b/Skill.md": describeSkill("b"),
      "a/examples/c/SKILL.md": describeSkill("c"),
      "node_modules/d/SKILL.md": describeSkill("d"),
    });

    const { skills, problems } = await load(folder, join(folder, "missing"));

    expect(skills.map(({ name }) => name)).toEqual(["a", "b"]);
    expect(problems).toEqual([]);
  });

  test("are not hidden by a file that cannot be read", async () => {
    const folder = await createFolder({
      "good/SKILL.md": describeSkill("good"),
      "bad/SKILL.md": "no front matter",
      "binary/SKILL.md": new Uint8Array([0xff, 0xfe, 0x00]),
      "huge/SKILL.md": "x".repeat(2 * 1024 * 1024),
    });

    const { skills, problems } = await load(folder);

    expect(skills.map(({ name }) => name)).toEqual(["good"]);
    expect(problems.map(({ rule, line }) => [rule, line]).sort()).toEqual([
      ["encoding", 1],
      ["front-matter", 1],
      ["size", 1],
    ]);
  });

  test("of an earlier root win over those of a later one", async () => {
    const first = await createFolder({ "a/SKILL.md": describeSkill("a") });
    const second = await createFolder({ "a/SKILL.md": describeSkill("a").replace("Does", "Undoes") });

    const { skills, problems } = await load(first, second);

    expect(skills.map(({ description }) => description)).toEqual(["Does a."]);
    expect(problems).toEqual([expect.objectContaining({ rule: "duplicate" })]);
  });

  test("are found once through links, also through a link to a folder above", async () => {
    const folder = await createFolder({ "shared/a/SKILL.md": describeSkill("a"), "client/keep": "" });
    await symlink(join(folder, "shared/a"), join(folder, "client/a"));
    await symlink(folder, join(folder, "client/loop"));

    expect((await load(folder)).skills.map(({ name }) => name)).toEqual(["a"]);
    expect((await load(join(folder, "client"))).skills.map(({ name }) => name)).toEqual(["a"]);
  });
});

describe("the contents of a skill", () => {
  test("have a digest that changes with a name and with a content", async () => {
    const folder = await createFolder({ "a/SKILL.md": describeSkill("a"), "a/scripts/run.sh": "echo 1" });
    const skill = await loadOne(folder);
    const { files, digest } = await readSkillContents(skill);

    await writeFile(join(folder, "a/scripts/run.sh"), "echo 2");
    const changed = await readSkillContents(skill);
    await rm(join(folder, "a/scripts/run.sh"));
    await writeFile(join(folder, "a/scripts/ran.sh"), "echo 1");
    const renamed = await readSkillContents(skill);

    expect(files).toEqual(["SKILL.md", "scripts/run.sh"]);
    expect(new Set([digest, changed.digest, renamed.digest]).size).toBe(3);
  });

  test("leave out links, which could lead out of the folder", async () => {
    const folder = await createFolder({ "a/SKILL.md": describeSkill("a"), secret: "password" });
    await symlink(join(folder, "secret"), join(folder, "a/secret"));

    const { files, problems } = await readSkillContents(await loadOne(folder));

    expect(files).toEqual(["SKILL.md"]);
    expect(problems).toEqual([expect.objectContaining({ rule: "link" })]);
  });

  test("have no digest when there are more files than a skill may have", async () => {
    const many = Object.fromEntries(Array.from({ length: 520 }, (_, at) => [`a/${at}.txt`, ""]));
    const folder = await createFolder({ "a/SKILL.md": describeSkill("a"), ...many });

    const { digest, problems } = await readSkillContents(await loadOne(folder));

    expect(digest).toBeUndefined();
    expect(problems).toContainEqual(expect.objectContaining({ rule: "size", level: "error" }));
  });

  test("name links to files that are missing or outside, with their lines", async () => {
    const body = "\n[a](a.md) [there](docs/b.md)\n[out](../c.md) [web](https://example.com) [top](#top)\n";
    const folder = await createFolder({ "a/SKILL.md": describeSkill("a") + body, "a/docs/b.md": "" });

    const { problems } = await readSkillContents(await loadOne(folder));

    expect(problems.map(({ rule, line, message }) => [rule, line, message])).toEqual([
      ["file-link", 7, '"a.md" does not exist'],
      ["file-link", 8, '"../c.md" is outside of the skill\'s folder'],
    ]);
  });
});

/** Folders as their authors published them. They are beside a checkout, not in it. */
const published = resolve(import.meta.dirname, "../../../../shared/skills");

describe.skipIf(!existsSync(published))("published skills", () => {
  test("all load", async () => {
    const sources = readdirSync(published).filter((name) => name !== "README.md");
    const expected = sources.flatMap((source) => readdirSync(join(published, source)));

    const { skills, problems } = await load(published);

    expect(skills).toHaveLength(expected.length);
    expect(problems.filter(({ level }) => level === "error")).toEqual([]);
  });
});
