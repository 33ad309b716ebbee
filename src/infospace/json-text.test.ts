import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Json } from "../core/json.ts";
import { parseJsonLines, readJsonLines } from "./json-text.ts";

async function all(values: AsyncIterable<Json>): Promise<Json[]> {
  const read: Json[] = [];
  for await (const value of values) read.push(value);
  return read;
}

describe("JSON lines in chunks", () => {
  test("are the same wherever the chunks are cut, even inside a character", async () => {
    const values = fc.array(fc.jsonValue(), { maxLength: 8 });
    const cuts = fc.array(fc.nat(400), { maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(values, cuts, fc.constantFrom("\n", "\r\n"), fc.boolean(), async (values, cuts, end, isOpen) => {
        const text = values.map((value) => JSON.stringify(value)).join(end) + (isOpen ? "" : end);
        const bytes = Buffer.from(text);
        const edges = [0, ...cuts.filter((at) => at < bytes.length).sort((a, b) => a - b), bytes.length];
        const chunks = edges.slice(1).map((to, index) => bytes.subarray(edges[index], to));

        const asBytes = readJsonLines(chunks);
        expect(await all(asBytes.values)).toEqual(JSON.parse(JSON.stringify(values)));
        expect(asBytes.counts.values).toBe(values.length);
        expect([...parseJsonLines(text).values]).toEqual(JSON.parse(JSON.stringify(values)));
      }),
      { numRuns: 200 },
    );
  });

  test("may begin with a byte order mark, and empty lines are counted", async () => {
    const { values, counts } = readJsonLines(['\uFEFF{"a":1}\r\n', "\r\n  \n", '{"a":2}']);

    expect(await all(values)).toEqual([{ a: 1 }, { a: 2 }]);
    expect(counts).toEqual({ values: 2, empty: 2 });
    expect(await all(readJsonLines([Buffer.from("\uFEFF[1]\n")]).values)).toEqual([[1]]);
  });

  test("names a line that is not JSON", async () => {
    const lines = ["1\n\nno", "pe\n3\n"];

    await expect(all(readJsonLines(lines).values)).rejects.toMatchObject({
      code: "invalid_output",
      details: { line: 3 },
    });
  });

  test("rejects a line over the limit, also an unfinished one", async () => {
    const rules = { lineLimit: 10 };

    expect(await all(readJsonLines(['"12345678"\n1'], rules).values)).toEqual(["12345678", 1]);
    await expect(all(readJsonLines(['1\n"123456789"\n'], rules).values)).rejects.toMatchObject({
      code: "too_large",
      message: expect.stringContaining("line 2"),
    });
    function* endless() {
      for (let chunk = 0; chunk < 1_000; chunk++) yield "1234";
    }
    await expect(all(readJsonLines(endless(), rules).values)).rejects.toMatchObject({ code: "too_large" });
  });

  test("rejects bytes that are not UTF-8", async () => {
    const chunks = [Buffer.from('"a"\n'), Buffer.from([0x22, 0xff, 0x22, 0x0a])];

    await expect(all(readJsonLines(chunks).values)).rejects.toMatchObject({ code: "invalid_output" });
    await expect(all(readJsonLines([Buffer.from([0x22, 0xc3])]).values)).rejects.toMatchObject({
      code: "invalid_output",
    });
  });

  test("closes the source when the reader stops", async () => {
    let closed = false;
    async function* source() {
      try {
        for (;;) yield "1\n";
      } finally {
        closed = true;
      }
    }
    for await (const value of readJsonLines(source()).values) if (value === 1) break;

    expect(closed).toBe(true);
  });
});
