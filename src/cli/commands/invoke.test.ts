import { afterAll, expect, test } from "vitest";
import type { Io } from "../context.ts";
import { cleanUp, createTestFolder, qm } from "../testing.ts";
import { readCallArguments } from "./invoke.ts";

afterAll(cleanUp);

const schema = {
  type: "object",
  properties: {
    path: { type: "string" },
    limit: { type: "integer" },
    tags: { type: "array", items: { type: "string" } },
  },
};

async function* typed(...parts: string[]): AsyncGenerator<string> {
  yield* parts;
}

function io(stdin: Io["stdin"] = typed(), signal = new AbortController().signal): Io {
  const stream = { write: () => {}, isTTY: false };
  const importModule = (url: string) => import(url);
  const node = { nodeVersion: "20.19.0", platform: "linux", execPath: "/usr/bin/node", importModule };
  return { stdin, stdout: stream, stderr: stream, cwd: import.meta.dirname, env: {}, signal, ...node };
}

const read = (given: string | undefined, pairs: readonly string[] = [], from = io()) =>
  readCallArguments(given, pairs, from, () => schema);

test("reads JSON, stdin, a file, or nothing", async () => {
  expect(await read(undefined)).toEqual({});
  expect(await read('{"a":1}')).toEqual({ a: 1 });
  expect(await read("-", [], io(typed('{"a"', ":2}")))).toEqual({ a: 2 });
  expect(await read("@../../../package.json")).toMatchObject({ name: "quartermaster" });
});

test("converts pairs to the types in the schema", async () => {
  const pairs = ["path=123", "limit=5", "other=true", "text=plain", "empty=", "json:=[1]", "eq=a=b"];

  expect(await read(undefined, pairs)).toEqual({
    path: "123",
    limit: 5,
    other: true,
    text: "plain",
    empty: "",
    json: [1],
    eq: "a=b",
  });
  expect(await read(undefined, ["tags=1", "tags=2"])).toEqual({ tags: ["1", "2"] });
  expect(Object.keys((await read(undefined, ["__proto__=x"])) as object)).toEqual(["__proto__"]);
});

test.each([
  ["{bad", [], /not JSON/],
  ["@nowhere.json", [], /nowhere\.json.*cannot be read/],
  ["{}", ["a=b"], /not both/],
  [undefined, ["path"], /not key=value/],
  [undefined, ["a:=b"], /not JSON/],
])("refuses %j with %j", async (given, pairs, message) => {
  await expect(read(given, pairs)).rejects.toMatchObject({
    code: "invalid_arguments",
    message: expect.stringMatching(message),
  });
});

test("stops waiting for stdin on an interrupt", async () => {
  const controller = new AbortController();
  const endless = { [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => {}) }) };

  const reading = read("-", [], io(endless, controller.signal));
  controller.abort();

  await expect(reading).rejects.toMatchObject({ code: "cancelled" });
});

const RAG = "providers: { rag: { enabled: true }, web: { enabled: true }, memory: { enabled: true } }\n";

test("shows the advice of an action instead of arguments that it has just refused", async () => {
  const folder = await createTestFolder({ "quartermaster.yaml": RAG });

  const { err } = await qm(folder, ["invoke", "rag_operation__index", '{"source":"my-docs"}']);

  expect(err).toContain("Give files, folder, urls or collection.");
  expect(err).toContain("`qm describe rag_operation__index` shows every argument.");
  expect(err).toContain(`'{"source":"my-docs","files":["docs/**/*.md"]}'`);
});

test("does not show advice about parts of the answer that a terminal does not show", async () => {
  const folder = await createTestFolder({ "quartermaster.yaml": RAG });

  const entry = { slug: "tea", name: "Tea", description: "Which tea.", type: "user", body: "Green." };
  await qm(folder, ["invoke", "memory_operation__remember_shared", JSON.stringify(entry)]);

  const past = { slug: "tea", layer: "shared", offset: 5 };
  const { err } = await qm(folder, ["invoke", "memory_operation__history", JSON.stringify(past)]);

  expect(err).toContain("has only 1 version");
  expect(err).not.toContain("input_schema");
});

test("explains an unavailable action and one of a category that is switched off", async () => {
  const folder = await createTestFolder({ "quartermaster.yaml": RAG });

  expect((await qm(folder, ["explain", "web__search"])).out).toMatch(/must set providers\.web\.search\.\n$/);
  const off = await qm(folder, ["explain", "qm_source__read"]);
  const listed = await qm(folder, ["list", "exec"]);
  expect(listed.out).toContain("exec is switched off: set providers.exec.enabled: true.\n");
  expect(off).toMatchObject({ code: 4, out: expect.stringContaining("set providers.source.enabled: true.") });
});

test("lets the progress of an action replace the line about its time", async () => {
  const config = "providers: { file: { enabled: true } }\n";
  const folder = await createTestFolder({ "quartermaster.yaml": config, "a.md": "" });

  const { err } = await qm(folder, ["invoke", "file__watch", '{"wait_ms":2500}'], { columns: 100 });

  expect(err).toContain("waiting for a change. Ctrl-C cancels it.");
  expect(err).not.toContain("has been running");
});

test("shows the progress of a call on a terminal, and clears it", async () => {
  const config = "providers: { rag: { enabled: true } }\n";
  const folder = await createTestFolder({ "quartermaster.yaml": config, "a.md": "Herons.\n", "b.md": "Owls.\n" });
  const argv = ["invoke", "rag_operation__index", '{"source":"birds","files":["*.md"]}'];

  const { out, err } = await qm(folder, argv, { columns: 100 });

  expect(err).toContain("\r\u001B[K2 of 2 documents read");
  expect(err.endsWith("\r\u001B[K")).toBe(true);
  expect(JSON.parse(out)).toMatchObject({ documents: 2 });
  expect((await qm(folder, argv)).err).toBe("");
});
