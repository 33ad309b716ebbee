import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import type { Action } from "../../core/action.ts";
import { locate, normalPath } from "./confine.ts";
import { withFile } from "./open-file.ts";
import type { Root } from "./root.ts";
import { readSlice } from "./slice.ts";
import { BOM, HEAD_BYTES, isText, notText, startsWithBom } from "./text.ts";

const input = z.strictObject({
  path: z.string().min(1).describe("File, relative to the root."),
  offset: z.int().min(0).max(1e12).default(0).describe("First line, counted from 0."),
  limit: z.int().min(1).max(100_000).default(2000).describe("Most lines to answer with."),
  byte_offset: z
    .int()
    .min(0)
    .max(1e15)
    .default(0)
    .describe("Bytes of the first line to skip: next_byte_offset of the last answer."),
});

export function readAction(root: Root): Action {
  return defineAction("file", {
    entry: "read",
    description:
      "Read a text file, whole or some lines of it. A long file comes in slices: go on at next_offset. To find where something is, grep instead; to see a folder, list it.",
    effect: "read",
    idempotent: true,
    tags: ["file", "read"],
    input,
    normalize: { path: (path) => normalPath(root, path) },
    examples: [
      { args: { path: "README.md" } },
      { args: { path: "logs/server.log", offset: 4000, limit: 200 }, description: "Lines 4000 to 4199" },
    ],
    run: (args, { signal }) => read(root, args, signal),
  });
}

async function read(root: Root, args: z.output<typeof input>, signal: AbortSignal) {
  const place = await locate(root, args.path);
  return withFile(place, async ({ handle, stats }) => {
    const head = Buffer.alloc(HEAD_BYTES);
    const { bytesRead } = await handle.read(head, 0, HEAD_BYTES, 0);
    const start = head.subarray(0, bytesRead);
    if (!isText(start, bytesRead < HEAD_BYTES)) throw notText(place.path, stats.size);

    const { maxReadBytes, maxScanBytes } = root.limits;
    const hasBom = args.offset === 0 && args.byte_offset < BOM.length && startsWithBom(start);
    const slice = await readSlice(
      handle,
      {
        offset: args.offset,
        skip: hasBom ? BOM.length : args.byte_offset,
        limit: args.limit,
        maxBytes: maxReadBytes,
        toEnd: stats.size <= maxScanBytes,
      },
      signal,
    );
    const content = slice.bytes.toString("utf8");
    return {
      path: place.path,
      content,
      ...(slice.lines === undefined ? {} : { lines: slice.lines }),
      offset: args.offset,
      ...(slice.next === undefined ? {} : { next_offset: slice.next.line }),
      ...(slice.next?.skip ? { next_byte_offset: slice.next.skip } : {}),
      truncated: slice.next !== undefined,
      bytes: stats.size,
      ...(slice.sha256 === undefined ? {} : { sha256: slice.sha256 }),
      // Bytes that are no UTF-8 were replaced: writing this content back would change the file.
      ...(Buffer.from(content).equals(slice.bytes) ? {} : { lossy: true }),
    };
  });
}
