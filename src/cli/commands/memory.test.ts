import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { cleanUp, createTestFolder, qm } from "../testing.ts";

afterAll(cleanUp);

const CONFIG = "providers: { memory: { enabled: true } }\nactors: { ann: { tools: ['*'] }, bob: { tools: ['*'] } }\n";
const FILES = {
  "in/tea.md": "---\nname: Tea\ndescription: How Ann drinks tea.\ntype: user\n---\n\nGreen.\n\n---\nNo sugar.\n",
  "in/own.md":
    "---\nname: own\ndescription: 'A colon: here'\nmetadata:\n  type: feedback\nlayer: agent\n---\nShort answers.\n",
  "in/bad.md": "---\nname: Bad\ndescription: A bad type.\ntype: secret\n---\nx\n",
  "in/MEMORY.md": "# Memory\n",
};

async function createMemoryFolder(): Promise<string> {
  const folder = await createTestFolder({ "quartermaster.yaml": CONFIG });
  await mkdir(join(folder, "in"));
  for (const [name, content] of Object.entries(FILES)) await writeFile(join(folder, name), content);
  return folder;
}

describe("qm memory", () => {
  test("imports the good files of a folder and names the bad ones with their lines", async () => {
    const folder = await createMemoryFolder();
    await symlink("nowhere", join(folder, "in/gone.md"));
    await mkdir(join(folder, "in/folder.md"));
    await writeFile(join(folder, "in/long.md"), `---\nname: ${"x".repeat(20_000)}\n---\n`);

    const { out, code } = await qm(folder, ["memory", "import", "in", "--actor", "ann"]);

    expect(out).toContain("bad.md:4: type: give one of user, feedback, project, reference");
    expect(out).toContain("gone.md:1: ENOENT");
    expect(out).toContain("folder.md:1: not a file of at most");
    expect(out).toContain("long.md:1: the front matter is too long");
    expect(out).toContain("2 created, 0 replaced, 0 unchanged, 4 refused");
    expect(code).toBe(1);
    const listed = JSON.parse((await qm(folder, ["memory", "list", "--actor", "bob", "--json"])).out);
    expect(listed.memories).toMatchObject([{ layer: "shared", slug: "tea" }]);
  });

  test("exports what an import brings back unchanged", async () => {
    const folder = await createMemoryFolder();
    await qm(folder, ["memory", "import", "in", "--actor", "ann"]);

    expect((await qm(folder, ["memory", "export", "out", "--actor", "ann"])).code).toBe(0);

    expect(await readFile(join(folder, "out/MEMORY.md"), "utf8")).toBe(
      "# Memory\n\n- [own](agent.own.md): A colon: here\n- [Tea](tea.md): How Ann drinks tea.\n",
    );
    const again = await qm(folder, ["memory", "import", "out", "--actor", "ann", "--json"]);
    expect(JSON.parse(again.out)).toEqual({ created: 0, replaced: 0, unchanged: 2, refused: [] });
    // Editors end a file with a line break.
    await writeFile(join(folder, "in/own.md"), FILES["in/own.md"].trimEnd());
    expect((await qm(folder, ["memory", "import", "in", "--actor", "ann"])).out).toContain("0 replaced, 2 unchanged");
  });

  test("shows, searches, forgets and lists the versions of a memory", async () => {
    const folder = await createMemoryFolder();
    await qm(folder, ["memory", "import", "in", "--actor", "ann"]);
    await writeFile(join(folder, "in/tea.md"), FILES["in/tea.md"].replace("Green", "Black"));
    await qm(folder, ["memory", "import", "in", "--actor", "ann"]);

    expect((await qm(folder, ["memory", "show", "tea"])).out).toContain("Black.");
    expect((await qm(folder, ["memory", "list", "--query", "sugar"])).out).toContain("tea");
    expect((await qm(folder, ["list", "memory_entry"])).out).toContain("see `qm memory list`");
    expect((await qm(folder, ["describe", "memory_entry__tea"])).err).toContain("`qm memory list` shows");
    expect((await qm(folder, ["memory", "forget", "tea"])).code).toBe(0);
    expect((await qm(folder, ["memory", "show", "tea"])).code).toBe(4);
    const { total, versions } = JSON.parse((await qm(folder, ["memory", "history", "tea", "--json"])).out);
    expect(total).toBe(2);
    expect(versions).toMatchObject([{ ended: { how: "forgotten" } }, { ended: { how: "replaced", by: "ann" } }]);
  });

  test("names a next step that works at the command line", async () => {
    const folder = await createMemoryFolder();
    await qm(folder, ["memory", "import", "in", "--actor", "ann"]);
    const show = async (...args: string[]) => (await qm(folder, ["memory", ...args, "--actor", "ann"])).err;

    expect(await show("show", "milk")).toContain("The command is `qm memory list`.");
    expect(await show("show", "own")).toContain("`qm memory show own --layer agent` shows it.");
    expect(await show("show", "agent.own")).toMatch(/\n {4}`qm memory list` shows the slugs and layers\.\n$/);
    const invoked = await qm(folder, ["invoke", "memory_entry__milk"]);
    expect(invoked.err).toContain("    `qm memory list` shows the names.");
    expect((await qm(folder, ["preflight", "memory_entry__tea"])).out).toContain("check with `qm memory list`");
  });

  test("says why a list is empty", async () => {
    const folder = await createMemoryFolder();
    expect((await qm(folder, ["memory", "list"])).out).toBe("No memories.\n");
    await qm(folder, ["memory", "import", "in"]);

    expect((await qm(folder, ["memory", "list", "--query", "zebra"])).out).toBe("No memory matches.\n");
    expect((await qm(folder, ["memory", "list", "--offset", "5"])).out).toBe(
      "There are only 2; start again at --offset 0.\n",
    );
  });

  test("explains what it cannot import from", async () => {
    const folder = await createMemoryFolder();

    expect((await qm(folder, ["memory", "import", "gone"])).err).toContain("qm: gone does not exist\n");
    expect((await qm(folder, ["memory", "import", "in/tea.md"])).err).toContain("qm: in/tea.md is not a folder\n");
  });

  test("says how to enable memory", async () => {
    const folder = await createTestFolder({ "quartermaster.yaml": "providers: { memory: { enabled: false } }\n" });

    const { err, code } = await qm(folder, ["memory", "list"]);

    expect(err).toContain("providers.memory.enabled: true");
    expect(code).toBe(2);
  });
});
