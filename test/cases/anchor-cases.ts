import assert from "node:assert/strict";
import { createSqlAnchorStore } from "../../src/store/anchors.ts";
import { migrate } from "../../src/store/migrations.ts";
import type { SqlDriver } from "../../src/store/sql.ts";
import { defineCases } from "./store-cases.ts";

const start = new Date("2026-01-02T03:04:05.678Z");
const later = new Date("2026-02-02T03:04:05.678Z");

export const anchorStoreCases = defineCases(openAnchors, {
  "stores anchored values, and reads the requested ones": async (anchors) => {
    const values = new Map([
      ["price:00000001", "12.50"],
      ["name:00000002", '"\\u0000 ü \'; drop table anchors; --"'],
    ]);

    assert.equal(await anchors.put("o", values), true);

    assert.deepEqual(await anchors.read("o", [...values.keys(), "price:00000009"]), values);
    assert.deepEqual(await anchors.read("o", []), new Map());
    assert.deepEqual(await anchors.read("o", ["name:00000002"]), new Map([...values].slice(1)));
  },
  "keeps owners of anchored values with similar names apart": async (anchors) => {
    const owners = ["", "o", "O", "o ", '[null,"o"]', "o%"];

    for (const owner of owners) assert.equal(await anchors.put(owner, new Map([["t:1", `"${owner.length}"`]])), true);

    for (const owner of owners) {
      assert.deepEqual(await anchors.read(owner, ["t:1"]), new Map([["t:1", `"${owner.length}"`]]));
    }
    assert.deepEqual(await anchors.read("never used", ["t:1"]), new Map());
  },
  "stores no anchored value if one of the tokens exists": async (anchors) => {
    await anchors.put("o", new Map([["t:0700", "1"]]));
    const many = new Map(Array.from({ length: 1_200 }, (_, at) => [`t:${String(at).padStart(4, "0")}`, `${at}`]));

    assert.equal(await anchors.put("o", many), false);
    assert.deepEqual(await anchors.read("o", [...many.keys()]), new Map([["t:0700", "1"]]));

    assert.equal(await anchors.put("p", many), true);
    assert.deepEqual(await anchors.read("p", [...many.keys()]), many);
  },
  "gives a token to one of several concurrent callers": async (anchors) => {
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, at) =>
        anchors.put(
          "o",
          new Map([
            ["same", `${at}`],
            [`own:${at}`, "0"],
          ]),
        ),
      ),
    );

    assert.equal(answers.filter((kept) => kept).length, 1);
    assert.equal((await anchors.read("o", ["same"])).get("same"), String(answers.indexOf(true)));
    assert.equal(
      (
        await anchors.read(
          "o",
          Array.from({ length: 10 }, (_, at) => `own:${at}`),
        )
      ).size,
      1,
    );
  },
  "prunes only old anchored values": async (anchors, db) => {
    await anchors.put("o", new Map([["old", "1"]]));
    await createSqlAnchorStore(db, () => later).put("o", new Map([["new", "2"]]));

    await anchors.prune(later);

    assert.deepEqual(await anchors.read("o", ["old", "new"]), new Map([["new", "2"]]));
  },
});

async function openAnchors(db: SqlDriver) {
  await migrate(db);
  return createSqlAnchorStore(db, () => start);
}
