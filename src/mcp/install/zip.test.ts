import { strToU8, type Zippable, zipSync } from "fflate";
import { describe, expect, test } from "vitest";
import { refusalOf } from "./testing.ts";
import { readZip } from "./zip.ts";

const limits = { entries: 100, bytes: 2 ** 20 };
const LINK = 0o120777;

const zip = (files: Zippable) => Buffer.from(zipSync(files));
const text = strToU8("hello");

describe("an archive", () => {
  test("gives its files, packed or not, and whether they are programs", async () => {
    const archive = zip({
      "manifest.json": strToU8("{}".repeat(500)),
      bin: { run: [text, { os: 3, attrs: (0o100755 << 16) >>> 0, level: 0 }], "読.txt": text },
      empty: {},
    });

    const entries = readZip(archive, limits);

    expect(entries.map(({ path, size, isExecutable }) => [path, size, isExecutable])).toEqual([
      ["manifest.json", 1000, false],
      ["bin/run", 5, true],
      ["bin/読.txt", 5, false],
    ]);
    expect(await Promise.all(entries.map(async (entry) => (await entry.bytes()).toString()))).toEqual([
      "{}".repeat(500),
      "hello",
      "hello",
    ]);
  });

  test.each([
    "../out",
    "a/../../out",
    "/etc/passwd",
    "C:/out",
    "a\\..\\out",
    "a/./b",
    "a//b",
    "..",
    "a\u0000b",
    "nul",
    "con.txt",
    "a./b",
  ])("that would leave its folder by %j is refused", async (name) => {
    const refusal = await refusalOf(() => readZip(zip({ fine: text, [name]: text }), limits));

    expect(refusal).toMatchObject({ code: "invalid_arguments", hint: expect.stringContaining("Nothing was unpacked") });
  });

  test("with a link in it is refused", async () => {
    const archive = zip({ link: [strToU8("/etc/passwd"), { os: 3, attrs: (LINK << 16) >>> 0 }] });

    expect((await refusalOf(() => readZip(archive, limits))).message).toContain("a link or a device");
  });

  test("with the same file twice, also for a file system that ignores case, is refused", async () => {
    expect((await refusalOf(() => readZip(zip({ "a/B": text, "A/b": text }), limits))).message).toContain("twice");
    expect((await refusalOf(() => readZip(zip({ a: text, "a/b": text }), limits))).message).toContain(
      "a file and a folder",
    );
  });

  test("that holds too many files, or too much, is refused before anything is unpacked", async () => {
    const many = Object.fromEntries(Array.from({ length: 101 }, (_, at) => [`f${at}`, text]));
    const bomb = zip({ a: new Uint8Array(2 ** 19), b: new Uint8Array(2 ** 19 + 1) });

    expect((await refusalOf(() => readZip(zip(many), limits))).message).toContain("more than 100");
    expect(bomb.length).toBeLessThan(10_000);
    expect((await refusalOf(() => readZip(bomb, limits))).message).toContain("more than 1 MiB");
  });

  test("with more content than it declares is refused", async () => {
    const archive = zip({ a: new Uint8Array(2 ** 19) });
    const central = archive.indexOf(Buffer.from([0x50, 0x4b, 1, 2]));
    archive.writeUInt32LE(10, central + 24);

    const [entry] = readZip(archive, limits);

    expect((await refusalOf(async () => entry?.bytes())).message).toContain('"a" is broken');
  });

  test("that is cut short, encrypted or not an archive is refused", async () => {
    const good = zip({ a: text, b: text });
    const encrypted = Buffer.from(good);
    encrypted.writeUInt16LE(1, good.indexOf(Buffer.from([0x50, 0x4b, 1, 2])) + 8);

    for (const bytes of [
      Buffer.alloc(0),
      Buffer.from("no archive"),
      good.subarray(0, -10),
      good.subarray(40),
      encrypted,
    ])
      expect((await refusalOf(() => readZip(bytes, limits))).code).toBe("invalid_arguments");
  });

  test("that is damaged anywhere is read or refused with an error of ours", async () => {
    const good = zip({ "manifest.json": strToU8("{}".repeat(200)), b: { c: text } });
    for (let at = 0; at < good.length; at++) {
      const bytes = Buffer.from(good);
      bytes.writeUInt8(bytes.readUInt8(at) ^ 0xff, at);
      try {
        for (const entry of readZip(bytes, limits)) await entry.bytes();
      } catch (thrown) {
        expect(thrown).toMatchObject({ name: "QmError", code: "invalid_arguments" });
      }
    }
  });
});
