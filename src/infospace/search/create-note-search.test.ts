import { afterEach, describe, expect, test } from "vitest";
import type { Json } from "../../core/json.ts";
import { createNoteSearch } from "./create-note-search.ts";
import type { NoteSearchResult } from "./note-search.ts";
import { ada, allowOwner, bob, openTestSearch } from "./testing.ts";

const closers: (() => Promise<void>)[] = [];
const opened = () => openTestSearch((close) => closers.unshift(close));

afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

const ids = ({ hits }: NoteSearchResult<{ readonly note: { readonly id: number } }>): readonly number[] =>
  hits.map(({ note }) => note.id);

const filler = (words: number, of = "filler"): string =>
  Array.from({ length: words }, (_, at) => `${of}${at}`).join(" ");

describe("notes are found by", () => {
  test("words of a text, best first, with the matching passage", async () => {
    const { add, searchWith } = await opened();
    await add(ada, "The weather in Lisbon was mild.");
    const both = await add(ada, "Invoices from Berlin are overdue.");
    const one = await add(ada, "Invoices are sent on Mondays, and there is more to say about when that is done.");
    const search = searchWith();

    const found = await search.notes(ada, { query: "overdue invoices", limit: 5 });

    expect(ids(found)).toEqual([both, one]);
    expect(found.hits[0]?.passage).toBe("Invoices from Berlin are overdue.");
    expect(found).toMatchObject({ searched: 3, left: 0, effective: "keyword", limitReached: false });
    expect(found.hits.every(({ score }) => score > 0 && score <= 1)).toBe(true);
    expect(found).not.toHaveProperty("note");
  });

  test("keys and values of JSON, a name and properties", async () => {
    const { add, searchWith } = await opened();
    const json = await add(ada, { customer: { city: "Rotterdam" }, items: [{ sku: "anchor" }] } as Json);
    const named = await add(ada, "nothing of interest", { name: "Quarterly report" });
    const tagged = await add(ada, "nothing of interest", { properties: { department: "logistics" } });
    const search = searchWith();

    expect(ids(await search.notes(ada, { query: "rotterdam", limit: 5 }))).toEqual([json]);
    expect(ids(await search.notes(ada, { query: "anchor sku", limit: 5 }))).toEqual([json]);
    expect(ids(await search.notes(ada, { query: "logistics", limit: 5 }))).toEqual([tagged]);
    const byName = await search.notes(ada, { query: "quarterly report", limit: 5 });
    expect(byName.hits).toMatchObject([{ note: { id: named }, score: 1 }]);
    expect((await search.notes(ada, { query: "rotterdam", limit: 5 })).hits[0]?.passage).toContain("city: Rotterdam");
  });

  test("text far inside a long note", async () => {
    const { add, searchWith } = await opened();
    const long = await add(ada, `${filler(20_000)}\n\nThe keystone is under the bridge.\n\n${filler(5_000, "after")}`);
    await add(ada, "A short note about something else.");
    const search = searchWith();

    const found = await search.notes(ada, { query: "keystone bridge", limit: 5 });

    expect(ids(found)).toEqual([long]);
    expect(found.hits[0]?.passage).toContain("The keystone is under the bridge.");
    expect(found.hits[0]?.passage.length).toBeLessThanOrEqual(1_200);
  });

  test("several passages, but listed once", async () => {
    const { add, searchWith } = await opened();
    const other = await add(ada, `${filler(50)} lantern ${filler(100, "more")}`);
    const long = await add(ada, Array.from({ length: 60 }, () => `lantern ${filler(140)}`).join("\n\n"));
    const search = searchWith();

    const found = await search.notes(ada, { query: "lantern", limit: 5 });

    expect([...ids(found)].sort()).toEqual([other, long]);
  });

  test.each(["hello", "help", "may", "Hello there"])("only stop words, as in %j", async (query) => {
    const { add, searchWith } = await opened();
    const greeting = await add(ada, "Hello there! May I help?");
    await add(ada, `Invoices from Berlin. ${filler(200)}`);
    const search = searchWith();

    expect(ids(await search.notes(ada, { query, limit: 5 }))).toEqual([greeting]);
    expect((await search.notes(ada, { query: "yours", limit: 5 })).unmatched).toEqual(["yours"]);
  });

  test("anything but their ids", async () => {
    const { addAll, searchWith } = await opened();
    const first = await addAll(ada, ["one", "two", "three with 2 in it"]);
    const search = searchWith();

    expect(ids(await search.notes(ada, { query: "2", limit: 5 }))).toEqual([first + 2]);
    expect(ids(await search.notes(ada, { query: "1", limit: 5 }))).toEqual([]);
  });
});

describe("the limit", () => {
  test("is reported as reached only if there are more hits", async () => {
    const { addAll, searchWith } = await opened();
    await addAll(ada, ["red apple", "green apple", "yellow apple", "plum"]);
    const search = searchWith();

    const two = await search.notes(ada, { query: "apple", limit: 2 });
    const three = await search.notes(ada, { query: "apple", limit: 3 });

    expect([two.hits.length, two.limitReached]).toEqual([2, true]);
    expect([three.hits.length, three.limitReached]).toEqual([3, false]);
  });

  test("returns an empty result with the unmatched words", async () => {
    const { add, searchWith } = await opened();
    await add(ada, "Invoices from Berlin");
    const search = searchWith();

    const found = await search.notes(ada, { query: "zeppelin", limit: 5 });

    expect(found).toMatchObject({ hits: [], unmatched: ["zeppelin"], searched: 1, limitReached: false });
  });

  test("finds nothing for a question without matches", async () => {
    const { add, searchWith } = await opened();
    await add(ada, "Read the list and check it.");
    const search = searchWith();

    expect((await search.notes(ada, { query: "What is the price of gold?", limit: 5 })).hits).toEqual([]);
    expect((await search.notes(ada, { query: "Where is the list?", limit: 5 })).hits).toHaveLength(1);
  });
});

describe("edits", () => {
  test("are found by the next search", async () => {
    const { add, edit, store, searchWith } = await opened();
    const kept = await add(ada, "A walnut tree");
    const changed = await add(ada, "A cherry tree");
    const search = searchWith();
    const find = async (query: string) => ids(await search.notes(ada, { query, limit: 5 }));
    expect(await find("cherry")).toEqual([changed]);

    await edit(changed, "A poplar tree");
    expect(await find("cherry")).toEqual([]);
    expect(await find("poplar")).toEqual([changed]);

    const added = await add(ada, "A cherry blossom");
    expect(await find("cherry")).toEqual([added]);

    await store.remove("note", changed);
    expect(await find("poplar")).toEqual([]);
    expect(await find("walnut")).toEqual([kept]);
  });

  test("expired notes are not found", async () => {
    const { add, clock, searchWith } = await opened();
    await add(ada, "A passing thought", { expiresAt: "2026-01-02T00:00:00.000Z" });
    const search = searchWith();
    expect((await search.notes(ada, { query: "thought", limit: 5 })).hits).toHaveLength(1);

    clock.days = 2;

    const found = await search.notes(ada, { query: "thought", limit: 5 });
    expect(found).toMatchObject({ hits: [], searched: 0, unmatched: ["thought"] });
  });

  test("only changed notes are read again", async () => {
    const { addAll, edit, read, searchWith } = await opened();
    const many = Array.from({ length: 20_000 }, (_, at) => `Record ${at} of ${at % 7 === 0 ? "granite" : "marble"}`);
    const first = await addAll(ada, many);
    const search = searchWith();
    await search.notes(ada, { query: "granite", limit: 5 });
    expect(read).toHaveLength(20_000);
    read.length = 0;

    await search.notes(ada, { query: "marble", limit: 5 });
    expect(read).toEqual([]);

    await edit(first + 12_345, "A lone piece of obsidian");
    const found = await search.notes(ada, { query: "obsidian", limit: 5 });

    expect(ids(found)).toEqual([first + 12_345]);
    expect(read).toEqual([first + 12_345]);
    expect(found.searched).toBe(20_000);
  });

  test("the rest is found after most notes were removed, also after the next change", async () => {
    const { addAll, add, store, searchWith } = await opened();
    const first = await addAll(
      ada,
      Array.from({ length: 200 }, (_, at) => filler(20, `word${at}x`)),
    );
    const kept = await add(ada, "The old oak");
    const search = searchWith();
    const find = async (query: string) => ids(await search.notes(ada, { query, limit: 5 }));
    expect(await find("oak")).toEqual([kept]);

    for (let at = 0; at < 200; at++) await store.remove("note", first + at);
    expect(await find("oak")).toEqual([kept]);
    const birch = await add(ada, "A young birch");

    expect(await find("oak")).toEqual([kept]);
    expect(await find("birch")).toEqual([birch]);
  });
});

describe("another caller's notes", () => {
  test("leave no trace", async () => {
    const own = ["Overdue invoices from Berlin", "Weather in Lisbon", "Invoices of the year"];
    const query = { query: "overdue invoices zeppelin", limit: 5 };
    const alone = await opened();
    await alone.addAll(ada, own);
    const expected = await alone.searchWith().notes(ada, query);

    const { addAll, searchWith } = await opened();
    await addAll(ada, own);
    await addAll(bob, ["A zeppelin over Berlin", "Overdue overdue invoices", "zeppelin invoices"]);
    const search = searchWith();
    await search.notes(bob, query);
    const found = await search.notes(ada, query);

    expect(summary(found)).toEqual(summary(expected));
    expect(found.unmatched).toEqual(["zeppelin"]);
  });

  test("notes in reach that the policy hides leave no trace either", async () => {
    const alone = await opened();
    await alone.addAll(ada, ["Overdue invoices", "Weather"]);
    const expected = await alone.searchWith().notes(ada, { query: "overdue zeppelin", limit: 5 });

    const { addAll, searchWith } = await opened();
    const first = await addAll(ada, ["Overdue invoices", "Weather", "An overdue zeppelin"]);
    const hidden = `note__${first + 2}`;
    const search = searchWith({
      mayUse: (resource, caller) => (resource.name === hidden ? "hidden" : allowOwner(resource, caller)),
    });
    const found = await search.notes(ada, { query: "overdue zeppelin", limit: 5 });

    expect(summary(found)).toEqual(summary(expected));
  });

  test("are found once they are shared, but not by another tenant", async () => {
    const { add, store, searchWith } = await opened();
    const id = await add(bob, "A shared secret garden");
    const search = searchWith();
    const find = async (caller = ada) => ids(await search.notes(caller, { query: "garden", limit: 5 }));
    expect(await find()).toEqual([]);

    await store.save("note", id, { reach: "tenant", at: "2026-01-01T00:00:00.000Z" });

    expect(await find()).toEqual([id]);
    expect(await find({ ...ada, tenant: "other" })).toEqual([]);
  });

  test("a revoked note is left out of hits and counts", async () => {
    const { addAll, searchWith } = await opened();
    const first = await addAll(ada, ["An overdue zeppelin", "Overdue invoices", "Weather", "Trees"]);
    let revoked = "";
    const search = searchWith({ mayUse: ({ name }) => (name === revoked ? "hidden" : "allowed") });
    const query = { query: "overdue zeppelin", limit: 5 };
    expect(ids(await search.notes(ada, query))).toEqual([first, first + 1]);

    revoked = `note__${first}`;
    const found = await search.notes(ada, query);

    expect(ids(found)).toEqual([first + 1]);
    expect(found).toMatchObject({ unmatched: ["zeppelin"], searched: 3 });
  });

  test("a note is found again after the policy has changed", async () => {
    const { add, searchWith } = await opened();
    const id = await add(ada, "An overdue zeppelin");
    let policy = { allows: false };
    const search = searchWith({ mayUse: () => (policy.allows ? "allowed" : "hidden"), rights: () => policy });
    const query = { query: "zeppelin", limit: 5 };
    expect(await search.notes(ada, query)).toMatchObject({ hits: [], unmatched: ["zeppelin"], searched: 0 });

    policy = { allows: true };

    expect(ids(await search.notes(ada, query))).toEqual([id]);
  });
});

describe("bounds", () => {
  test("the newest notes are searched, and the rest is counted", async () => {
    const { addAll, add, searchWith } = await opened();
    const first = await addAll(ada, ["amber one", "amber two", "amber three", "amber four"]);
    const search = searchWith({ limits: { documents: 3 } });

    const found = await search.notes(ada, { query: "amber", limit: 10 });
    expect([...ids(found)].sort()).toEqual([first + 1, first + 2, first + 3]);
    expect(found).toMatchObject({ searched: 3, left: 1 });

    const newest = await add(ada, "amber five");
    const next = await search.notes(ada, { query: "amber", limit: 10 });
    expect([...ids(next)].sort()).toEqual([first + 2, first + 3, newest]);
    expect(next).toMatchObject({ searched: 3, left: 2 });
  });

  test("the searched text is limited in total and per note, and cuts are reported", async () => {
    const { addAll, searchWith } = await opened();
    const long = `amber ${filler(2_000)} jade`;
    const first = await addAll(ada, ["amber", ..."xyz".split("").map((sign) => sign.repeat(250)), long, "amber"]);
    const search = searchWith({ limits: { characters: 800 } });

    const found = await search.notes(ada, { query: "amber", limit: 10 });

    expect([...ids(found)].sort()).toEqual([first + 4, first + 5]);
    expect(found).toMatchObject({ searched: 4, left: 2 });
    expect(found.note).toBe("Of 3 very long ones only the first part was searched.");
    expect((await search.notes(ada, { query: "jade", limit: 10 })).hits).toEqual([]);
  });

  test("more callers than cached indexes all find their own notes", async () => {
    const { add, searchWith } = await opened();
    const callers = Array.from({ length: 20 }, (_, at) => ({ ...ada, session: `session ${at}` }));
    const made = await Promise.all(callers.map((caller) => add(caller, "my own coral")));
    const search = searchWith();

    for (const round of [1, 2]) {
      const found = await Promise.all(callers.map((caller) => search.notes(caller, { query: "coral", limit: 5 })));
      expect(found.map(ids), `round ${round}`).toEqual(made.map((id) => [id]));
    }
  });
});

test.each([
  ["nothing", ""],
  ["blanks", " \n\t "],
  ["ten thousand characters", "overdue ".repeat(1_250)],
  ["one word without end", "a".repeat(10_000)],
  ["operators", 'title:"x" AND (NOT * OR ^~) -- NEAR/3 \' ; drop table notes'],
  ["a selection", "select: note__1, note__2"],
  ["emoji", "🦀🦀 👩‍👩‍👧‍👦"],
  ["lone surrogates and NUL", "\uD800 \uDC00 \u0000"],
  ["names of Object.prototype", "__proto__ constructor toString"],
])("a query of %s is answered", async (_, query) => {
  const { addAll, searchWith } = await opened();
  await addAll(ada, ["Overdue invoices", { constructor: "x", note: "1" }]);
  const search = searchWith();

  const found = await search.notes(ada, { query, limit: 5 });

  expect(found.searched).toBe(2);
  expect(found.unmatched.every((word) => word.length <= 40)).toBe(true);
  expect(found.hits.every(({ score }) => score >= 0 && score <= 1)).toBe(true);
});

test("Chinese is found by its characters", async () => {
  const { addAll, searchWith } = await opened();
  const first = await addAll(ada, ["北京的天气很好", "上海的天气不好"]);

  expect(ids(await searchWith().notes(ada, { query: "北京", limit: 5 }))).toEqual([first]);
});

test("hostile names and properties are data", async () => {
  const { add, searchWith } = await opened();
  const long = await add(ada, "granite", { name: "\u0958".repeat(200) });
  const signs = await add(ada, "granite", { name: "__ 🦀 \u0000 ' \uD800" });
  const properties = await add(ada, "granite", { properties: JSON.parse(`{"__proto__": {"a": [[[]]]}}`) });
  let deep: Json = "granite";
  for (let at = 0; at < 3_000; at++) deep = [deep];
  await add(ada, deep);

  const found = await searchWith().notes(ada, { query: "granite", limit: 5 });

  expect([...ids(found)].sort()).toEqual([long, signs, properties]);
  expect(found.note).toContain("Of 1 very long ones");
});

describe("inside a collection", () => {
  test("only its notes are found, with their first position", async () => {
    const { add, append, collect, collection, searchWith } = await opened();
    await add(ada, "An opal outside");
    const id = await collect(ada, ["ruby", "opal ring", "jade", "opal"]);
    const { hits } = await searchWith().within(await collection(id), { query: "opal", limit: 5 });
    expect(hits.map(({ position }) => position).sort()).toEqual([1, 3]);

    const [again] = hits.filter(({ position }) => position === 3);
    await append(id, [{ id: again?.note.id ?? 0 }]);
    const found = await searchWith().within(await collection(id), { query: "opal", limit: 5 });

    expect(found.hits.map(({ position }) => position).sort()).toEqual([1, 3]);
    expect(found).toMatchObject({ searched: 4, left: 0, limitReached: false });
  });

  test("positions are looked up without reading the collection", async () => {
    const { collect, collection, searchWith, store } = await opened();
    const id = await collect(ada, [...Array.from({ length: 600 }, (_, at) => `stone ${at}`), "opal"]);
    const items = () => Promise.reject(new Error("read through"));
    const search = searchWith({ store: { ...store, items } });

    const { hits } = await search.within(await collection(id), { query: "opal", limit: 5 });

    expect(hits).toMatchObject([{ position: 600, passage: "opal" }]);
  });

  test("added, edited and removed notes are followed", async () => {
    const { append, collect, collection, edit, store, searchWith } = await opened();
    const id = await collect(ada, ["ruby", "opal", "jade"]);
    const search = searchWith();
    const find = async (query: string) => {
      const { hits } = await search.within(await collection(id), { query, limit: 5 });
      return hits.map(({ note, position }) => ({ id: note.id, position }));
    };
    const [opal] = await find("opal");
    expect(opal?.position).toBe(1);

    const [ruby] = await find("ruby");
    await store.removeItems(id, [ruby?.id ?? 0], "2026-01-01T00:00:00.000Z");
    expect(await find("opal")).toEqual([{ id: opal?.id, position: 0 }]);
    expect(await find("ruby")).toEqual([]);

    await append(id, [{ id: ruby?.id ?? 0 }]);
    expect(await find("ruby")).toEqual([{ id: ruby?.id, position: 2 }]);

    await edit(opal?.id ?? 0, "topaz");
    expect(await find("opal")).toEqual([]);
    expect(await find("topaz")).toEqual([{ id: opal?.id, position: 0 }]);
  });
});

describe("collections", () => {
  test("are found by name, properties, origin and first notes", async () => {
    const { collect, searchWith } = await opened();
    const named = await collect(ada, ["x"], { name: "Customers of the north" });
    const tagged = await collect(ada, ["x"], { properties: { region: "Patagonia" } });
    const made = await collect(ada, ["x"], { action: "mcp__crm__list_deals" });
    const holding = await collect(ada, [
      { city: "Valparaiso" },
      ...Array.from({ length: 50 }, () => "x"),
      "Montevideo",
    ]);
    await collect(bob, [{ city: "Valparaiso" }]);
    const search = searchWith();
    const find = async (query: string) => {
      const { hits } = await search.collections(ada, { query, limit: 5 });
      return hits.map(({ collection }) => collection.id);
    };

    expect(await find("customers north")).toEqual([named]);
    expect(await find("patagonia")).toEqual([tagged]);
    expect(await find("crm deals")).toEqual([made]);
    expect(await find("valparaiso")).toEqual([holding]);
    expect(await find("montevideo")).toEqual([]);
    expect(await search.collections(ada, { query: "x", limit: 2 })).toMatchObject({ limitReached: true, searched: 4 });
  });

  test("edits of their first notes and their removal are followed", async () => {
    const { collect, edit, store, searchWith } = await opened();
    const id = await collect(ada, ["heron", "crane"]);
    const search = searchWith();
    const find = async (query: string) => (await search.collections(ada, { query, limit: 5 })).hits.length;
    expect(await find("heron")).toBe(1);
    const [item] = await store.items(id, { from: 0, limit: 1 });

    await edit(item?.id ?? 0, "egret");
    expect([await find("heron"), await find("egret")]).toEqual([0, 1]);

    await store.remove("collection", id);
    expect(await find("egret")).toBe(0);
  });
});

describe("a blank query", () => {
  test("lists the newest usable notes, past any number of others", async () => {
    const { addAll, searchWith } = await opened();
    const first = await addAll(
      ada,
      Array.from({ length: 130 }, (_, at) => `thing ${at}`),
    );
    const search = searchWith({
      mayUse: ({ entry }) => (Number(entry) < first + 5 && Number(entry) !== first + 3 ? "allowed" : "hidden"),
    });

    const found = await search.notes(ada, { query: "", limit: 3 });

    expect(ids(found)).toEqual([first + 4, first + 2, first + 1]);
    expect(found.limitReached).toBe(true);
    expect(await search.notes(ada, { query: "", limit: 4 })).toMatchObject({ limitReached: false });
    expect(await search.collections(ada, { query: "", limit: 4 })).toMatchObject({ hits: [], limitReached: false });
  });
});

test("an aborted search ends, and the next one works", async () => {
  const { addAll, searchWith } = await opened();
  await addAll(
    ada,
    Array.from({ length: 100 }, () => "coral"),
  );
  const search = searchWith();
  const given = AbortSignal.abort(new Error("given up"));

  await expect(search.notes(ada, { query: "coral", limit: 5, signal: given })).rejects.toThrow("given up");
  expect((await search.notes(ada, { query: "coral", limit: 5 })).hits).toHaveLength(5);
});

test("a read error fails the search", async () => {
  const { add, store } = await opened();
  await add(ada, "coral");
  let broken = true;
  const failing = {
    ...store,
    notes: async (ids: readonly number[]) => (broken ? Promise.reject(new Error("disk")) : store.notes(ids)),
  };
  const search = createNoteSearch({ store: failing, mayUse: allowOwner });

  await expect(search.notes(ada, { query: "coral", limit: 5 })).rejects.toThrow("disk");
  broken = false;
  expect((await search.notes(ada, { query: "coral", limit: 5 })).hits).toHaveLength(1);
});

function summary({ hits, ...rest }: NoteSearchResult<{ readonly score: number; readonly passage: string }>) {
  return { ...rest, hits: hits.map(({ score, passage }) => ({ score, passage })) };
}
