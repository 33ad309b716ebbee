import { once } from "node:events";
import { Readable } from "node:stream";
import { expect, test } from "vitest";
import { Streamed } from "./handler-result.ts";

test("throws conflict when a stream is taken twice", () => {
  const streamed = Streamed.records([1, 2]);

  expect(streamed.take()).toEqual({ form: "records", values: [1, 2] });
  expect(() => streamed.take()).toThrowError(expect.objectContaining({ code: "conflict" }));
});

test("closes an unread source, and leaves a taken one open", async () => {
  const unwanted = Readable.from(["{}\n"]);
  const closed = once(unwanted, "close");
  await Streamed.jsonLines(unwanted).discard();
  await closed;
  expect(unwanted.destroyed).toBe(true);

  const read = Readable.from(["{}\n"]);
  const streamed = Streamed.jsonLines(read);
  streamed.take();
  await streamed.discard();
  expect(read.destroyed).toBe(false);
});

test("ends an unread iterator", async () => {
  let ended = false;
  const values = {
    [Symbol.asyncIterator]: () => ({
      next: async () => ({ done: false, value: 1 }),
      return: async () => {
        ended = true;
        return { done: true as const, value: undefined };
      },
    }),
  };

  await Streamed.records(values).discard();

  expect(ended).toBe(true);
});
