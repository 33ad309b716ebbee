/** Add a category: an operation, and live resources that run it. */
import assert from "node:assert/strict";

// #region operation

import { z } from "zod";
import { createQuartermaster, defineAction, defineResource, type Provider } from "../src/index.ts";

const books = new Map([["birds", new Map([["heron", "A long-legged wading bird."]])]]);
const watchers = new Set<() => void>();

const lookUp = defineAction("dictionary", {
  entry: "look_up",
  description: "Look a word up in a dictionary.",
  effect: "read",
  idempotent: true,
  input: z.object({ book: z.string(), word: z.string() }),
  run: ({ book, word }) => ({ word, meaning: books.get(book)?.get(word) ?? null }),
});

const dictionary: Provider = {
  category: "dictionary",
  capability: "Find out what a word means.",
  list: () => [lookUp],
};

// #endregion

// #region resources

const dictionaryBook: Provider = {
  category: "dictionary_book",
  capability: "Look words up in one certain dictionary.",
  list: () =>
    [...books.keys()].map((book) =>
      defineResource("dictionary_book", {
        entry: book,
        description: `The dictionary of ${book}.`,
        target: lookUp.name,
        transform: { set: { book: "$entry" } },
      }),
    ),
  watch(onChange) {
    watchers.add(onChange);
    return () => watchers.delete(onChange);
  },
};

const qm = await createQuartermaster({ providers: [dictionary, dictionaryBook] });
const outcome = await qm.invoke("dictionary_book__birds", { word: "heron" });

// #endregion

assert.equal(outcome.status, "done");
assert.deepEqual(outcome.data, { word: "heron", meaning: "A long-legged wading bird." });
const { input_schema, metadata } = qm.describe("dictionary_book__birds");
assert.deepEqual(input_schema.required, ["word"]);
assert.equal(metadata.target_tool_name, "dictionary__look_up");
assert.equal(metadata.purity, "read");

books.set("fish", new Map());
for (const tell of watchers) tell();
assert.deepEqual(
  qm.list().items.map(({ qualified_name }) => qualified_name),
  ["dictionary__look_up", "dictionary_book__birds", "dictionary_book__fish"],
);

await qm.close();
