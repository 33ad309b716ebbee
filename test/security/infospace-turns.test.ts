import { afterEach, expect, test } from "vitest";
import { closeWorlds, type World, world } from "../fixtures/infospace-world.ts";

afterEach(closeWorlds);

const COUNT = 20_000;
const rows = Array.from({ length: COUNT }, (_, at) => ({
  content: { at, name: `name ${(at * 7_919) % COUNT} of somebody`, group: at % 7 },
}));

/** Counts the turns that the event loop gives other work during `work`. */
async function countTurns(work: () => Promise<unknown>): Promise<number> {
  let [turns, isOver] = [0, false];
  const count = (): void => {
    turns++;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  await work();
  isOver = true;
  return turns;
}

const works: Readonly<Record<string, (w: World, handle: string) => Promise<unknown>>> = {
  "searched for the first time": (w, target) =>
    w.done("infospace__search-within-collection", { target, query: "somebody 7919" }),
  "searched among all notes": (w) => w.done("infospace__search-notes", { query: "somebody 7919" }),
  removed: (w, target) => w.done("infospace__remove", { target }),
};

test.each(Object.entries(works))("other work gets its turn while a large collection is %s", async (_what, work) => {
  const w = await world();
  const { handle } = await w.qm.notes.collect(rows, {}, { session: "mine" });

  expect(await countTurns(() => work(w, handle))).toBeGreaterThan(3);
});
