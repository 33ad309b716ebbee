import assert from "node:assert/strict";
import { type NewDocument, type RagSource, type RagStore, SOURCE_LIMIT } from "../../src/providers/rag/rag-store.ts";
import { migrate } from "../../src/store/migrations.ts";
import { createSqlRagStore } from "../../src/store/rag.ts";
import type { SqlDriver } from "../../src/store/sql.ts";
import { defineCases } from "./store-cases.ts";

const AT = new Date(Date.UTC(2026, 0, 2, 3, 4));

async function openRag(db: SqlDriver) {
  await migrate(db);
  return createSqlRagStore(db, () => AT);
}

function newDocument(path: string, ...texts: readonly string[]): NewDocument {
  const read = { action: "file__read", args: { path } };
  const chunks = texts.map((text, at) => ({
    heading: `H${at}`,
    text,
    lines: [at + 1, at + 2] as const,
    offset: [at * 10, at * 10 + text.length] as const,
  }));
  return { document: path, title: `T ${path}`, hash: texts.join(" "), characters: texts.join("").length, read, chunks };
}

const newSource = (name: string, owner: RagSource["owner"] = { tenant: "t" }) => ({
  name,
  description: "",
  owner,
  madeFrom: { actions: ["file__read"], maker: { actor: "ann" } },
  contents: { files: ["*.md"] },
});

const add = (store: RagStore, name: string, put: readonly NewDocument[], owner?: RagSource["owner"]) =>
  store.save({ source: newSource(name, owner), put, removed: [] });

const listTexts = async (store: RagStore, source: RagSource) => {
  const ids = (await store.chunkMarks([source.id])).map(({ id }) => id);
  return (await store.chunks(ids)).map(({ document, text }) => `${document} ${text}`).sort();
};

export const ragStoreCases = defineCases(openRag, {
  "returns sources, documents and chunks as they were written": async (store) => {
    const nasty = "'); drop table rag_chunks; -- 🦑\r\n\tend";
    const saved = await add(store, "docs", [newDocument("a.md", nasty, "two"), newDocument("b.md")]);

    assert.deepEqual(await store.list("t"), [saved]);
    const characters = nasty.length + 3;
    assert.deepEqual(
      [saved.documents, saved.chunks, saved.characters, saved.version, saved.indexedAt],
      [2, 2, characters, 1, AT.toISOString()],
    );
    assert.deepEqual([saved.contents, saved.madeFrom], [newSource("docs").contents, newSource("docs").madeFrom]);
    const [first, second] = await store.documents([saved.id]);
    assert.deepEqual(
      [first?.document, first?.read, first?.sourceId, first?.characters, first?.chunks],
      ["a.md", { action: "file__read", args: { path: "a.md" } }, saved.id, characters, 2],
    );
    assert.deepEqual([second?.document, second?.chunks], ["b.md", 0]);
    const [chunk] = await store.chunks((await store.chunkMarks([saved.id])).map(({ id }) => id));
    const { id: _id, mark: _mark, ...facts } = chunk ?? { id: 0, mark: "" };
    assert.deepEqual(facts, {
      sourceId: saved.id,
      documentId: first?.id,
      document: "a.md",
      title: "T a.md",
      heading: "H0",
      text: nasty,
      lines: [1, 2],
      offset: [0, nasty.length],
    });
  },
  "replaces some documents of a source at once": async (store) => {
    const former = await add(
      store,
      "docs",
      ["a", "b", "c"].map((name) => newDocument(name, `${name} one`)),
    );
    const known = new Map((await store.documents([former.id])).map(({ document, id }) => [document, id]));
    const before = await store.mark([former.id]);
    const kept = (await store.chunkMarks([former.id])).find(({ documentId }) => documentId === known.get("c"));

    const removed = ["a", "b"].map((name) => known.get(name) ?? 0);
    const put = [newDocument("a", "a two", "a three")];
    const saved = await store.save({ former, source: newSource("docs"), put, removed });

    assert.deepEqual([saved.version, saved.documents, saved.chunks], [2, 2, 3]);
    assert.deepEqual(await listTexts(store, saved), ["a a three", "a a two", "c c one"]);
    assert.notEqual(await store.mark([former.id]), before);
    const marks = await store.chunkMarks([former.id]);
    assert.deepEqual(
      marks.find(({ id }) => id === kept?.id),
      kept,
    );
  },
  "refuses to replace a source that has changed since, and leaves it": async (store) => {
    const former = await add(store, "docs", [newDocument("a", "one")]);
    await store.save({ former, source: newSource("docs"), put: [newDocument("b", "two")], removed: [] });

    const late = { former, source: newSource("docs"), put: [newDocument("c", "three")], removed: [] };

    await assert.rejects(store.save(late), { code: "conflict" });
    await assert.rejects(add(store, "docs", [newDocument("d", "four")]), { code: "conflict" });
    assert.deepEqual(await listTexts(store, former), ["a one", "b two"]);
    await store.drop(former.id);
    await assert.rejects(store.save(late), { code: "conflict" });
    assert.deepEqual(await store.list("t"), []);
  },
  "keeps tenants and owners apart": async (store) => {
    const owners = [{ tenant: "t" }, { tenant: "" }, { tenant: "t", user: "u", actor: "ann" }];
    for (const owner of owners) await add(store, "docs", [newDocument("a", JSON.stringify(owner))], owner);

    assert.deepEqual(
      (await store.list("t")).map(({ owner }) => owner),
      [owners[0], owners[2]],
    );
    assert.equal((await store.list("")).length, 1);
    assert.deepEqual(await store.list("other"), []);
  },
  "limits the sources of a tenant, not those of another": async (store) => {
    for (let index = 0; index < SOURCE_LIMIT; index++) await add(store, `s${index}`, []);

    await assert.rejects(add(store, "more", []), { code: "quota_exceeded" });

    const [former] = await store.list("t");
    assert.equal((await store.save({ former, source: newSource("s0"), put: [], removed: [] })).version, 2);
    assert.equal((await add(store, "more", [], { tenant: "other" })).version, 1);
  },
  "drops a source with everything in it, and no other": async (store) => {
    const one = await add(store, "one", [newDocument("a", "text")]);
    const other = await add(store, "other", [newDocument("a", "text")]);

    await store.drop(one.id);

    assert.deepEqual(await store.list("t"), [other]);
    assert.deepEqual(await store.documents([one.id]), []);
    assert.deepEqual(await store.chunkMarks([one.id]), []);
    assert.deepEqual(await listTexts(store, other), ["a text"]);
  },
  "writes many chunks, and reads none for no ids": async (store) => {
    const texts = Array.from({ length: 1_234 }, (_, index) => `text ${index}`);
    const saved = await add(store, "docs", [newDocument("a", ...texts)]);

    assert.equal(saved.chunks, 1_234);
    assert.equal((await listTexts(store, saved)).length, 1_234);
    assert.deepEqual(await store.chunks([]), []);
  },
});
