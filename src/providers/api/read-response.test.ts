import { expect, test } from "vitest";
import type { JsonObject } from "../../core/json.ts";
import type { ApiOperation } from "./compiled-api.ts";
import { readApiResponse } from "./read-response.ts";

const SERVER = "https://api.example.com/v1";
const query = ["page", "limit", "tags", "cursor"].map((name) => ({
  ...{ argument: name, name, in: "query" as const, style: "form" as const, explode: true },
}));
const operation: ApiOperation = {
  ...{ entry: "list", method: "GET", path: "/things", description: "Lists.", tags: [], security: [] },
  parameters: query,
  schema: { type: "object", properties: { page: { type: "integer" }, limit: { type: "integer" } } },
};

function read(body: string | Uint8Array, headers: Record<string, string> = {}, args: JsonObject = {}) {
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

test("reads other character sets, and a mark for the byte order", () => {
  expect(read('\uFEFF{"a":1}')).toMatchObject({ body: { a: 1 } });
  const latin = Buffer.from('{"a":"\u00e9"}', "latin1");
  expect(read(latin, { "content-type": "application/json; charset=ISO-8859-1" })).toMatchObject({
    body: { a: "\u00e9" },
  });
  expect(read('{"a":1}', { "content-type": 'application/json; charset="no-such"' })).toMatchObject({ body: { a: 1 } });
});
