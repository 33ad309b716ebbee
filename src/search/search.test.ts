import { describe, expect, test } from "vitest";
import { z } from "zod";
import { defineAction } from "../catalog/define-action.ts";
import { takeSnapshot } from "../catalog/snapshot.ts";
import { createView } from "../catalog/view.ts";
import type { Action, Readiness } from "../core/action.ts";
import { type CatalogSearchOptions, createCatalogSearch } from "./search.ts";
import type { SemanticIndex } from "./semantic/semantic-index.ts";

const action = (name: string, description: string): Action => {
  const at = name.indexOf("__");
  return defineAction(name.slice(0, at), {
    entry: name.slice(at + 2),
    description,
    effect: "read",
    input: z.object({ to: z.string() }),
    run: () => null,
  });
};

const actions = [
  action("mail__send", "Send an email to somebody."),
  action("chat__post", "Post a message in a channel."),
  action("file__read", "Read a text file."),
  ...Array.from({ length: 30 }, (_, i) => action(`note__write_${i}`, `Write note number ${i}.`)),
];

function viewOf(list: readonly Action[] = actions, hidden: readonly string[] = []) {
  const { snapshot } = takeSnapshot(1, [list]);
  return createView(snapshot, ({ name }) => ({ visible: !hidden.includes(name), approval: "never" }));
}

/** Finds by a table in place of a model. */
const meaning = (found: readonly string[] | string): SemanticIndex =>
  ({
    search: async (_query, view, { limit }) =>
      typeof found === "string"
        ? { unavailable: found }
        : {
            hits: found
              .flatMap((name) => view.actions().find((each) => each.name === name) ?? [])
              .map((each, at) => ({ action: each, score: 0.9 - at / 10 }))
              .slice(0, limit),
          },
  }) as Partial<SemanticIndex> as SemanticIndex;

const prepared: number[] = [];
const search = (options: Partial<CatalogSearchOptions> = {}) =>
  createCatalogSearch({
    maxResults: 20,
    preferredNamespaces: [],
    onPrepared: (count) => prepared.push(count),
    ...options,
  });

const names = ({ hits }: { hits: readonly { action: Action }[] }) => hits.map(({ action: { name } }) => name);

describe("a search", () => {
  test("puts an action that cannot be used now after one that matches about as well", async () => {
    const asleep = (name: string, description: string, readiness: () => Readiness) =>
      Object.freeze({ ...action(name, description), readiness });
    const throwing = () => {
      throw new Error("gone");
    };
    const list = [
      asleep("a__summarize", "Summarize a text.", () => "unavailable"),
      asleep("b__summarize", "Summarize a text.", throwing),
      asleep("c__summary", "Summarize a long text of several pages.", () => "not_started"),
      action("d__count", "Count words."),
    ];

    expect(names(await search()(viewOf(list), { query: "summarize a text" }))[0]).toBe("c__summary");
    expect(names(await search()(viewOf(list), { query: "a__summarize" }))[0]).toBe("a__summarize");
  });

  test("is by words without an embedder, and hybrid with one", async () => {
    const byWords = await search()(viewOf(), { query: "send an email" });
    const both = await search({ semantic: meaning(["chat__post"]) })(viewOf(), { query: "send an email" });

    expect(byWords).toMatchObject({ requested: "fts", effective: "fts", unmatched: [] });
    expect(names(byWords)[0]).toBe("mail__send");
    expect(both).toMatchObject({ requested: "hybrid", effective: "hybrid" });
    expect(names(both)).toEqual(expect.arrayContaining(["mail__send", "chat__post"]));
    expect(both).not.toHaveProperty("note");
  });

  test("by meaning finds actions without a common word", async () => {
    const found = await search({ semantic: meaning(["chat__post"]) })(viewOf(), {
      query: "notify colleagues",
      type: "semantic",
    });

    expect(names(found)).toEqual(["chat__post"]);
    expect(found.effective).toBe("semantic");
  });

  test.each(["semantic", "hybrid"] as const)("by %s explains why it is by words only", async (type) => {
    const query = "read a file";
    const down = await search({ semantic: meaning("the endpoint does not answer.") })(viewOf(), { query, type });
    const none = await search()(viewOf(), { query, type });

    expect(down).toMatchObject({ requested: type, effective: "fts" });
    expect(down.note).toBe("Searched by words only: the endpoint does not answer.");
    expect(none.note).toBe("Searched by words only: no embedder is configured.");
    expect(names(down)[0]).toBe("file__read");
  });

  test("by an unreadable pattern falls back to its words, with a note", async () => {
    const found = await search()(viewOf(), { query: "file(", type: "regex" });
    const readable = await search()(viewOf(), { query: "^file__", type: "regex" });

    expect(found).toMatchObject({ requested: "regex", effective: "fts" });
    expect(found.note).toContain("RE2");
    expect(names(found)[0]).toBe("file__read");
    expect(readable).toMatchObject({ effective: "regex" });
    expect(names(readable)).toEqual(["file__read"]);
  });

  test("limits the hits to the request and the maximum", async () => {
    const found = (limit?: number, maxResults = 20) =>
      search({ maxResults })(viewOf(), { query: "write note", ...(limit === undefined ? {} : { limit }) });

    expect((await found()).hits).toHaveLength(5);
    expect((await found(3)).hits).toHaveLength(3);
    expect((await found(100)).hits).toHaveLength(20);
    expect((await found(100, 5)).hits).toHaveLength(5);
    expect((await found(0)).hits).toHaveLength(1);
  });

  test("leaves out hits far below the first, unless a limit is given", async () => {
    const query = "send mail to the team";
    const mixed = [
      action("mail__send", "Send a mail to one person or to a team."),
      action(
        "chat__post",
        "Post to a channel. Its link can be part of an email or a report that others write by hand.",
      ),
    ];
    const asked = await search()(viewOf(mixed), { query, limit: 5 });
    const found = await search()(viewOf(mixed), { query });

    expect(names(asked)).toEqual(["mail__send", "chat__post"]);
    expect(names(found)).toEqual(["mail__send"]);
  });

  test("with an empty query finds nothing", async () => {
    expect(await search()(viewOf(), { query: "  " })).toEqual({
      hits: [],
      requested: "fts",
      effective: "fts",
      unmatched: [],
    });
  });

  test("without hits lists the unmatched words, clipped", async () => {
    const query = Array.from({ length: 40 }, (_, i) => `zzq${i}${"x".repeat(60)}`).join(" ");
    const { hits, unmatched } = await search()(viewOf(), { query });

    expect(hits).toEqual([]);
    expect(unmatched).toHaveLength(10);
    expect(Math.max(...unmatched.map((word) => word.length))).toBeLessThanOrEqual(41);
  });

  test("returns visible matches elsewhere if no accepted action matches", async () => {
    const accepts = ({ category }: Action) => category === "chat";
    const found = await search()(viewOf(), { query: "read a file", accepts });
    const hidden = await search()(viewOf(actions, ["file__read"]), { query: "read a file", accepts });

    expect(found.hits).toEqual([]);
    expect(names({ hits: found.elsewhere ?? [] })).toContain("file__read");
    expect(names({ hits: hidden.elsewhere ?? [] })).not.toContain("file__read");
  });

  test("puts a preferred namespace first among equals", async () => {
    const twins = [action("a.b__send", "Send it."), action("z__send", "Send it.")];
    const found = (preferredNamespaces: string[]) =>
      search({ preferredNamespaces })(viewOf(twins), { query: "send it", type: "regex" });

    expect(names(await search()(viewOf(twins), { query: "send it" }))[0]).toBe("z__send");
    expect(names(await found(["a.b"]))[0]).toBe("a.b__send");
  });

  test("builds its index once per catalog, on the first search", async () => {
    prepared.length = 0;
    const find = search();
    const view = viewOf();
    await find(view, { query: "send" });
    await find(view, { query: "read" });
    await find(viewOf(actions.slice(0, 2)), { query: "read" });

    expect(prepared).toEqual([33, 2]);
  });
});

test("yields to the event loop while it indexes a large catalog", async () => {
  const words = (at: number) => Array.from({ length: 200 }, (_, word) => `w${at}x${word}`).join(" ");
  const large = Array.from({ length: 1_500 }, (_, at) => action(`big__tool_${at}`, words(at)));
  let turns = 0;
  const counting = setInterval(() => turns++, 0);

  const { hits } = await search()(viewOf(large), { query: "w7x7" });
  clearInterval(counting);

  expect(hits[0]?.action.name).toBe("big__tool_7");
  expect(turns).toBeGreaterThan(0);
});
