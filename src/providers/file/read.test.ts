import { open, writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { removeTestRoots, type TestRoot, testRoot } from "./testing.ts";
import { sha256 } from "./write.ts";

afterEach(removeTestRoots);

test("returns a small file as a whole", async () => {
  const { call } = await testRoot({ "a.txt": "one\ntwo\n" });

  const answer = await call("read", { path: "a.txt" });

  expect(answer).toEqual({
    path: "a.txt",
    content: "one\ntwo\n",
    lines: 2,
    offset: 0,
    truncated: false,
    bytes: 8,
    sha256: "c3f9c8c283a2b1f2f1896f27a01cbe3cddc0c9d93f752e4639035a0f5b36f6e8",
  });
});

test("returns some lines, and where to continue", async () => {
  const { call } = await testRoot({ "a.txt": "0\n1\n2\n3\n4" });

  expect(await call("read", { path: "a.txt", offset: 1, limit: 2 })).toMatchObject({
    content: "1\n2\n",
    lines: 5,
    next_offset: 3,
    truncated: true,
  });
  expect(await call("read", { path: "a.txt", offset: 3 })).toMatchObject({ content: "3\n4", truncated: false });
  expect(await call("read", { path: "a.txt", offset: 9 })).toMatchObject({ content: "", lines: 5, truncated: false });
});

test.each([
  ["", 0],
  ["\n", 1],
  ["a", 1],
  ["a\r\nb", 2],
])("counts the lines of %j as %i", async (content, lines) => {
  const { call } = await testRoot({ "a.txt": content });

  expect(await call("read", { path: "a.txt" })).toMatchObject({ content, lines });
});

test("leaves a byte order mark out of the content", async () => {
  const { call } = await testRoot({ "a.txt": "\ufeffone\ntwo" });

  const answer = await call("read", { path: "a.txt" });

  expect(answer).toMatchObject({ content: "one\ntwo", bytes: 10 });
  expect(answer).not.toHaveProperty("lossy");
});

test("reports replaced invalid bytes", async () => {
  const { call } = await testRoot({ "a.txt": Buffer.concat([Buffer.alloc(9000, "a\n"), Buffer.from([0xff, 0xfe])]) });

  expect(await call("read", { path: "a.txt", offset: 4499 })).toMatchObject({
    content: "a\n\ufffd\ufffd",
    lossy: true,
  });
});

test.each([
  ["NUL", Buffer.from("PNG\0\x01")],
  ["bytes that are no UTF-8", Buffer.from([0x68, 0xe9, 0x0a])],
  ["UTF-16", Buffer.from("text", "utf16le")],
])("refuses a file with %s, and reports its size", async (_what, content) => {
  const { refusal } = await testRoot({ "a.bin": content });

  const error = await refusal("read", { path: "a.bin" });

  expect(error).toMatchObject({ code: "unsupported_content", details: { bytes: content.length } });
  expect(error.hint).toBeDefined();
});

test("accepts text whose 8192nd byte is inside a character", async () => {
  const content = `${"a".repeat(8191)}é`;
  const { call } = await testRoot({ "a.txt": content });

  expect(await call("read", { path: "a.txt" })).toMatchObject({ content });
});

test("suggests similar names for a missing file", async () => {
  const files = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`src/other-${index}.ts`, ""]));
  const { refusal } = await testRoot({ ...files, "src/config.ts": "", "src/.qm-tmp-00": "" });

  const error = await refusal("read", { path: "src/confg.ts" });
  const further = await refusal("read", { path: "sr/config.ts" });

  expect(error.code).toBe("not_found");
  expect(error.details.suggestions).toHaveLength(8);
  expect(error.details.suggestions).toContain("src/config.ts");
  expect((error.details.suggestions as string[])[0]).toBe("src/config.ts");
  expect(further.details.suggestions).toEqual(["src"]);
});

test("refuses a folder", async () => {
  const { refusal } = await testRoot({ "src/a.ts": "" });

  expect(await refusal("read", { path: "src" })).toMatchObject({
    code: "conflict",
    message: '"src" is a folder, not a file',
  });
  expect(await refusal("read", { path: "." })).toMatchObject({ code: "conflict" });
  expect(await refusal("read", { path: "src/a.ts/x" })).toMatchObject({ code: "not_found" });
});

describe("slices", () => {
  const text = fc.string({
    unit: fc.constantFrom("a", "é", "€", "😀", "\n", "\r\n", "\n\n", "long ".repeat(9)),
    maxLength: 40,
  });

  test.each([
    [4, 1],
    [7, 2],
    [32, 3],
    [1000, 5],
  ])("of at most %i bytes and %i lines, joined, are the file", async (maxReadBytes, limit) => {
    const scanning = await testRoot({}, { maxReadBytes });
    const stopping = await testRoot({}, { maxReadBytes, maxScanBytes: 1 });

    await fc.assert(
      fc.asyncProperty(text, fc.constantFrom(scanning, stopping), async (content, root) => {
        await writeFile(join(root.path, "a.txt"), content);
        expect(await joinedSlices(root, "a.txt", limit)).toBe(content);
      }),
      { numRuns: 40 },
    );
  });

  test("continue within a line longer than a slice", async () => {
    const content = `short\n${"0123456789".repeat(100)}\nend`;
    const root = await testRoot({ "a.txt": content }, { maxReadBytes: 64 });

    const answer = await root.call("read", { path: "a.txt", offset: 1 });

    expect(answer).toMatchObject({ next_offset: 1, next_byte_offset: 64, truncated: true });
    expect(await joinedSlices(root, "a.txt", 2000)).toBe(content);
  });

  test("of 200 MB are read in little memory", async () => {
    const { call, path } = await testRoot();
    await makeLarge(join(path, "large.txt"), 200 * 1024 * 1024);
    const before = process.memoryUsage().rss;

    const first = await call("read", { path: "large.txt", limit: 10 });
    const last = await call("read", { path: "large.txt", offset: 5001 });
    const inside = await call("read", { path: "large.txt", offset: 5000, byte_offset: 100_000_000 });

    expect(first).toMatchObject({ content: "a line\n".repeat(10), next_offset: 10, truncated: true });
    expect(first).not.toHaveProperty("lines");
    expect(last).toMatchObject({ content: "the end\n", lines: 5002, truncated: false });
    expect(inside).toMatchObject({ truncated: true, next_byte_offset: 100_000_000 + 256 * 1024 });
    expect(process.memoryUsage().rss - before).toBeLessThan(60 * 1024 * 1024);
  });

  test("stop when the call is cancelled", async () => {
    const { call, path } = await testRoot();
    await makeLarge(join(path, "large.txt"), 2 ** 34);

    await expect(call("read", { path: "large.txt", offset: 1e9 }, AbortSignal.timeout(50))).rejects.toThrow(
      /abort|timeout/i,
    );
  });
});

async function joinedSlices(root: TestRoot, path: string, limit: number): Promise<string> {
  let content = "";
  let next = { offset: 0, byte_offset: 0 };
  for (;;) {
    const answer = await root.call("read", { path, limit, ...next });
    content += answer.content;
    if (answer.next_offset === undefined) return content;
    next = { offset: Number(answer.next_offset), byte_offset: Number(answer.next_byte_offset ?? 0) };
  }
}

/** 5000 lines, then one line that is a hole, then one line more. */
async function makeLarge(path: string, size: number): Promise<void> {
  const file = await open(path, "w");
  await file.write("a line\n".repeat(5000), 0);
  await file.write("\nthe end\n", size);
  await file.close();
}

describe("without a limit", () => {
  const long = "a line of text\n".repeat(5000);

  test("a long file is returned whole", async () => {
    const { call } = await testRoot({ "a.txt": long });

    expect(await call("read", { path: "a.txt" })).toMatchObject({ content: long, lines: 5000, truncated: false });
    expect(await call("read", { path: "a.txt", offset: 1 })).toMatchObject({ next_offset: 2001, truncated: true });
    const small = await testRoot({ "a.txt": long }, { maxReadBytes: 1_000 });
    expect(await small.call("read", { path: "a.txt" })).toMatchObject({ content: long, truncated: false });
  });

  test("a file over the limit comes in slices", async () => {
    const { call } = await testRoot({ "a.txt": long }, { maxWholeBytes: long.length - 1 });

    expect(await call("read", { path: "a.txt" })).toMatchObject({ lines: 5000, next_offset: 2000, truncated: true });
  });
});

describe("an image", () => {
  const sizes = { width: 3, height: 2 };
  const png = Buffer.from("89504e470d0a1a0a0000000d4948445200000003000000020802000000", "hex");
  const gif = Buffer.from("47494638396103000200800000", "hex");
  const jpeg = Buffer.from(
    "ffd8ffe000104a46494600010100000100010000ffc40005110000ffc0001108000200030301220002110103",
    "hex",
  );
  const webp = Buffer.from("524946461e000000574542505650385800000000000000000200000100000000", "hex");

  test.each([
    ["image/png", png],
    ["image/gif", gif],
    ["image/jpeg", jpeg],
    ["image/webp", webp],
  ])("of the type %s is returned as media, whatever its name", async (mediaType, bytes) => {
    const { call } = await testRoot({ "picture.txt": bytes });

    const answer = await call("read", { path: "picture.txt" });

    expect(answer).toMatchObject({
      data: { path: "picture.txt", media_type: mediaType, bytes: bytes.length, ...sizes, sha256: sha256(bytes) },
      content: { blocks: [{ type: "text" }, { type: "image", mimeType: mediaType, data: bytes.toString("base64") }] },
    });
  });

  test("that is cut off has no size", async () => {
    const { call } = await testRoot({ "a.jpg": jpeg.subarray(0, 22) });

    const { data } = await call("read", { path: "a.jpg" });

    expect(data).toMatchObject({ media_type: "image/jpeg" });
    expect(data).not.toHaveProperty("width");
  });

  test("over the limit is refused", async () => {
    const { refusal } = await testRoot({ "a.png": png }, { maxImageBytes: 8 });

    expect(await refusal("read", { path: "a.png" })).toMatchObject({ code: "too_large" });
  });

  test("in SVG is text", async () => {
    const { call } = await testRoot({ "a.svg": "<svg/>" });

    expect(await call("read", { path: "a.svg" })).toMatchObject({ content: "<svg/>" });
  });
});
