import { expect, test } from "vitest";
import type { JsonObject } from "../../core/json.ts";
import { authorize } from "./authorize.ts";
import { buildRequest } from "./build-request.ts";
import { compileDocument } from "./compile-document.ts";

type Part = Record<string, unknown>;

const SERVER = "https://api.example.com/v1";
const parameter = (name: string, place: string, more: Part = {}) => ({
  ...{ name, in: place, required: place === "path", schema: { type: "string" } },
  ...more,
});

/** The request of the only operation of a document, with a credential for every scheme. */
async function build(path: string, operation: Part, args: JsonObject, securitySchemes: Part = {}, credential = "") {
  const method = operation.requestBody === undefined ? "get" : "post";
  const document = { openapi: "3.1.0", paths: { [path]: { [method]: operation } }, components: { securitySchemes } };
  const { api } = await compileDocument(JSON.stringify(document));
  const [compiled] = api.operations;
  if (compiled === undefined) throw new Error("no operation was compiled");
  return buildRequest(
    compiled,
    SERVER,
    args,
    authorize("shop", api, compiled, () => credential),
    "line",
  );
}

test.each([
  [["a", "b"], "/{a}{b}", { a: "x/.", b: "./y" }],
  [["a"], "/x{a}", { a: "/../admin" }],
  [["a"], "/x/{a}.", { a: "%2e" }],
  [["a"], "/{a}", { a: "%2e%2e" }],
  [["a"], "/{a}", { a: "..;x" }],
])("refuses %j that make %s leave it", async (names, path, args) => {
  const parameters = names.map((name) => parameter(name, "path"));
  await expect(build(path, { parameters }, args as JsonObject)).rejects.toThrow("lead to another path");
});

test("refuses the items of a label that are a dot segment together", async () => {
  const list = { style: "label", explode: true, schema: { type: "array", items: { type: "string" } } };
  const parameters = [parameter("a", "path", list)];
  expect((await build("/x{a}", { parameters }, { a: ["b", "c"] })).url).toBe(`${SERVER}/x.b.c`);
  await expect(build("/{a}", { parameters }, { a: ["", "/admin"] })).rejects.toThrow("lead to another path");
});

test("fills in placeholders in the query of a path", async () => {
  const path = "/find?kind=all&q={q}&page={page}&other={other}";
  const parameters = [parameter("q", "path"), parameter("page", "query")];
  const { url } = await build(path, { parameters }, { q: "a&b=c", page: "2", other: "o" });
  expect(url).toBe(`${SERVER}/find?kind=all&q=a%26b%3Dc&other=o&page=2`);
});

test("sends fields of an upload with a style as pairs, and files as files", async () => {
  const schema = {
    type: "object",
    properties: {
      link: { type: "object", properties: { create: { type: "boolean" } } },
      plain: { type: "object" },
      file: { type: "string", format: "binary" },
    },
  };
  const encoding = { link: { style: "deepObject", explode: true }, file: { explode: true } };
  const requestBody = { content: { "multipart/form-data": { schema, encoding } } };
  const args = { link: { create: true }, plain: { a: 1 }, file: { filename: "f.txt", content: "text" } };
  const { body } = await build("/files", { requestBody }, args);
  const text = Buffer.from(body ?? "").toString();
  expect(text).toContain('name="link[create]"\r\n\r\ntrue\r\n');
  expect(text).toContain('name="plain"\r\nContent-Type: application/json\r\n\r\n{"a":1}\r\n');
  expect(text).toContain('name="file"; filename="f.txt"\r\nContent-Type: application/octet-stream\r\n\r\ntext\r\n');
});

test.each([
  ["application/x-ndjson", '{"a":1}\n2\n'],
  ["application/json-seq", '\u001e{"a":1}\n\u001e2\n'],
])("sends a list as %s", async (type, sent) => {
  const requestBody = { content: { [type]: { schema: { type: "array", items: {} } } } };
  expect((await build("/a", { requestBody }, { body: [{ a: 1 }, 2] })).body).toBe(sent);
});

test("sends a body whose type the document leaves empty as JSON", async () => {
  const requestBody = { content: { "": { schema: { type: "object", properties: { a: {} } } } } };
  const { headers, body } = await build("/a", { requestBody }, { a: 1 });
  expect([headers["content-type"], body]).toEqual(["application/json", '{"a":1}']);
});

test("sends a form that the document calls a text as it is", async () => {
  const requestBody = { content: { "application/x-www-form-urlencoded": { schema: { type: "string" } } } };
  expect((await build("/a", { requestBody }, { body: "a=1&b=2" })).body).toBe("a=1&b=2");
});

test.each([
  ["abc+/=:x", "abc+/=:x"],
  ["a b;c", "a%20b%3Bc"],
])("sends the cookie %s as %s", async (credential, sent) => {
  const operation = { security: [{ session: [] }] };
  const schemes = { session: { type: "apiKey", in: "cookie", name: "sid" } };
  expect((await build("/a", operation, {}, schemes, credential)).headers.cookie).toBe(`sid=${sent}`);
});

test("accepts only types that a header can hold", async () => {
  const types = ["application/json; charset=utf-8", "text/x\r\nx-evil: 1", "text/\u0100"];
  const content = Object.fromEntries(types.map((type) => [type, {}]));
  const { headers } = await build("/a", { responses: { "2XX": { content } } }, {});
  expect(headers.accept).toBe("application/json; charset=utf-8");
});
