import { expect, test } from "vitest";
import { findDocumentProblems } from "./check-document.ts";
import { compileDocument } from "./compile-document.ts";

type Part = Record<string, unknown>;
const ok = { responses: { 200: { description: "ok" } } };
const compile = (parts: Part, options = {}) =>
  compileDocument(JSON.stringify({ openapi: "3.1.0", info: { title: "T", version: "1" }, ...parts }), options);
const postBody = (schema: unknown, type = "application/json") => ({
  "/a": { post: { operationId: "a", requestBody: { required: true, content: { [type]: { schema } } }, ...ok } },
});
async function compileBody(schema: unknown, components: Part = {}, openapi = "3.1.0") {
  const { api } = await compile({ openapi, paths: postBody(schema), components: { schemas: components } });
  return api.operations[0];
}

test.each([
  [{ swagger: "2.0", openapi: undefined, paths: {} }, "is Swagger 2.0"],
  [{ openapi: "2.9", paths: {} }, "has no `openapi: 3.0`"],
  [{ webhooks: { x: { post: {} } } }, "has no paths"],
  [{ paths: {} }, "has no operations"],
])("refuses %j", async (parts, message) => {
  await expect(compile(parts)).rejects.toThrow(message);
});

test("names operations by their id, by method and path without one, and keeps names apart", async () => {
  const get = (operationId?: string) => ({ get: { ...(operationId === undefined ? {} : { operationId }), ...ok } });
  const { api } = await compile({
    paths: { "/a": get("x y/z!"), "/b": get("x_y_z"), "/pets/{id}": get(), "/c#d": get("frag"), "x-note": get("no") },
  });
  expect(api.operations.map(({ entry, path }) => [entry, path])).toEqual([
    ["x_y_z", "/a"],
    ["x_y_z_2", "/b"],
    ["get_pets_id", "/pets/{id}"],
    ["frag", "/c"],
  ]);
});

test("leaves out operations that lead elsewhere or miss a part, and says why", async () => {
  const { api, skipped, unresolved } = await compile({
    servers: [{ url: "https://api.example.com" }],
    paths: {
      "/../admin": { get: ok },
      "/..%2fadmin": { get: ok },
      "/a/..;/admin": { get: ok },
      "/missing": { get: { parameters: [{ $ref: "#/components/parameters/none" }], ...ok } },
      "/outside": { get: { parameters: [{ $ref: "http://127.0.0.1/x.json" }], ...ok } },
      "/server": { get: { servers: [{ url: "file:///etc" }], ...ok } },
      "/fine": { get: { responses: { 200: { $ref: "https://example.com/response.json" } } } },
    },
  });
  expect(api.operations.map(({ path }) => path)).toEqual(["/fine"]);
  expect(skipped.map(({ operation }) => operation)).toEqual([
    "GET /../admin",
    "GET /..%2fadmin",
    "GET /a/..;/admin",
    "GET /missing",
    "GET /outside",
    "GET /server",
  ]);
  expect([...unresolved].sort()).toEqual(["http://127.0.0.1/x.json", "https://example.com/response.json"]);
});

test("reads the files beside a document, and no others", async () => {
  const asked: string[] = [];
  const files: Record<string, string> = {
    "paths/pets.yaml": "get:\n  operationId: pets\n  parameters: [{ $ref: ../parts.yaml#/limit }]\n  responses: {}\n",
    "parts.yaml": "limit: { name: limit, in: query, schema: { $ref: '#/number' } }\nnumber: { type: integer }\n",
  };
  const readPart = async (path: string) => {
    asked.push(path);
    return files[path];
  };
  const paths = { "/pets": { $ref: "paths/pets.yaml" }, "/x": { $ref: "../../etc/passwd.yaml" } };
  const { api, unresolved } = await compile({ paths }, { readPart });
  expect(api.operations[0]?.schema.properties).toEqual({ limit: { type: "integer" } });
  expect(unresolved).toEqual(["../../etc/passwd.yaml"]);
  expect(asked).toEqual(["paths/pets.yaml", "parts.yaml"]);
});

test("uses servers with variables, of the document's address, of paths and of operations", async () => {
  const own = { get: { operationId: "own", servers: [{ url: "https://other.example.com/" }], ...ok } };
  const servers = [
    { url: "https://{region}.example.com/v{n}", variables: { region: { default: "eu" }, n: { default: 2 } } },
  ];
  const filled = await compile({ servers, paths: { "/a": own } });
  expect(filled.api.server).toBe("https://eu.example.com/v2");
  expect(filled.api.operations[0]?.server).toBe("https://other.example.com");
  const relative = { servers: [{ url: "/v3" }], paths: { "/a": { get: ok } } };
  const base = "https://docs.example.com/x/openapi.json";
  expect((await compile(relative, { base })).api.server).toBe("https://docs.example.com/v3");
  expect((await compile({ paths: relative.paths }, { base })).api.server).toBe("https://docs.example.com");
  expect((await compile(relative)).api.server).toBeUndefined();
  const plain = { servers: [{ url: "//api.example.com/v1" }], paths: relative.paths };
  expect((await compile(plain)).api.server).toBe("https://api.example.com/v1");
});

test("converts schemas of OpenAPI 3.0", async () => {
  const schema = {
    type: "object",
    required: ["id", "n"],
    properties: {
      id: { type: "string", readOnly: true },
      n: { type: "integer", minimum: 0, exclusiveMinimum: true, nullable: true },
      password: { type: "string", writeOnly: true },
      kind: { oneOf: [{ $ref: "#/components/schemas/Cat" }, { type: "string" }], discriminator: { propertyName: "t" } },
      self: { $ref: "#/components/schemas/Node" },
    },
  };
  const node = { type: "object", properties: { next: { $ref: "#/components/schemas/Node" } } };
  const operation = await compileBody(schema, { Cat: { type: "object", properties: { t: {} } }, Node: node }, "3.0.3");
  expect(operation?.schema).toEqual({
    type: "object",
    properties: {
      n: { anyOf: [{ type: "integer", exclusiveMinimum: 0 }, { type: "null" }] },
      password: { type: "string" },
      kind: { anyOf: [{ $ref: "#/$defs/Cat" }, { type: "string" }] },
      self: { $ref: "#/$defs/Node" },
    },
    required: ["n"],
    additionalProperties: false,
    $defs: {
      Cat: { type: "object", properties: { t: {} } },
      Node: { type: "object", properties: { next: { $ref: "#/$defs/Node" } } },
    },
  });
});

test("joins the fields of allOf, and keeps siblings of a reference in 3.1", async () => {
  const base = { type: "object", required: ["a"], properties: { a: { type: "string" } } };
  const own = { properties: { b: { $ref: "#/components/schemas/Small", minLength: 2 } } };
  const schemas = { Base: base, Small: { type: "object", properties: { x: { type: "string" } } } };
  const operation = await compileBody({ allOf: [{ $ref: "#/components/schemas/Base" }, own] }, schemas);
  expect(operation?.schema).toMatchObject({
    properties: { a: { type: "string" }, b: { minLength: 2, allOf: [{ $ref: "#/$defs/Small" }] } },
    required: ["a"],
  });
});

test("takes fields beside a reference in 3.1, and not in 3.0", async () => {
  const schemas = { Base: { type: "object", properties: { a: { type: "string" } } } };
  const schema = { $ref: "#/components/schemas/Base", properties: { b: { type: "integer" } }, required: ["b"] };
  const newer = await compileBody(schema, schemas);
  expect(newer?.schema).toMatchObject({ properties: { a: {}, b: { type: "integer" } }, required: ["b"] });
  expect((await compileBody(schema, schemas, "3.0.3"))?.schema.properties).toEqual({ a: { type: "string" } });
});

test("leaves out rules that would refuse every value", async () => {
  const screens = { type: "object", additionalProperties: false, required: ["none"], properties: { one: {} } };
  const name = { type: "string", pattern: "/^[a-z]+$/" };
  const kind = { type: "string", enum: [] };
  const operation = await compileBody({ type: "object", properties: { kind, name, screens } });
  expect(operation?.schema.properties).toEqual({
    kind: { type: "string" },
    name: { type: "string" },
    screens: { type: "object", additionalProperties: false, properties: { one: {} } },
  });
});

test("follows references that stand for a whole map", async () => {
  const parts = { schemes: { k: { type: "apiKey", in: "header", name: "x-k" } }, schemas: { S: { type: "integer" } } };
  const components = { securitySchemes: { $ref: "#/x-parts/schemes" }, schemas: { $ref: "#/x-parts/schemas" } };
  const parameters = [{ name: "n", in: "query", schema: { $ref: "#/components/schemas/S" } }];
  const { api } = await compile({ paths: { "/a": { get: { parameters, ...ok } } }, components, "x-parts": parts });
  expect(api.schemes).toEqual({ k: { kind: "key", in: "header", name: "x-k" } });
  expect(api.operations[0]?.schema.properties).toEqual({ n: { type: "integer" } });
  const circle = {
    components: { schemas: { $ref: "#/components/schemas" } },
    paths: { "/a": { get: { parameters, ...ok } } },
  };
  expect((await compile(circle)).api.operations[0]?.schema.properties).toEqual({ n: {} });
});

test("takes no parameters that stand for another method, path or host", async () => {
  const names = ["Host", "Cookie", "Content-Length", "X-HTTP-Method-Override", "X-Original-URL", "x-note"];
  const parameters = names.map((name) => ({ name, in: "header", schema: { type: "string" } }));
  const { api } = await compile({ paths: { "/a": { get: { parameters, ...ok } } } });
  expect(api.operations[0]?.parameters.map(({ name }) => name)).toEqual(["x-note"]);
});

test("fills in declared keys from credentials, and a required one of another set too", async () => {
  const key = (name: string) => ({ name, in: "query", required: true, schema: { type: "string" } });
  const { api } = await compile({
    paths: { "/a": { get: { parameters: [key("key"), key("token"), key("q")], ...ok } } },
    security: [{ k: [] }, { t: [] }],
    components: {
      securitySchemes: {
        k: { type: "apiKey", in: "query", name: "key" },
        t: { type: "apiKey", in: "query", name: "token" },
        m: { type: "mutualTLS" },
      },
    },
  });
  expect(api.operations[0]?.parameters.map(({ name }) => name)).toEqual(["q"]);
  expect(api.operations[0]?.security).toEqual([
    ["k", "t"],
    ["t", "k"],
  ]);
  expect(Object.keys(api.schemes)).toEqual(["k", "t"]);
});

test("reads merge keys of YAML", async () => {
  const text = `
openapi: 3.0.0
x-get: &get { description: base, responses: {} }
x-more: &more { <<: *get, deprecated: true }
paths:
  /a: { get: { <<: [*more, *get], operationId: a, description: own } }
`;
  expect((await compileDocument(text)).api.operations[0]).toMatchObject({
    description: "own. Deprecated.",
    tags: ["deprecated"],
  });
});

test("takes the header Authorization from a secret, also without a security scheme", async () => {
  const header = (required: boolean) => [{ name: "authorization", in: "header", required, schema: { type: "string" } }];
  const paths = {
    "/a": { get: { parameters: header(true), ...ok } },
    "/b": { get: { parameters: header(false), ...ok } },
    "/c": { get: { parameters: header(true), security: [{ b: [] }], ...ok } },
    "/d": { get: ok },
  };
  const components = { securitySchemes: { b: { type: "http", scheme: "bearer" } } };
  const { api } = await compile({ paths, components });
  expect(api.operations.map(({ security }) => security)).toEqual([
    [["Authorization"]],
    [["Authorization"], []],
    [["b"]],
    [],
  ]);
  expect(api.schemes).toEqual({
    Authorization: { kind: "key", in: "header", name: "Authorization" },
    b: { kind: "bearer" },
  });
});

/** Each of them would take hours if the work were not limited. */
test("ends soon with hostile documents", async () => {
  const reference = (name: string) => ({ $ref: `#/components/schemas/${name}` });
  const names = Array.from({ length: 40 }, (_, index) => `S${index}`);
  const doubling = Object.fromEntries(
    names.map((name, index) => {
      const next = index === 39 ? { type: "string" } : reference(`S${index + 1}`);
      return [name, { type: "object", required: ["a", "b"], properties: { a: next, b: next } }];
    }),
  );
  const wide = { allOf: Array.from({ length: 300 }, () => reference("W")) };
  const clique = Object.fromEntries(
    names.map((name) => [
      name,
      { type: "object", properties: Object.fromEntries(names.map((n) => [n, reference(n)])) },
    ]),
  );
  expect((await compileBody(reference("S0"), doubling))?.schema).toBeDefined();
  expect((await compileBody(reference("W"), { W: wide }))?.schema).toBeDefined();
  expect((await compileBody(reference("S0"), clique))?.schema).toBeDefined();
  const { document } = await compile({ paths: postBody(reference("S0")), components: { schemas: doubling } });
  expect(await findDocumentProblems(document)).toBeUndefined();
  const aliases = `openapi: 3.1.0\npaths: {}\na0: &a0 [1, 1]\n${names.map((_, i) => `a${i + 1}: &a${i + 1} [*a${i}, *a${i}]`).join("\n")}`;
  await expect(compileDocument(aliases)).rejects.toThrow("has more than 2000000 parts");
  const keys = Array.from({ length: 1_000 }, (_, index) => `  k${index}: 1`).join("\n");
  const merges = `openapi: 3.1.0\npaths: {}\na: &a\n${keys}\nb: { <<: [${"*a,".repeat(4_000)}] }`;
  await expect(compileDocument(merges)).rejects.toThrow("has more than 2000000 parts");
  const anchors = Array.from({ length: 20_000 }, (_, index) => `a${index}: &a${index} 1\nb${index}: *a${index}`);
  await expect(compileDocument(`openapi: 3.1.0\n${anchors.join("\n")}`)).rejects.toThrow("more than 5000 aliases");
  const long = (sign: string) => `a${sign.repeat(200_000)}a`;
  const servers = [{ url: `https://api.example.com/${long("/")}` }];
  const lengthy = { [`/${long("b")}`]: { get: ok }, "/short": { get: { operationId: long("_"), ...ok } } };
  const { api: named, skipped } = await compile({ servers, paths: lengthy });
  expect([named.server, named.operations.map(({ path }) => path), skipped.length]).toEqual([undefined, ["/short"], 1]);
  const large = {
    type: "object",
    properties: Object.fromEntries(names.map((n) => [n, { enum: ["x".repeat(4_000)] }])),
  };
  const many = Object.fromEntries(
    Array.from({ length: 8 }, (_, index) => [`/p${index}`, postBody({ anyOf: [large, reference("S0")] })["/a"]]),
  );
  const { api, trimmed } = await compile({ paths: many, components: { schemas: clique } });
  expect([api.operations.length, trimmed.length]).toEqual([8, 8]);
});

test("reports what breaks the rules of OpenAPI", async () => {
  const { document } = await compile({
    paths: { "/a": { get: { responses: {}, parameters: [{ name: "x", in: "hat" }] } } },
  });
  expect((await findDocumentProblems(document))?.length).toBeGreaterThan(0);
});
