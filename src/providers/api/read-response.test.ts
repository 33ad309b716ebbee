import { expect, test } from "vitest";
import type { JsonObject } from "../../core/json.ts";
import type { ApiOperation } from "./compiled-api.ts";
import { readApiResponse } from "./read-response.ts";

const SERVER = "https://api.example.com/v1";
const createOperation = (...names: string[]): ApiOperation => ({
  ...{ entry: "list", method: "GET", path: "/things", description: "Lists.", tags: [], security: [] },
  parameters: names.map((name) => ({ argument: name, name, in: "query", style: "form", explode: true })),
  schema: { type: "object", properties: { page: { type: "integer" }, limit: { type: "integer" } } },
});

function read(
  body: string | Uint8Array,
  headers: Record<string, string> = {},
  args: JsonObject = {},
  operation = createOperation("page", "limit", "tags", "cursor"),
) {
  const response = { url: `${SERVER}/things`, status: 200, body: Buffer.from(body), truncated: false };
  const credentials = { headers: {}, query: [], cookies: [], secrets: ["the-secret-token"] };
  return readApiResponse(
    { ...response, headers: { "content-type": "application/json", ...headers } },
    { api: "shop", operation, server: SERVER, args, credentials },
  );
}

test.each([
  [`<${SERVER}/things?page=1>; rel="prev", <${SERVER}/things?tags=a,b&page=3>; rel="next"`, { page: 3 }],
  [`<${SERVER}/things?page=9>; rel=last, <?page=3>; title="x"; rel = "up next"`, { page: 3 }],
  ["<https://other.example.com/things?page=3>; rel=next", undefined],
  ["<?page=3>; rel=nextish", undefined],
  ["<?cursor=the-secret-token>; rel=next", { cursor: "[secret]" }],
])("finds the next page in the link %s", (link, next) => {
  const args = { tags: ["a", "b"] };
  const wanted = next === undefined ? {} : { next: { args: { ...args, ...next } } };
  expect(read("[]", { link }, args)).toEqual({ status: 200, body: [], headers: expect.anything(), ...wanted });
});

test.each([
  ["cursor", { next_cursor: "n" }, "n"],
  ["cursor", { response_metadata: { next_cursor: "n" } }, "n"],
  ["cursor", { cursor: "n" }, "n"],
  ["start_cursor", { next_cursor: "n", has_more: true }, "n"],
  ["start_cursor", { next_cursor: "n", has_more: false }, undefined],
  ["pageToken", { nextPageToken: "n" }, "n"],
  ["page_token", { next_page_token: "" }, undefined],
  ["nextToken", { nextToken: "n" }, "n"],
  ["marker", { next_marker: "n" }, "n"],
  ["continue", { metadata: { continue: "n" } }, "n"],
  ["offset", { next_page: { offset: "n", uri: "https://other.example.com" } }, "n"],
  ["offset", { result: { next_page_offset: 7 } }, 7],
  ["starting_after", { pages: { next: { page: 2, starting_after: "n" } } }, "n"],
  ["starting_after", { has_more: true, data: [{ id: "a" }, { id: "b" }] }, "b"],
  ["after", { paging: { next: { after: "n" } } }, "n"],
  ["page[cursor]", { meta: { page: { after: "n" } } }, "n"],
  ["page", { meta: { next_page: 3 } }, 3],
  ["offset", { offset: 50, limit: 25, more: true }, 75],
  ["offset", { offset: 50, limit: 25, total_count: 75 }, undefined],
  ["startAt", { startAt: 0, maxResults: 50, total: 120 }, 50],
  ["cursor", { cursor: "now" }, undefined],
  ["id", { next: { id: "n", title: "the next article" } }, undefined],
  ["limit", { next: { limit: 25, offset: 50 } }, undefined],
  ["id", { items: [{ next_id: "n" }] }, undefined],
  ["limit", { limit: 3, constructor: "n" }, undefined],
])("finds the argument %s of the next page in %j", (name, body, value) => {
  const args: JsonObject = name === "cursor" ? { cursor: "now" } : {};
  const result = read(JSON.stringify(body), {}, args, createOperation(name)) as { next?: { args: JsonObject } };
  expect(result.next?.args[name]).toEqual(value);
});

test("looks for a cursor only in the first keys of an answer", () => {
  const createGroup = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`k${at}`, 1]));
  const createAnswer = (groups: number) => {
    const parts = Array.from({ length: groups }, (_, at) => [`g${at}`, createGroup(99)]);
    return JSON.stringify({ a: Object.fromEntries(parts), b: Object.fromEntries(parts), next_cursor: "n" });
  };
  expect(read(createAnswer(49))).toMatchObject({ next: { args: { cursor: "n" } } });
  expect(read(createAnswer(51))).not.toHaveProperty("next");
});

test("lists the events of a stream, up to a limit", () => {
  const readStream = (text: string) => read(text, { "content-type": "text/event-stream" });
  const text =
    'event: note\r\ndata: {"a":1}\r\n\r\n: kept alive\n\ndata:one\ndata: two\nevent:odd\nevent: other\n\ndata: [DONE]';
  const events = [
    { event: "note", data: { a: 1 } },
    { event: "odd", data: "one\ntwo" },
  ];
  expect(readStream(text)).toMatchObject({ body: { events } });
  expect(readStream("data: 1")).toMatchObject({ body: { events: [{ data: 1 }] } });
  expect(readStream("data: 1\n\n".repeat(2_000))).not.toHaveProperty("body.limited");
  expect(readStream("data: 1\n\n".repeat(2_001))).toMatchObject({ body: { limited: true } });
});

test("reads other character sets, and a mark for the byte order", () => {
  expect(read('\uFEFF{"a":1}')).toMatchObject({ body: { a: 1 } });
  const latin = Buffer.from('{"a":"\u00e9"}', "latin1");
  expect(read(latin, { "content-type": "application/json; charset=ISO-8859-1" })).toMatchObject({
    body: { a: "\u00e9" },
  });
  expect(read('{"a":1}', { "content-type": 'application/json; charset="no-such"' })).toMatchObject({ body: { a: 1 } });
});
