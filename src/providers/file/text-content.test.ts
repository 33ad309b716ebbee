import { open } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import { removeTestRoots, testRoot } from "./testing.ts";
import { readLineBlocks } from "./text-content.ts";

afterEach(removeTestRoots);

async function linesOf(content: string | Uint8Array) {
  const { path } = await testRoot({ a: content });
  const handle = await open(join(path, "a"));
  const lines: string[] = [];
  let cut = 0;
  for await (const block of readLineBlocks({ handle, stats: await handle.stat() }, "a", new AbortController().signal)) {
    lines.push(...block.lines);
    cut += block.cut;
  }
  await handle.close();
  return { lines, cut };
}

test("reads lines across chunks, without line ends", async () => {
  const line = fc.oneof(
    fc.string({ unit: "grapheme-ascii", maxLength: 5 }),
    fc.constantFrom("é".repeat(70_000), "x".repeat(131_071), "y".repeat(65_536)),
  );
  const clean = line.map((text) => text.replace(/[\r\n]/g, ""));

  await fc.assert(
    fc.asyncProperty(
      fc.array(clean, { minLength: 1, maxLength: 6 }),
      fc.constantFrom("\n", "\r\n"),
      async (lines, end) => {
        expect(await linesOf(lines.map((text) => text + end).join(""))).toEqual({ lines, cut: 0 });
      },
    ),
    { numRuns: 30 },
  );
});

test("reads a last line without a line end", async () => {
  expect(await linesOf("a\n\nb")).toEqual({ lines: ["a", "", "b"], cut: 0 });
  expect(await linesOf("")).toEqual({ lines: [], cut: 0 });
});

test("cuts a very long line, and keeps the others", async () => {
  const { lines, cut } = await linesOf(`first\n${"x".repeat(5_000_000)}\nlast\n`);

  expect(cut).toBe(1);
  expect(lines.map((line) => line.slice(0, 5))).toEqual(["first", "xxxxx", "last"]);
  expect(lines[1]?.length).toBeLessThan(1_300_000);
});
