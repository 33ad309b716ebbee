import { once } from "node:events";
import { afterEach, describe, expect, test, vi } from "vitest";
import { cleanUp, createTestFolder, start } from "../src/cli/testing.ts";
import type { NoteEntry, Notes } from "../src/index.ts";
import { openWorkspace } from "../src/index.ts";

afterEach(cleanUp);

async function inNotes<T>(cwd: string, work: (notes: Notes) => Promise<T>): Promise<T> {
  const { quartermaster, close } = await openWorkspace({ cwd, env: {}, purpose: "calls" });
  return work(quartermaster.notes).finally(close);
}

const listNotes = async (cwd: string, query = {}): Promise<readonly NoteEntry[]> =>
  (await inNotes(cwd, (notes) => notes.list({ ...query, limit: 1_000 }))).items;

/** Starts `qm notes` as a separate process and leaves its input open. */
function startNotes(cwd: string, argv: readonly string[]) {
  const { child, ended } = start(cwd, ["notes", ...argv]);
  if (child.stdin === null || child.stdout === null) throw new Error("it has no pipes");
  return { child, ended, stdin: child.stdin, stdout: child.stdout };
}

/** An export without its end: saved notes, more than one batch of writes. */
function* createUnfinishedExport(): Generator<string> {
  yield '{"quartermaster":"notes","version":1}\n';
  for (let at = 0; at < 700; at++)
    yield `${JSON.stringify({ kind: "note", id: `note__${at + 1}`, content: { at } })}\n`;
}

describe("qm notes as a process", () => {
  test("exports through a pipe into an import", { timeout: 60_000 }, async () => {
    const [from, to] = [await createTestFolder(), await createTestFolder()];
    const text = "Grüße\u0000\u2028 \u{1F375}\n";
    await inNotes(from, async (notes) => {
      await notes.write(text, { name: "greeting" }, { session: "s1" });
      const rows = Array.from({ length: 1_500 }, (_, at) => ({ content: { at, text: "x".repeat(200) } }));
      const { handle } = await notes.collect(rows, { name: "rows" }, { session: "s1" });
      await notes.save(handle);
    });

    const [exporting, importing] = [startNotes(from, ["export"]), startNotes(to, ["import", "-", "--session", "s1"])];
    exporting.stdout.pipe(importing.stdin);

    expect(await exporting.ended).toMatchObject({ code: 0, err: "Exported 1501 notes and 1 collection.\n" });
    expect(await importing.ended).toMatchObject({
      code: 0,
      out: expect.stringContaining("1501 notes and 1 collection"),
    });
    expect(await listNotes(to)).toMatchObject([
      { kind: "note", name: "greeting", expiresAt: expect.any(String) },
      { kind: "collection", count: 1_500, complete: true, name: "rows" },
    ]);
    expect((await startNotes(to, ["show", "note__1"]).ended).out).toBe(text);
    const shown = await startNotes(to, ["show", "collection__1", "--from", "1499", "--path", "[0].at"]).ended;
    expect(shown).toMatchObject({ code: 2, err: expect.stringContaining("from and to need a list or a text") });
  });

  test("leaves only expiring notes when it is killed during an import", { timeout: 60_000 }, async () => {
    const cwd = await createTestFolder();
    await inNotes(cwd, (notes) => notes.write("before"));
    const { child, stdin } = startNotes(cwd, ["import", "-"]);
    for (const line of createUnfinishedExport()) stdin.write(line);
    await vi.waitFor(async () => expect((await listNotes(cwd)).length).toBeGreaterThan(1), 30_000);

    child.kill("SIGKILL");
    await once(child, "close");

    expect((await listNotes(cwd)).length).toBeGreaterThan(1);
    expect(await listNotes(cwd, { saved: true })).toEqual([]);
  });

  test("rolls back an import when it is interrupted", { timeout: 60_000 }, async () => {
    const cwd = await createTestFolder();
    await inNotes(cwd, (notes) => notes.write("before"));
    const { child, stdin, ended } = startNotes(cwd, ["import", "-"]);
    for (const line of createUnfinishedExport()) stdin.write(line);
    await vi.waitFor(async () => expect((await listNotes(cwd)).length).toBeGreaterThan(1), 30_000);

    child.kill("SIGINT");

    expect(await ended).toMatchObject({ code: 130 });
    expect(await listNotes(cwd)).toMatchObject([{ handle: "note__1" }]);
  });

  test("exits with 0 when the reader closes the pipe early", { timeout: 60_000 }, async () => {
    const cwd = await createTestFolder();
    await inNotes(cwd, async (notes) => {
      for (let at = 0; at < 40; at++) await notes.write("x".repeat(50_000));
    });
    const { ended, stdout } = startNotes(cwd, ["export"]);

    stdout.once("data", () => stdout.destroy());

    expect((await ended).code).toBe(0);
  });
});
