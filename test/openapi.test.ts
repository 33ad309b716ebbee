import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { join, resolve } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterEach, expect, test } from "vitest";
import { parse } from "yaml";
import { atTerminal, cleanUp, createTestFolder, qm } from "../src/cli/testing.ts";
import type { JsonObject } from "../src/core/json.ts";
import { type ApiOperation, parseCompiledApi } from "../src/providers/api/compiled-api.ts";
import { createSampleArguments } from "../src/providers/api/sample-arguments.ts";
import { openWorkspace } from "../src/workspace/workspace.ts";
import { type PlayedRequest, playDocument } from "./support/openapi-server.ts";

const shared = resolve(import.meta.dirname, "../../shared/openapi");
const hasDocuments = existsSync(shared);
if (!hasDocuments) console.warn(`SKIPPED: the real OpenAPI documents are not in ${shared}`);

const closing: (() => void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) close();
  await cleanUp();
});

const CONFIG = "actors: { default: { tools: ['*'] } }\n";
const TOKEN = "the-secret-token";

async function play(document: object) {
  const played = await playDocument(structuredClone(document) as Record<string, unknown>);
  closing.push(played.close);
  return played;
}

/** Runs `qm import openapi` at a terminal where a person says yes, and stores a credential for every secret. */
async function importDocument(cwd: string, argv: readonly string[]) {
  const { code, out, err } = await qm(cwd, ["import", "openapi", ...argv, "--json"], atTerminal("y\n"));
  expect([code, code === 0 ? "" : err]).toEqual([0, ""]);
  const report = JSON.parse(out);
  const workspace = await openWorkspace({ cwd, env: {} });
  closing.push(() => void workspace.close());
  for (const secret of report.missing_secrets) await workspace.secrets.set(secret, TOKEN);
  return { report, workspace };
}

function readOperations(cwd: string): readonly ApiOperation[] {
  const folder = join(cwd, ".quartermaster/apis");
  const [file = ""] = readdirSync(folder);
  return parseCompiledApi(readFileSync(join(folder, file), "utf8")).operations;
}

/** Values as a server reads them where the wire has only texts. */
function toTexts(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toTexts);
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, toTexts(each)]));
  return value === null ? "" : String(value);
}

/** Objects inside of a list are JSON, except with `deepObject`. */
const toFlat = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map((each) => (typeof each === "object" && each !== null ? JSON.stringify(each) : toTexts(each)))
    : toTexts(value);

/** What the server should have seen for the arguments of a call. */
function expectRequest(operation: ApiOperation, args: JsonObject, seen: PlayedRequest | undefined): unknown[] {
  if (seen === undefined) return ["not called"];
  const wanted = Object.fromEntries(
    operation.parameters
      .filter(({ argument }) => Object.hasOwn(args, argument) && args[argument] !== null)
      .map(({ argument, name, in: place, style }) => [
        `${place} ${name}`,
        style === "json" ? args[argument] : style === "deepObject" ? toTexts(args[argument]) : toFlat(args[argument]),
      ]),
  );
  const { body } = operation;
  const fields = body?.fields;
  const sent =
    fields === undefined
      ? args[body?.argument ?? "body"]
      : Object.fromEntries(
          Object.entries(args).flatMap(([name, value]) => (Object.hasOwn(fields, name) ? [[fields[name], value]] : [])),
        );
  const isJson = body?.mediaType.includes("json") === true;
  const isAbsent = fields !== undefined && body?.required === false && isSame(sent, {});
  const expected = isAbsent
    ? undefined
    : isJson || typeof sent !== "object"
      ? sent
      : describeForm(operation, sent as JsonObject);
  return [
    ...(seen.problems.length > 0 ? [seen.problems] : []),
    ...(isSame(seen.parameters, wanted) ? [] : [{ parameters: seen.parameters, wanted }]),
    ...(body === undefined || isSame(seen.body, expected) ? [] : [{ body: seen.body, expected }]),
  ];
}

/** Objects in forms are JSON unless they have a style, and files arrive with a name. */
function describeForm({ body }: ApiOperation, sent: JsonObject): unknown {
  const toPart = (name: string, value: unknown): unknown => {
    if (body?.files?.includes(name)) return { filename: "file", content: value };
    const isStyled = body?.encoding?.[name]?.style !== undefined;
    return typeof value === "object" && !isStyled ? value : toTexts(value);
  };
  return Object.fromEntries(
    Object.entries(sent)
      .filter(([, value]) => value !== null)
      .map(([name, value]) => [
        name,
        Array.isArray(value) ? value.map((each) => toPart(name, each)) : toPart(name, value),
      ]),
  );
}

const isSame = (a: unknown, b: unknown) => JSON.stringify(sortKeys(a)) === JSON.stringify(sortKeys(b));
const sortKeys = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.map(sortKeys)
    : typeof value === "object" && value !== null
      ? Object.fromEntries(
          Object.entries(value)
            .sort(([a], [b]) => (a < b ? -1 : 1))
            .map(([key, each]) => [key, sortKeys(each)]),
        )
      : value;

/** Calls every operation with all its arguments, and compares what the server understood. */
async function callEveryOperation(cwd: string, document: object, argv: readonly string[]) {
  const { url, requests } = await play(document);
  const { report, workspace } = await importDocument(cwd, [...argv, "--server", url, "--name", "real"]);
  const operations = readOperations(cwd);
  const wrong: unknown[] = [];
  let withAll = 0;
  for (const operation of operations) {
    const name = `api__real__${operation.entry}`;
    let args = createSampleArguments(operation.schema, "all");
    let outcome = await workspace.quartermaster.invoke(name, args);
    if (outcome.status === "done") withAll++;
    else {
      // Optional arguments can exclude each other.
      args = createSampleArguments(operation.schema);
      requests.length = 0;
      outcome = await workspace.quartermaster.invoke(name, args);
    }
    const problems = expectRequest(operation, args, requests.splice(0).at(-1));
    if (outcome.status !== "done" || problems.length > 0)
      wrong.push({ name, args, problems, outcome: JSON.stringify(outcome).slice(0, 400) });
    expect(JSON.stringify(outcome)).not.toContain(TOKEN);
  }
  return { report, operations, wrong, withAll, workspace };
}

test.skipIf(!hasDocuments).each([
  ["twilio-api-v2010.json.gz", 197, "send a message", "api__real__CreateMessage"],
  ["openai.yaml.gz", 288, "create an embedding vector", "api__real__createEmbedding"],
])(
  "calls every operation of %s as the document says",
  async (file, count, query, found) => {
    const document = parse(gunzipSync(readFileSync(join(shared, file))).toString(), { uniqueKeys: false });
    const cwd = await createTestFolder({ "quartermaster.yaml": CONFIG });
    // The server plays the paths without the path of the real server.
    const { report, operations, wrong, withAll } = await callEveryOperation(cwd, document, [join(shared, file)]);
    expect(report).toMatchObject({ skipped: [], unresolved: [], problems: [], unsupported_schemes: [] });
    expect(operations).toHaveLength(count);
    expect(wrong).toEqual([]);
    expect(withAll).toBeGreaterThan(count * 0.9);

    const listed = JSON.parse((await qm(cwd, ["list", "api", "--limit", "500", "--json"])).out);
    const names = listed.items.map((item: { qualified_name: string }) => item.qualified_name);
    expect(names).toHaveLength(count);
    expect(names).toContain(found);
    const search = await qm(cwd, ["search", query, "--json"]);
    expect(search.out).toContain(found);
  },
  120_000,
);

/** Further documents can be tried with QM_OPENAPI_DOCUMENTS, a folder of them. */
const further = process.env.QM_OPENAPI_DOCUMENTS;
const furtherFiles = further === undefined ? [] : readdirSync(further).filter((file) => /\.(?:json|ya?ml)$/.test(file));
test.skipIf(furtherFiles.length === 0).each(furtherFiles)(
  "calls every operation of %s",
  async (file) => {
    const path = join(further ?? "", file);
    const document = parse(readFileSync(path, "utf8"), { uniqueKeys: false, merge: true });
    const cwd = await createTestFolder({ "quartermaster.yaml": CONFIG });
    const { report, operations, wrong, withAll } = await callEveryOperation(cwd, document, [path]);
    const { skipped, problems } = report;
    console.info(
      `${file}: ${operations.length} operations, ${withAll} with all arguments, ${problems?.length} problems`,
    );
    expect({ skipped, wrong: wrong.slice(0, 3), count: wrong.length }).toEqual({ skipped: [], wrong: [], count: 0 });
  },
  120_000,
);

const scalar = { type: "string" };
const list = { type: "array", items: scalar };
const object = { type: "object", properties: { r: scalar, g: scalar } };
const sent = { scalar: "a b/c?d&e=f,g;h|i", list: ["x y", "1/2"], object: { r: "1 0", g: "a&b" } };

function listStyles() {
  const styles = {
    path: ["simple", "label", "matrix"],
    query: ["form", "spaceDelimited", "pipeDelimited", "deepObject"],
    header: ["simple"],
    cookie: ["form"],
  };
  return Object.entries(styles).flatMap(([place, names]) =>
    names.flatMap((style) => [true, false].map((explode) => ({ place, style, explode }))),
  );
}

test("sends every style of parameter, type of body and security scheme as OpenAPI says", async () => {
  const cases = listStyles().flatMap((each) =>
    Object.entries({ scalar, list, object })
      .filter(([kind]) => !(each.style === "deepObject" && kind !== "object"))
      .filter(([kind]) => !(/Delimited/.test(each.style) && kind === "scalar"))
      .map(([kind, schema]) => ({ ...each, kind, schema })),
  );
  const parameterPaths = cases.map(({ place, style, explode, kind, schema }, index) => {
    const parameter = { name: "value", in: place, required: true, style, explode, schema };
    const path = place === "path" ? `/p${index}/{value}/end` : `/p${index}`;
    return [path, { get: { operationId: `${place}_${style}_${explode}_${kind}`, parameters: [parameter] } }] as const;
  });
  const file = { type: "string", format: "binary" };
  const bodies = {
    json: ["application/json", { type: "object", required: ["a"], properties: { a: object, b: list } }, {}],
    patch: ["application/json-patch+json", { type: "array", items: object }, {}],
    form: [
      "application/x-www-form-urlencoded",
      { type: "object", properties: { a: object, b: list, c: scalar, d: object, e: list } },
      { d: { style: "deepObject", explode: true }, e: { style: "pipeDelimited", explode: false } },
    ],
    upload: [
      "multipart/form-data",
      {
        type: "object",
        properties: { a: object, b: list, c: scalar, one: file, many: { type: "array", items: file } },
      },
      {},
    ],
    text: ["text/plain", scalar, {}],
    bytes: ["application/octet-stream", file, {}],
  } as const;
  const bodyPaths = Object.entries(bodies).map(([name, [type, schema, encoding]]) => [
    `/${name}`,
    { post: { operationId: name, requestBody: { required: true, content: { [type]: { schema, encoding } } } } },
  ]);
  const key = (place: string) => ({ type: "apiKey", in: place, name: `x-${place}` });
  const securitySchemes = {
    header: key("header"),
    query: key("query"),
    cookie: key("cookie"),
    basic: { type: "http", scheme: "basic" },
    bearer: { type: "http", scheme: "bearer" },
    other: { type: "http", scheme: "Token" },
    oauth: { type: "oauth2", flows: {} },
    oidc: { type: "openIdConnect", openIdConnectUrl: "https://example.com/" },
  };
  const sets = [...Object.keys(securitySchemes).map((name) => [name]), ["header", "query"], []];
  const securityPaths = sets.map((set) => {
    const security = [Object.fromEntries(set.map((name) => [name, []]))];
    return [`/s/${set.join("-")}`, { get: { operationId: `auth_${set.join("_")}`, security } }];
  });
  const content = { "application/json": { schema: object } };
  const collision = {
    operationId: "collide",
    parameters: ["path", "query", "header"].map((place) => ({ name: "id", in: place, required: true, schema: scalar })),
    requestBody: {
      required: true,
      content: { "application/json": { schema: { type: "object", properties: { id: list } } } },
    },
  };
  const contentParameter = { name: "filter", in: "query", content };
  const document = {
    openapi: "3.1.0",
    info: { title: "All", version: "1" },
    paths: {
      ...Object.fromEntries([...parameterPaths, ...bodyPaths, ...securityPaths]),
      "/collide/{id}": { post: collision },
      "/content": { get: { operationId: "content", parameters: [contentParameter] } },
    },
    components: { securitySchemes },
  };
  const cwd = await createTestFolder({ "quartermaster.yaml": CONFIG, "all.json": JSON.stringify(document) });
  const { url, requests } = await play(document);
  const { workspace } = await importDocument(cwd, ["all.json", "--server", url]);
  const call = async (name: string, args: JsonObject) => {
    const outcome = await workspace.quartermaster.invoke(`api__all__${name}`, args);
    expect([name, outcome.status, requests.at(-1)?.problems]).toEqual([name, "done", []]);
    return requests.splice(0).at(-1);
  };
  for (const { place, style, explode, kind } of cases) {
    const values = place === "header" ? headerValues : style === "spaceDelimited" ? spaceless : sent;
    const value = values[kind as "scalar"];
    const seen = await call(`${place}_${style}_${explode}_${kind}`, { value });
    expect([place, style, explode, seen?.parameters]).toEqual([place, style, explode, { [`${place} value`]: value }]);
  }
  const { object: a, list: b, scalar: c } = sent;
  expect((await call("json", { a, b }))?.body).toEqual({ a, b });
  expect((await call("patch", { body: [a] }))?.body).toEqual([a]);
  expect((await call("form", { a, b, c, d: a, e: b }))?.body).toEqual({ a, b, c, d: a, e: b });
  const base64 = Buffer.from("two").toString("base64");
  const upload = { a, b, c, one: "text of one", many: [{ filename: "2.txt", base64 }, { content: "3" }] };
  expect((await call("upload", upload))?.body).toEqual({
    ...{ a, b, c },
    one: { filename: "file", content: "text of one" },
    many: [
      { filename: "2.txt", content: "two" },
      { filename: "file", content: "3" },
    ],
  });
  expect((await call("text", { body: "plain\ntext" }))?.body).toBe("plain\ntext");
  expect((await call("bytes", { body: base64 }))?.body).toBe(base64);
  for (const set of sets)
    expect((await call(`auth_${set.join("_")}`.replace(/_$/, ""), {}))?.credentials).toHaveLength(set.length);
  const collided = await call("collide", { id: "1", id_query: "2", id_header: "3", body: { id: ["4"] } });
  expect(collided).toMatchObject({
    parameters: { "path id": "1", "query id": "2", "header id": "3" },
    body: { id: ["4"] },
  });
  expect((await call("content", { filter: a }))?.parameters).toEqual({ "query filter": a });
}, 60_000);

/** Headers are not encoded, and a comma separates values. */
const headerValues = { scalar: "a b?d", list: ["x y", "z"], object: { r: "1 0", g: "a" } };
/** Spaces in a value cannot be told from those between values. */
const spaceless = { scalar: "a", list: ["x/y", "z&"], object: { r: "1=0", g: "a,b" } };

test("sends credentials only to the pinned address, and shows them nowhere", async () => {
  const stolen: unknown[] = [];
  const thief = await listen((request) => {
    stolen.push(request.headers);
    return [200, {}, {}];
  });
  const urls: string[] = [];
  const api = await listen((request) => {
    urls.push(request.url ?? "");
    if (request.url?.startsWith("/v1/away")) return [302, {}, { location: `${thief}/taken` }];
    if (request.url?.startsWith("/v1/up")) return [302, {}, { location: "/admin" }];
    if (request.url?.startsWith("/v1/here")) return [302, {}, { location: "/v1/echo" }];
    if (request.url?.startsWith("/v1/fail")) return [401, { message: `bad ${request.headers["x-key"]}` }, {}];
    return [200, { got: request.headers["x-key"] }, {}];
  });
  const get = (operationId: string, more: object = {}) => ({ get: { operationId, security: [{ key: [] }], ...more } });
  const path = { name: "id", in: "path", required: true, schema: { type: "string" } };
  const header = { name: "x-note", in: "header", schema: { type: "string" } };
  const declared = { name: "X-Key", in: "header", required: true, schema: { type: "string" } };
  const document = {
    openapi: "3.0.3",
    info: { title: "Small", version: "1" },
    servers: [{ url: `${api}/v1` }],
    paths: {
      "/away": get("away"),
      "/declared": get("declared", { responses: { 302: { description: "moved" } } }),
      "/up": get("up"),
      "/here": get("here"),
      "/fail": get("fail"),
      "/echo": get("echo", { parameters: [header, declared] }),
      "/things/{id}": get("thing", { parameters: [path] }),
      "/elsewhere": { ...get("elsewhere"), servers: [{ url: "ftp://example.com" }] },
    },
    components: { securitySchemes: { key: { type: "apiKey", in: "header", name: "x-key" } } },
  };
  const cwd = await createTestFolder({ "quartermaster.yaml": CONFIG, "small.json": JSON.stringify(document) });
  const { report, workspace } = await importDocument(cwd, ["small.json"]);
  expect(report.skipped).toHaveLength(1);
  const call = (name: string, args: JsonObject = {}) => workspace.quartermaster.invoke(`api__small__${name}`, args);
  for (const name of ["away", "up"]) expect((await call(name)).status).toBe("failed");
  expect(await call("here")).toMatchObject({ status: "done", data: { body: { got: "[secret]" } } });
  expect(await call("fail")).toMatchObject({ status: "failed", error: { code: "needs_login" } });
  expect(await call("echo", { "x-note": "a\r\nx-key: mine" })).toMatchObject({ error: { code: "invalid_arguments" } });
  expect(await call("echo", { "X-Key": "mine" })).toMatchObject({ error: { code: "invalid_arguments" } });
  urls.length = 0;
  const escapes = [
    "..",
    ".",
    "../admin",
    "a/../../admin",
    "..\\admin",
    "%2e%2e",
    "%2E%2E%2Fadmin",
    "..;/admin",
    "a\r\nb",
    "",
  ];
  for (const id of escapes) expect([id, (await call("thing", { id })).status]).toEqual([id, "failed"]);
  expect(urls).toEqual([]);
  for (const id of ["a/b", "a?x=1", "a#b", "//evil.example", "http://evil.example/", "a%2fb", "@evil", "...", "ä"]) {
    expect((await call("thing", { id })).status).toBe("done");
    expect(urls.splice(0)).toEqual([`/v1/things/${encodeURIComponent(id)}`]);
  }
  expect(stolen).toEqual([]);
  const events = (await qm(cwd, ["events", "--limit", "200", "--json"])).out;
  expect(events).toContain("api__small__thing");
  expect(events).not.toContain(TOKEN);
});

async function listen(answer: (request: IncomingMessage) => [number, unknown, Record<string, string>]) {
  const server = createServer((request, response) => {
    const [status, body, headers] = answer(request);
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  closing.push(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
