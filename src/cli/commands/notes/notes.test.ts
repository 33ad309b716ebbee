import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import type { NoteEntry } from "../../../infospace/note-list.ts";
import type { Notes } from "../../../infospace/notes.ts";
import { openWorkspace } from "../../../workspace/workspace.ts";
import { cleanUp, createTestFolder, qm } from "../../testing.ts";

afterEach(cleanUp);

/** Makes notes in the workspace of a folder. */
async function inNotes<T>(cwd: string, work: (notes: Notes) => Promise<T>): Promise<T> {
  const { quartermaster, close } = await openWorkspace({ cwd, env: {}, purpose: "calls" });
  return work(quartermaster.notes).finally(close);
}

const notes = (cwd: string, argv: readonly string[], io: Parameters<typeof qm>[2] = {}) =>
  qm(cwd, ["notes", ...argv], io);

const members = (count: number) => Array.from({ length: count }, (_, at) => ({ content: { at, what: "row" } }));

async function filled(): Promise<{ cwd: string; text: NoteEntry; saved: NoteEntry; many: NoteEntry }> {
  const cwd = await createTestFolder();
  return inNotes(cwd, async (all) => {
    const text = await all.write("tea\u001B[2J\nand milk\n", { name: "drinks" }, { session: "s1" });
    const saved = await all.write({ items: [{ id: 7 }] }, {}, { session: "s2", user: { id: "eve" }, tenant: "acme" });
    await all.save(saved.handle, { reach: "tenant" });
    const many = await all.collect(members(30), { name: "rows" }, { session: "s1" });
    return { cwd, text, saved, many };
  });
}

const typing = (text: string) => Object.assign(typed(text), { isTTY: true });
async function* typed(text: string): AsyncGenerator<string> {
  yield text;
}

describe("without notes", () => {
  test.each([
    [["list"], 0, "There are no notes."],
    [["list", "--session", "x"], 0, "No note matches."],
    [["search", "tea"], 0, "No match in 0 notes."],
    [["search", "tea", "--session", "x"], 0, "`qm notes list` shows"],
    [["show", "note__1"], 4, ""],
    [["show", "nonsense"], 4, ""],
    [["search", "tea", "--within", "collection__1"], 4, ""],
    [["export"], 0, '"kind":"end","notes":0,"collections":0}'],
    [["export", "note__1"], 4, ""],
    [["rm", "note__1"], 4, ""],
    [["rm", "--expired"], 0, "There was nothing to remove."],
    [["rm", "--all", "--session", "x"], 0, "There was nothing to remove."],
  ])("%j exits with %i, prints what to do, and creates no store", async (argv, code, out) => {
    const cwd = await createTestFolder();

    const ran = await notes(cwd, argv);

    expect(ran).toMatchObject({ code, out: expect.stringContaining(out) });
    if (code === 4) expect(ran.err).toContain("`qm notes list` shows the existing ones");
    expect(await readdir(cwd)).toEqual([]);
  });
});

describe("qm notes list", () => {
  test("shows notes and their reach, and filters them", async () => {
    const { cwd, text, saved, many } = await filled();
    const handles = async (...argv: string[]) =>
      (JSON.parse((await notes(cwd, ["list", "--json", ...argv])).out) as { items: NoteEntry[] }).items.map(
        ({ handle }) => handle,
      );

    const { out } = await notes(cwd, ["list"]);

    expect(out).toMatch(/^collection__1 +rows +30 notes, \d+ bytes +library +\d+s +23h +session s1$/m);
    expect(out).toMatch(/^note__2 +json, \d+ bytes +library +\d+s +saved +tenant acme$/m);
    expect(await handles("--session", "s1")).toEqual([many.handle, text.handle]);
    expect(await handles("--user", "eve")).toEqual([saved.handle]);
    expect(await handles("--kind", "note", "--unsaved")).toEqual([text.handle]);
    expect(await handles("--saved")).toEqual([saved.handle]);
    expect(await handles("--name", "rows")).toEqual([many.handle]);
    expect(await handles("--parts")).toHaveLength(33);
    const first = await notes(cwd, ["list", "--limit", "2"]);
    const place = /--before (\S+) shows/.exec(first.out)?.[1] ?? "";
    expect(await handles("--before", place)).toEqual([text.handle]);
    expect(await notes(cwd, ["list", "--saved", "--unsaved"])).toMatchObject({ code: 2 });
    expect(await notes(cwd, ["list", "--before", "nonsense"])).toMatchObject({ code: 2 });
    expect(await notes(cwd, ["list", "--kind", "thing"])).toMatchObject({ code: 2 });
  });
});

describe("qm notes show", () => {
  test("prints text unchanged to a pipe, and escaped to a terminal", async () => {
    const { cwd, text } = await filled();

    const piped = await notes(cwd, ["show", text.handle]);
    const shown = await notes(cwd, ["show", text.handle], { columns: 80 });

    expect(piped.out).toBe("tea\u001B[2J\nand milk\n");
    expect(piped.err).toContain('note__1 "drinks" · text, ');
    expect(shown.out).toBe("tea\\u{1b}[2J\nand milk\n");
  });

  test("shows a part of the content", async () => {
    const { cwd, text, saved, many } = await filled();
    const out = async (...argv: string[]) => (await notes(cwd, ["show", ...argv])).out;

    expect(await out(text.handle, "--from", "8", "--to", "11")).toBe("and");
    expect(await out(saved.handle, "--path", "items[0].id")).toBe("7\n");
    expect(await out(many.handle, "--from", "28")).toBe('{"at":28,"what":"row"}\n{"at":29,"what":"row"}\n');
    expect(await out(many.handle, "--path", "[3].at")).toBe("3\n");
    expect((await out(many.handle)).split("\n")).toHaveLength(31);
    expect(JSON.parse(await out(many.handle, "--from", "29", "--json"))).toMatchObject({
      handle: many.handle,
      items: [{ position: 29, content: { at: 29 } }],
    });
    const screen = await notes(cwd, ["show", many.handle], { columns: 80 });
    expect(screen.out.split("\n")).toHaveLength(21);
    expect(screen.err).toContain("Give --from 20 for the next notes");
    expect(await notes(cwd, ["show", saved.handle, "--path", "none"])).toMatchObject({ code: 4 });
    expect(await notes(cwd, ["show", saved.handle, "--path", "a..b"])).toMatchObject({ code: 2 });
  });

  test("shows the history and an earlier version", async () => {
    const { cwd, text } = await filled();
    await inNotes(cwd, (all) => all.write("coffee", { name: "drinks" }, { session: "s1" }));

    expect((await notes(cwd, ["show", text.handle, "--history"])).out).toMatch(/^2 \(now\) +\S+ +text, 8 bytes/m);
    expect((await notes(cwd, ["show", text.handle])).out).toBe("coffee");
    expect((await notes(cwd, ["show", text.handle, "--at", "1"])).out).toContain("and milk");
    expect(await notes(cwd, ["show", text.handle, "--at", "3"])).toMatchObject({ code: 4 });
  });

  test("shows the versions of a collection", async () => {
    const { cwd, many } = await filled();
    await inNotes(cwd, (all) => all.collect(members(2), { name: "rows" }, { session: "s1" }));

    expect((await notes(cwd, ["show", many.handle, "--history"])).out).toMatch(/^1 +30 notes, \d+ bytes/m);
    const was = await notes(cwd, ["show", many.handle, "--at", "1", "--from", "29"]);
    expect(was).toMatchObject({ code: 0, out: '{"at":29,"what":"row"}\n' });
    expect(was.err).toMatch(/30 notes, \d+ bytes · version 1 ·/);
    expect(JSON.parse((await notes(cwd, ["show", many.handle, "--at", "1", "--json"])).out)).toMatchObject({
      version: 1,
      count: 30,
    });
    expect(await notes(cwd, ["show", many.handle, "--at", "3"])).toMatchObject({
      code: 4,
      err: expect.stringContaining("--history` lists its versions"),
    });
  });

  test("refuses a range that ends before it begins", async () => {
    const { cwd, text, many } = await filled();

    for (const { handle } of [text, many])
      expect(await notes(cwd, ["show", handle, "--from", "5", "--to", "2"])).toMatchObject({
        code: 2,
        err: expect.stringContaining("the slice ends at 2, before it begins at 5"),
      });
  });

  test("writes the content to a file, and the bytes of a file note", async () => {
    const { cwd, many } = await filled();
    const bytes = Buffer.from([0, 255, 10]);
    const { handle } = await inNotes(cwd, (all) => all.writeFile({ bytes, mediaType: "image/gif" }));

    expect(await notes(cwd, ["show", handle, "-o", "pic.gif"])).toMatchObject({ code: 0, out: "" });
    expect(await notes(cwd, ["show", many.handle, "--to", "2", "-o", "rows.jsonl"])).toMatchObject({ code: 0 });

    expect(await readFile(join(cwd, "pic.gif"))).toEqual(bytes);
    expect(await readFile(join(cwd, "rows.jsonl"), "utf8")).toBe('{"at":0,"what":"row"}\n{"at":1,"what":"row"}\n');
    const screen = await notes(cwd, ["show", handle], { columns: 80 });
    expect(JSON.parse(screen.out)).toEqual({ media_type: "image/gif", size: 3 });
    expect(await notes(cwd, ["show", handle, "-o", "pic.gif"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("pic.gif already exists"),
    });
    expect(await notes(cwd, ["show", handle, "-o", "no/where"])).toMatchObject({ code: 2 });
  });
});

test("qm notes search finds the notes of all callers, or those of one", async () => {
  const { cwd, text, many } = await filled();
  const found = async (...argv: string[]) =>
    (JSON.parse((await notes(cwd, ["search", "--json", ...argv])).out) as { hits: { resource: NoteEntry }[] }).hits.map(
      ({ resource }) => resource.handle,
    );

  expect(await found("milk")).toEqual([text.handle]);
  expect(await found("milk", "--session", "s1")).toEqual([text.handle]);
  expect(await found("milk", "--session", "s2")).toEqual([]);
  expect(await found("rows", "--kind", "collection")).toEqual([many.handle]);
  expect(await found("17", "--within", many.handle)).toHaveLength(1);
  const { out } = await notes(cwd, ["search", "milk"], { columns: 80 });
  expect(out).toContain("tea\\u{1b}[2J and milk");
  expect((await notes(cwd, ["search", "zebra"])).out).toContain("No note has: zebra.");
  expect((await notes(cwd, ["search", "row", "--limit", "2"])).out).toContain("There are more");
  expect((await notes(cwd, ["search", "milk", "--type", "semantic"])).err).toContain("Searched by words only");
});

describe("qm notes export and import", () => {
  test("move notes from one workspace to another", async () => {
    const { cwd, many } = await filled();
    const other = await createTestFolder();

    const wrote = await notes(cwd, ["export", "--output", "all.jsonl"]);
    const lines = await readFile(join(cwd, "all.jsonl"), "utf8");
    const took = await notes(other, ["import", "-", "--session", "s9", "--json"], { stdin: typed(lines) });

    expect(wrote).toMatchObject({ code: 0, out: "Exported 32 notes and 1 collection to all.jsonl.\n" });
    expect((await notes(cwd, ["export"])).out.split("\n").slice(1)).toEqual(lines.split("\n").slice(1));
    expect(JSON.parse(took.out)).toMatchObject({
      notes: 32,
      collections: 1,
      versions: 0,
      renewed: 0,
      handles: ["note__1", "note__2", "collection__1"],
    });
    const out = (await notes(other, ["list", "--session", "s9"])).out;
    expect(out).toMatch(/^collection__1 +rows +30 notes/m);
    expect(out).toMatch(/^note__1 +drinks/m);
    const some = (await notes(cwd, ["export", many.handle])).out.trimEnd().split("\n");
    expect(some).toHaveLength(1 + 1 + 30 + 1);
    expect((await notes(cwd, ["export", "--session", "s2"])).err).toBe("Exported 1 note and 0 collections.\n");
    expect((await notes(cwd, ["export", "--session", "s1"], { columns: 80 })).out).not.toContain("\u001B");
  });

  test("print the new owner, or that the actor is unknown", async () => {
    const { cwd } = await filled();
    const lines = (await notes(cwd, ["export"])).out;
    const importing = (...argv: string[]) => notes(cwd, ["import", "-", ...argv], { stdin: typed(lines) });

    expect(await importing("--session", "s9", "--user", "eve", "--tenant", "acme")).toMatchObject({
      code: 0,
      out:
        "Imported 32 notes and 1 collection, for actor default in session s9, of eve at acme.\n" +
        "New handles: note__33, note__34, collection__2. `qm notes list` shows all.\n",
    });
    expect(await importing("--actor", "nobody")).toMatchObject({
      code: 2,
      err: expect.stringContaining('no actor "nobody" is configured'),
    });
    expect(JSON.parse((await notes(cwd, ["list", "--json"])).out).items).toHaveLength(6);
  });

  test("leave no partial file, and replace one only with --force", async () => {
    const { cwd } = await filled();
    await writeFile(join(cwd, "x.jsonl"), "before");

    expect(await notes(cwd, ["export", "-o", "x.jsonl"])).toMatchObject({ code: 2 });
    const stopped = { signal: AbortSignal.abort() };
    expect(await notes(cwd, ["export", "-o", "x.jsonl", "--force"], stopped)).toMatchObject({ code: 130 });
    expect(await notes(cwd, ["export", "-o", "y.jsonl"], stopped)).toMatchObject({ code: 130 });
    expect(await readFile(join(cwd, "x.jsonl"), "utf8")).toBe("before");
    expect((await readdir(cwd)).sort()).toEqual([".quartermaster", "x.jsonl"]);
    expect(await notes(cwd, ["export", "-o", "x.jsonl", "--force", "--json"])).toMatchObject({ code: 0 });
    expect(await readFile(join(cwd, "x.jsonl"), "utf8")).toContain('"kind":"end"');
  });

  test("name the wrong line, and import nothing", async () => {
    const { cwd } = await filled();
    const lines = (await notes(cwd, ["export"])).out.replace("and milk", "and water");
    const other = await createTestFolder({ "bad.jsonl": lines });

    const ran = await notes(other, ["import", "bad.jsonl"]);

    expect(ran).toMatchObject({
      code: 2,
      err: expect.stringContaining("line 2: its content does not match its hash"),
    });
    expect(ran.err).toContain("Nothing was imported.");
    expect((await notes(other, ["list"])).out).toContain("There are no notes.");
    expect(await notes(other, ["import", "none.jsonl"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("none.jsonl cannot be read"),
    });
  });
});

test("qm notes save saves a note with a name and a reach", async () => {
  const { cwd, text, many } = await filled();

  expect(await notes(cwd, ["save", text.handle])).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^Saved note__1 "drinks" \(text, \d+ bytes\) for session s1\.\n$/),
  });
  const saved = await notes(cwd, ["save", many.handle, "--name", "all rows", "--reach", "actor", "--json"]);
  expect(JSON.parse(saved.out)).toMatchObject({ handle: many.handle, name: "all rows", reach: "actor" });
  expect((await notes(cwd, ["list", "--unsaved"])).out).toContain("No note matches.");
  expect(await notes(cwd, ["save", text.handle, "--reach", "world"])).toMatchObject({ code: 2 });
  expect(await notes(cwd, ["save", "note__99"])).toMatchObject({ code: 4 });
});

describe("qm notes rm", () => {
  const left = async (cwd: string) =>
    (JSON.parse((await notes(cwd, ["list", "--json"])).out) as { items: NoteEntry[] }).items.map(
      ({ handle }) => handle,
    );

  test("asks before it removes several notes, a collection or a saved note", async () => {
    const { cwd, text, saved, many } = await filled();

    for (const argv of [[saved.handle], [many.handle], [text.handle, saved.handle], ["--all"]])
      expect(await notes(cwd, ["rm", ...argv])).toMatchObject({ code: 3 });
    const no = await notes(cwd, ["rm", "--all"], { stdin: typing("n\n") });
    expect(no).toMatchObject({ code: 3 });
    expect(no.err).toContain("Remove 2 notes and 1 collection with its notes (1 saved)? [y/N]");
    expect(await left(cwd)).toHaveLength(3);
    expect((await notes(cwd, ["remove", "--all"])).err).toContain(
      "nobody agreed to remove 2 notes and 1 collection with its notes (1 saved)",
    );
    expect(await notes(cwd, ["rm", many.handle], { stdin: typing("y\n") })).toMatchObject({
      code: 0,
      out: expect.stringContaining("Removed 30 notes and 1 collection."),
    });
    expect(await notes(cwd, ["rm", text.handle])).toMatchObject({
      code: 0,
      out: "Removed 1 note and 0 collections.\n",
    });
    expect(await left(cwd)).toEqual([saved.handle]);
  });

  test("removes only the selected notes", async () => {
    const { cwd, saved } = await filled();

    expect(JSON.parse((await notes(cwd, ["rm", "--all", "--session", "s1", "--yes", "--json"])).out)).toEqual({
      removed: { notes: 31, collections: 1 },
    });
    expect(await left(cwd)).toEqual([saved.handle]);
    expect(await notes(cwd, ["rm", "--session", "s2"])).toMatchObject({ code: 2 });
    expect(await notes(cwd, ["rm", saved.handle, "--all"])).toMatchObject({ code: 2 });
    expect(await notes(cwd, ["rm", saved.handle, "note__99", "--yes"])).toMatchObject({ code: 4 });
    expect(await left(cwd)).toEqual([saved.handle]);
  });
});
