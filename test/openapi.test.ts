import { existsSync, readdirSync, readFileSync } from "node:fs";
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

/** What the server should have seen for the arguments of a call. */
function expectRequest(operation: ApiOperation, args: JsonObject, seen: PlayedRequest | undefined): unknown[] {
  if (seen === undefined) return ["not called"];
  const wanted = Object.fromEntries(
    operation.parameters
      .filter(({ argument }) => Object.hasOwn(args, argument) && args[argument] !== null)
      .map(({ argument, name, in: place, style }) => [
        `${place} ${name}`,
        style === "json" ? args[argument] : toTexts(args[argument]),
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
  const expected = isJson || typeof sent !== "object" ? sent : describeForm(operation, sent as JsonObject);
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

    const listed = JSON.parse((await qm(cwd, ["list", "api", "--json"])).out);
    expect(JSON.stringify(listed)).toContain(found);
    const search = await qm(cwd, ["search", query, "--json"]);
    expect(search.out).toContain(found);
  },
  120_000,
);
