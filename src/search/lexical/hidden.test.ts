import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Action } from "../../core/action.ts";
import { createHitOrder } from "../hits.ts";
import { createLexicalIndex } from "./lexical-index.ts";
import { action, createTestView } from "./testing.ts";

// Few words, near each other in spelling and meaning: what is hidden then has every chance to show.
const word = fc.constantFrom(
  ..."get list show delete remove create invoice invoices invoic invoyce contact contract config configuration time zone timezone GitHub git hub メール 送信 facturación the of what is data".split(
    " ",
  ),
);
const text = fc.array(word, { maxLength: 8 }).map((words) => words.join(" "));
const drawn = fc.record({
  name: fc.array(fc.constantFrom("get", "list", "delete", "invoice", "contact", "config", "zone"), {
    minLength: 1,
    maxLength: 3,
  }),
  category: fc.constantFrom("crm", "mcp", "git"),
  description: text,
  alias: fc.option(word, { nil: undefined }),
  hidden: fc.boolean(),
});
const catalogs = fc.uniqueArray(drawn, {
  maxLength: 25,
  selector: ({ category, name }) => `${category}__${name.join("_")}`,
});
const queries = fc.oneof(
  text,
  text.map((words) => `what is ${words}`),
  fc.constantFrom("invoyces", "configuratoin", "contrakt", "select:crm__get,mcp__list", "crm__get", "deletes"),
);

describe("a hidden action", () => {
  test("does not influence the result", () => {
    fc.assert(
      fc.property(
        catalogs,
        fc.array(queries, { minLength: 1, maxLength: 4 }),
        fc.integer({ min: 1, max: 6 }),
        (drawnOnes, asked, limit) => {
          const made = drawnOnes
            .map(({ category, name, description, alias, hidden }) => ({
              hidden,
              made: action(`${category}__${name.join("_")}`, {
                description,
                aliases: alias === undefined ? [] : [alias],
              }),
            }))
            .sort((a, b) => (a.made.name < b.made.name ? -1 : 1));
          const all: readonly Action[] = made.map((each) => each.made);
          const hidden = made.filter((each) => each.hidden).map((each) => each.made);
          const rest = all.filter((each) => !hidden.includes(each));
          const [whole, part] = [createLexicalIndex(all), createLexicalIndex(rest)];
          const [masked, open] = [createTestView(all, hidden), createTestView(rest)];
          const options = { limit, order: createHitOrder() };
          for (const query of asked) {
            expect(whole.search(query, masked, options)).toEqual(part.search(query, open, options));
          }
        },
      ),
      { numRuns: 400 },
    );
  });

  test("does not correct a typo to a word that only it has", () => {
    const secret = action("hr__layoffs", "Plans layoffs.");
    const open = action("hr__holidays", "Plans holidays.");
    const answer = createLexicalIndex([open, secret]).search("layofs", createTestView([open, secret], [secret]), {
      limit: 5,
      order: createHitOrder(),
    });

    expect(answer).toEqual({ hits: [], unmatched: ["layofs"] });
  });

  test("may differ from view to view of one index", () => {
    const [one, other] = [action("a__invoice"), action("b__invoice")];
    const index = createLexicalIndex([one, other]);
    const found = (hidden: Action) =>
      index
        .search("invoice", createTestView([one, other], [hidden]), { limit: 5, order: createHitOrder() })
        .hits.map((hit) => hit.action);

    expect(found(one)).toEqual([other]);
    expect(found(other)).toEqual([one]);
  });
});
