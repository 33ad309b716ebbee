import { afterEach, describe, expect, test } from "vitest";
import { createGate, wordEmbedder, wordVector } from "../../search/semantic/testing.ts";
import type { NoteSearchResult } from "./note-search.ts";
import { ada, bob, openTestSearch } from "./testing.ts";

const closers: (() => Promise<void>)[] = [];
const opened = () => openTestSearch((close) => closers.unshift(close));

afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

const ids = ({ hits }: NoteSearchResult<{ readonly note: { readonly id: number } }>): readonly number[] =>
  hits.map(({ note }) => note.id);

/** Numbers in letters, because digits are words of their own. */
const spelt = (number: number): string =>
  String(number)
    .replace(/\d/g, (digit) => "bcdfghjklm"[Number(digit)] ?? "")
    .concat("z");

const many = Array.from({ length: 200 }, (_, at) => `Report on topic${spelt(at)} by author${spelt(at)}`);

/** One that takes a gizmo for an automobile. */
function knowingGizmos() {
  const embedder = wordEmbedder();
  const words = (text: string): string => text.replace(/\bgizmos?\b/gi, "automobile").replace(/\bnote\b/g, "");
  return {
    ...embedder,
    embed: async (texts: readonly string[], purpose: "query" | "document", signal: AbortSignal) => {
      await embedder.embed(texts, purpose, signal);
      return texts.map((text) => Float32Array.from(wordVector(words(text))));
    },
  };
}

describe("semantic search", () => {
  test("finds notes without the words, and reports the search type", async () => {
    const { addAll, searchWith } = await opened();
    const first = await addAll(ada, ["automobile", "bicycle pump", "garden chair"]);
    const search = searchWith({ embedder: knowingGizmos() });

    const semantic = await search.notes(ada, { query: "gizmo", type: "semantic", limit: 5 });
    const keyword = await search.notes(ada, { query: "gizmo", type: "keyword", limit: 5 });
    const usual = await search.notes(ada, { query: "gizmo pump", limit: 5 });

    expect(ids(semantic)).toEqual([first]);
    expect(semantic).toMatchObject({ effective: "semantic", limitReached: false, searched: 3 });
    expect(semantic.hits[0]).toMatchObject({ passage: "automobile" });
    expect(ids(keyword)).toEqual([]);
    expect(usual.effective).toBe("hybrid");
    expect([...ids(usual)].sort()).toEqual([first, first + 1]);
    expect(usual.hits.every(({ score }) => score > 0 && score <= 1)).toBe(true);
  });

  test("finds a passage deep in a note, and the note once", async () => {
    const { add, searchWith } = await opened();
    const filler = Array.from({ length: 900 }, (_, at) => `filler${at}`).join(" ");
    const long = await add(ada, `${filler}\n\n${"automobile ".repeat(80)}\n\n${"automobile ".repeat(80)}${filler}`);
    const search = searchWith({ embedder: knowingGizmos() });

    for (const type of ["semantic", "hybrid"] as const) {
      const found = await search.notes(ada, { query: "gizmo", type, limit: 5 });

      expect(ids(found)).toEqual([long]);
      expect(found.hits[0]?.passage).toContain("automobile");
    }
  });

  test("reports that the limit was reached", async () => {
    const { addAll, searchWith } = await opened();
    await addAll(ada, ["automobile", "automobile", "automobile"]);
    const search = searchWith({ embedder: knowingGizmos() });

    for (const type of ["semantic", "hybrid"] as const) {
      expect(await search.notes(ada, { query: "gizmo", type, limit: 2 })).toMatchObject({ limitReached: true });
      expect(await search.notes(ada, { query: "gizmo", type, limit: 3 })).toMatchObject({ limitReached: false });
    }
  });

  test("embeds equal texts of all callers once, also across restarts", async () => {
    const { addAll, searchWith } = await opened();
    await addAll(ada, ["automobile", "automobile", "chair"]);
    await addAll(bob, ["automobile"]);
    const embedder = wordEmbedder();

    await searchWith({ embedder }).notes(ada, { query: "chair", limit: 5 });
    expect(embedder.texts).toHaveLength(2);
    await searchWith({ embedder }).notes(bob, { query: "chair", limit: 5 });
    await searchWith({ embedder }).notes(ada, { query: "chair", limit: 5 });

    expect(embedder.texts).toHaveLength(2);
  });

  test("another caller's notes leave no trace", async () => {
    const alone = await opened();
    await alone.addAll(ada, ["automobile", "garden chair"]);
    const expected = await alone
      .searchWith({ embedder: knowingGizmos() })
      .notes(ada, { query: "gizmo chair", limit: 5 });

    const { addAll, searchWith } = await opened();
    await addAll(ada, ["automobile", "garden chair"]);
    await addAll(bob, ["gizmo chair", "automobile chair"]);
    const search = searchWith({ embedder: knowingGizmos() });
    await search.notes(bob, { query: "gizmo chair", limit: 5 });
    const found = await search.notes(ada, { query: "gizmo chair", limit: 5 });

    expect(found.hits.map(({ score, passage }) => [score, passage])).toEqual(
      expected.hits.map(({ score, passage }) => [score, passage]),
    );
    expect(found.searched).toBe(2);
  });

  test("follows edits, additions and removals, and embeds only new texts", async () => {
    const { addAll, add, edit, store, searchWith } = await opened();
    const first = await addAll(ada, ["automobile", "garden chair", "bicycle"]);
    const embedder = wordEmbedder();
    const search = searchWith({ embedder });
    const find = async (query: string) => ids(await search.notes(ada, { query, type: "semantic", limit: 1 }));
    expect(await find("garden chair")).toEqual([first + 1]);
    embedder.texts.length = 0;

    await edit(first + 1, "submarine");
    expect(await find("garden chair")).toEqual([]);
    expect(await find("submarine")).toEqual([first + 1]);
    const added = await add(ada, "tall ship");
    expect(await find("tall ship")).toEqual([added]);
    expect(embedder.texts).toHaveLength(2);

    await store.remove("note", added);
    expect(await find("tall ship")).toEqual([]);
    expect(embedder.texts).toHaveLength(2);
  });

  test("does not embed many passages in a search: it searches by words and names infospace__index", async () => {
    const { addAll, searchWith } = await opened();
    const first = await addAll(ada, many);
    const embedder = wordEmbedder();
    const search = searchWith({ embedder });

    const found = await search.notes(ada, { query: "topickz", type: "semantic", limit: 5 });

    expect(found).toMatchObject({ effective: "keyword" });
    expect(ids(found)).toEqual([first + 7]);
    expect(found.note).toBe("Searched by words only: passages have no vectors. infospace__index makes them.");
    expect(embedder.texts).toEqual([]);
  });

  test("searches by words if the embedder fails or hangs", async () => {
    const { addAll, searchWith } = await opened();
    const first = await addAll(ada, ["automobile", "chair"]);
    const failing = wordEmbedder("failing", () => Promise.reject(new Error("no more credit")));
    const search = searchWith({ embedder: failing });

    const found = await search.notes(ada, { query: "chair", limit: 5 });

    expect(ids(found)).toEqual([first + 1]);
    expect(found).toMatchObject({
      effective: "keyword",
      note: "Searched by words only: the vectors could not be made.",
    });
  });

  test("searches by words without an embedder, and says so if more was asked for", async () => {
    const { addAll, searchWith } = await opened();
    const first = await addAll(ada, ["automobile", "chair"]);
    const search = searchWith();

    const asked = await search.notes(ada, { query: "chair", type: "hybrid", limit: 5 });

    expect(ids(asked)).toEqual([first + 1]);
    expect(asked).toMatchObject({ effective: "keyword", note: "Searched by words only: no embedder is configured." });
    expect(await search.notes(ada, { query: "chair", limit: 5 })).not.toHaveProperty("note");
  });

  test("returns an empty result without notes", async () => {
    const { searchWith } = await opened();
    const search = searchWith({ embedder: wordEmbedder() });

    const found = await search.notes(ada, { query: "chair", limit: 5 });

    expect(found).toMatchObject({ hits: [], effective: "hybrid", searched: 0, unmatched: ["chair"] });
    expect(found).not.toHaveProperty("note");
  });

  test("embeds nothing for an empty query", async () => {
    const { addAll, searchWith } = await opened();
    const first = await addAll(ada, ["automobile"]);
    const embedder = wordEmbedder();

    const found = await searchWith({ embedder }).notes(ada, { query: "  ", limit: 5 });

    expect(found.hits.map(({ note }) => note.id)).toEqual([first]);
    expect(embedder.queries).toEqual([]);
  });
});

describe("making vectors", () => {
  test("makes the vectors of all the caller's notes with progress, for semantic search", async () => {
    const { addAll, searchWith } = await opened();
    const first = await addAll(ada, many);
    await addAll(bob, ["a text of bob's"]);
    const embedder = wordEmbedder();
    const search = searchWith({ embedder });
    const steps: { done: number; total: number }[] = [];

    const made = await search.index(ada, { onProgress: (step) => steps.push(step) });

    expect(made).toEqual({ notes: 200, ready: 200, left: 0 });
    expect(steps[0]).toEqual({ done: 0, total: 200 });
    expect(steps.at(-1)).toEqual({ done: 200, total: 200 });
    expect(embedder.texts.some((text) => text.includes("bob"))).toBe(false);
    const found = await search.notes(ada, { query: "topickz", type: "semantic", limit: 5 });
    expect(found.effective).toBe("semantic");
    expect(ids(found)).toEqual([first + 7]);
  });

  test("does not reveal which texts others have written", async () => {
    const { addAll, searchWith } = await opened();
    await addAll(bob, many.slice(0, 100));
    await addAll(ada, many);
    const embedder = wordEmbedder();
    const search = searchWith({ embedder });
    await search.index(bob, {});
    const before = embedder.texts.length;
    const steps: { done: number; total: number }[] = [];

    const made = await search.index(ada, { onProgress: (step) => steps.push(step) });

    expect(embedder.texts.length - before).toBe(100);
    expect(made).toEqual({ notes: 200, ready: 200, left: 0 });
    expect([steps[0], steps.at(-1)]).toEqual([
      { done: 0, total: 200 },
      { done: 200, total: 200 },
    ]);
    expect(await search.index(ada, {})).toEqual(made);
  });

  test("makes the vectors of a collection, and follows additions", async () => {
    const { append, collect, collection, searchWith, store } = await opened();
    const id = await collect(ada, many);
    const embedder = wordEmbedder();
    const search = searchWith({ embedder });

    const made = await search.index(await collection(id), {});
    expect(made).toEqual({ notes: 200, ready: 200, left: 0 });
    const [item] = await store.items(id, { from: 42, limit: 1 });
    await append(id, [{ id: item?.id ?? 0 }]);
    const found = await search.within(await collection(id), { query: "topicgdz", type: "semantic", limit: 5 });

    expect(found.effective).toBe("semantic");
    expect(found.hits).toMatchObject([{ note: { id: item?.id }, position: 42 }]);
  });

  test("makes collections findable by meaning too", async () => {
    const { collect, searchWith } = await opened();
    for (let at = 0; at < 70; at++) await collect(ada, [`thing${at}`]);
    const gizmos = await collect(ada, ["automobile automobile automobile"]);
    const search = searchWith({ embedder: knowingGizmos() });
    expect(await search.collections(ada, { query: "gizmo", type: "semantic", limit: 5 })).toMatchObject({
      effective: "keyword",
    });

    await search.index(ada, {});

    const found = await search.collections(ada, { query: "gizmo", type: "semantic", limit: 5 });
    expect(found.effective).toBe("semantic");
    expect(found.hits.map(({ collection }) => collection.id)).toEqual([gizmos]);
  });

  test("can be aborted, and keeps the vectors made so far", async () => {
    const { addAll, searchWith } = await opened();
    await addAll(ada, many);
    const giveUp = new AbortController();
    let batches = 0;
    const embedder = wordEmbedder("words", () => {
      if (++batches === 3) giveUp.abort();
    });
    const search = searchWith({ embedder });

    await expect(search.index(ada, { signal: giveUp.signal })).rejects.toMatchObject({ code: "cancelled" });
    const before = embedder.texts.length;
    await search.index(ada, {});

    expect(embedder.texts.length - before).toBeLessThanOrEqual(200 - 64);
  });

  test("does not block searches, and a change meanwhile is found by words", async () => {
    const { addAll, add, searchWith } = await opened();
    await addAll(ada, many);
    const { gate, go } = createGate();
    const begun = createGate();
    const embedder = wordEmbedder("words", (_, texts) => {
      if (!texts.some((text) => text.includes("Report"))) return undefined;
      begun.go();
      return gate;
    });
    const search = searchWith({ embedder });

    const making = search.index(ada, {});
    await begun.gate;
    const added = await add(ada, "A late orchid");
    const found = await search.notes(ada, { query: "orchid", limit: 5 });
    go();

    expect(ids(found)).toEqual([added]);
    expect(found.note).toBe("Searched by words only: vectors are being made.");
    expect(await making).toMatchObject({ ready: 200 });
    const after = await search.notes(ada, { query: "orchid", type: "semantic", limit: 5 });
    expect([after.effective, ids(after)]).toEqual(["semantic", [added]]);
  });

  test("never embeds a changed text in place of the wanted one", async () => {
    const { addAll, add, edit, store, searchWith } = await opened();
    const first = await addAll(ada, many);
    const embedder = wordEmbedder();
    let reads = 0;
    const search = searchWith({
      embedder,
      store: {
        ...store,
        async notes(ids) {
          // The first time it is read to be analysed, from then on to be embedded.
          if (++reads === 6) await edit(first + 199, "changed meanwhile");
          return store.notes(ids);
        },
      },
    });
    await search.notes(ada, { query: "report", type: "keyword", limit: 5 });
    reads = 5;

    await search.index(ada, {});

    const found = await search.notes(ada, { query: "changed meanwhile", type: "semantic", limit: 1 });
    expect(ids(found)).toEqual([first + 199]);
    expect(ids(await search.notes(ada, { query: "topiccmmz authorcmmz", type: "semantic", limit: 1 }))).toEqual([]);
    const again = await add(ada, many[199] ?? "");
    expect(ids(await search.notes(ada, { query: many[199] ?? "", type: "semantic", limit: 1 }))).toEqual([again]);
  });

  test("is rejected without an embedder", async () => {
    const { add, searchWith } = await opened();
    await add(ada, "automobile");

    await expect(searchWith().index(ada, {})).rejects.toMatchObject({
      code: "search_off",
      message: "no vectors can be made: no embedder is configured",
    });
  });
});
