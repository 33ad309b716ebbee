import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createLineReader, type DroppedLine } from "./line-reader.ts";

function reading(limit = 1024, worthwhile?: (head: Buffer) => boolean) {
  const lines: string[] = [];
  const givenUp: string[] = [];
  const dropped: DroppedLine[] = [];
  const reader = createLineReader({
    limit,
    onLine: (line) => lines.push(line.toString()),
    onGivenUp: (head) => givenUp.push(head.toString()),
    onDropped: (line) => dropped.push(line),
    ...(worthwhile && { worthwhile }),
  });
  return { reader, lines, givenUp, dropped, push: (text: string) => reader.push(Buffer.from(text)) };
}

describe("a line reader", () => {
  test("reads the same lines however the bytes are cut", () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: "grapheme", maxLength: 40 }).filter((line) => !/[\r\n]/.test(line))),
        fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1 }),
        fc.constantFrom("\n", "\r\n"),
        (expected, cuts, ending) => {
          const { reader, lines } = reading();
          const bytes = Buffer.from(expected.map((line) => line + ending).join(""));
          for (let at = 0, n = 0; at < bytes.length; n++) {
            const end = at + (cuts[n % cuts.length] ?? 1);
            reader.push(bytes.subarray(at, end));
            at = end;
          }
          expect(lines).toEqual(expected.filter((line) => line !== ""));
        },
      ),
    );
  });

  test("emits an unfinished line at the end, and shows it as pending before", () => {
    const { reader, lines, push } = reading();
    push("one\ntw");
    expect(reader.pending().toString()).toBe("tw");
    push("o");
    reader.end();

    expect(lines).toEqual(["one", "two"]);
    expect(reader.pending()).toHaveLength(0);
  });

  test.each(["in one piece", "byte by byte"])("drops a line that is too long and reads on: %s", (how) => {
    const { lines, dropped, givenUp, push } = reading(10);
    const text = "short\n12345678901234\nnext\n1234567890\n";
    if (how === "in one piece") push(text);
    else for (const character of text) push(character);

    expect(lines).toEqual(["short", "next", "1234567890"]);
    expect(givenUp).toHaveLength(1);
    expect(dropped.map(({ bytes, head, tail }) => [bytes, `${head}`.slice(0, 5), `${tail}`])).toEqual([
      [14, "12345", "12345678901234"],
    ]);
  });

  test("calls onGivenUp as soon as it gives a line up", () => {
    const { givenUp, dropped, push } = reading(10);
    for (let n = 0; n < 1_000; n++) push("without end");

    expect(givenUp).toHaveLength(1);
    expect(dropped).toEqual([]);
  });

  test("keeps head and tail of a line that it gives up", () => {
    const { dropped, push } = reading(5_000);
    push("begin");
    push("-".repeat(4_990));
    push("-".repeat(10_000));
    push("end\n");

    expect(dropped[0]?.bytes).toBe(5 + 4_990 + 10_000 + 3);
    expect(`${dropped[0]?.head}`).toBe(`begin${"-".repeat(1_019)}`);
    expect(`${dropped[0]?.tail}`).toBe(`${"-".repeat(253)}end`);
  });

  test("asks once whether to collect a long line, and drops it if not", () => {
    const asked: string[] = [];
    const { reader, lines, givenUp, push } = reading(1_000_000, (head) => {
      asked.push(head.toString("latin1", 0, 4));
      return head[0] === 0x79;
    });
    push("nope".repeat(100_000));
    expect(reader.pending()).toHaveLength(0);
    push("still the same line\n");
    push(`yes${"!".repeat(100_000)}`);
    push(`${"!".repeat(100_000)}\nshort\n`);

    expect(asked).toEqual(["nope", "yes!"]);
    expect(givenUp).toHaveLength(1);
    expect(lines.map((line) => line.length)).toEqual([200_003, 5]);
  });

  test("copies bytes a constant number of times, however small the chunks", () => {
    const copied: number[] = [];
    const copy = Buffer.prototype.copy;
    Buffer.prototype.copy = function (...given: Parameters<Buffer["copy"]>) {
      const bytes = copy.apply(this, given);
      copied.push(bytes);
      return bytes;
    };
    try {
      const { reader, lines } = reading(64 * 1024 * 1024);
      const piece = Buffer.alloc(4 * 1024, "x");
      for (let n = 0; n < 4_096; n++) reader.push(piece);
      reader.push(Buffer.from("\n"));

      expect(lines[0]).toHaveLength(16 * 1024 * 1024);
      // The large buffer is not kept for the next line.
      expect(reader.pending().buffer.byteLength).toBeLessThan(2 * 1024 * 1024);
      expect(copied.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThan(3 * 16 * 1024 * 1024);
    } finally {
      Buffer.prototype.copy = copy;
    }
  });
});
