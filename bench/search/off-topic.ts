import type { Table } from "../table.ts";
import { entriesOf } from "./corpus.ts";
import type { Data } from "./data.ts";
import type { Ranker } from "./ranker.ts";
import { sample } from "./sample.ts";

/** Sets about one topic each. They have no tools for the queries of other sets. */
const narrow = ["azuremcp", "haintents", "mcpevals"];
/** Sets whose queries are about other topics. */
const asking = ["haintents", "pieces", "bfcl"];
const QUERIES = 200;

/** Queries of a person or a model that no tool can answer. */
const elsewhere = [
  "colorless green ideas sleep furiously",
  "asdf qwer zxcv",
  "purple monkey dishwasher",
  "sourdough bread recipe",
  "1998 world cup winner",
  "knit a sweater",
  "tune a guitar",
  "bedtime story about dragons",
  "hiking boots for wide feet",
  "translate poem into Latin",
  "book a dentist appointment",
  "wedding speech ideas",
  "identify bird song",
  "marathon training plan",
  "sudoku solver",
  "horoscope for Leo",
  "rent a bicycle in Amsterdam",
  "train a puppy",
  "chess opening theory",
  "grow tomatoes on a balcony",
];

/** The share of off-topic queries that get an empty answer. */
export async function offTopic({ sets }: Data, rankers: readonly Ranker[]): Promise<readonly Table[]> {
  const rows: string[][] = [];
  for (const set of sets.filter(({ name }) => narrow.includes(name))) {
    const entries = entriesOf(set.tools);
    const rankings = await Promise.all(rankers.map(({ build }) => build(entries)));
    const sources = [
      { name: "made up", queries: elsewhere },
      ...sets
        .filter(({ name }) => asking.includes(name) && name !== set.name)
        .map(({ name, queries }) => ({ name, queries: sample(queries, QUERIES).map(({ query }) => query) })),
    ];
    for (const { name, queries } of sources) {
      const shares: string[] = [];
      for (const ranking of rankings) {
        let empty = 0;
        for (const query of queries) if ((await ranking.rank(query, 5)).length === 0) empty++;
        shares.push(((100 * empty) / queries.length).toFixed(0));
      }
      rows.push([`${set.name}, ${name === "made up" ? "made-up queries" : `queries of ${name}`}`, ...shares]);
    }
    for (const ranking of rankings) ranking.close?.();
  }
  return [
    {
      title: "search: off-topic queries with an empty answer, in percent",
      head: ["", ...rankers.map(({ name }) => name)],
      rows,
    },
  ];
}
