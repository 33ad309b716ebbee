import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemRuntime } from "../src/app/system-runtime.ts";
import { createEmbedder } from "../src/search/embedders/create-embedder.ts";
import { createHitOrder } from "../src/search/hits.ts";
import { type BuildReport, createSemanticIndex } from "../src/search/semantic/semantic-index.ts";
import {
  answerJson,
  answerVectors,
  createSearchView,
  embeddingEndpoint,
  testAction,
  testActions,
} from "../src/search/semantic/testing.ts";
import { openSqlite } from "../src/store/drivers/sqlite.ts";
import { openSqliteStore } from "../src/store/open-store.ts";
import { sql } from "../src/store/sql.ts";
import { findCompiled } from "./support/compiled.ts";

const KEY = "sk-test-Zm9vYmFyYmF6cXV4MDEyMzQ1";
const order = createHitOrder();

describe("several processes on one store", () => {
  test("with the same catalog embed each text once between them, and all find it", async () => {
    const path = storePath();
    const endpoint = await endpointWith((response, request) => {
      setTimeout(() => answerVectors(response, request), 20); // long enough for all to want the lock
    });

    const answers = await Promise.all(
      Array.from({ length: 3 }, () => building(path, endpoint.url, "m", "thing", 150, "handles thing77 well").answer()),
    );

    const documents = endpoint.texts().filter((text) => text.startsWith("tool"));
    expect(documents).toHaveLength(150);
    expect(new Set(documents).size).toBe(150);
    expect(answers.map(({ report }) => report.embedded.length + report.reused)).toEqual([150, 150, 150]);
    for (const { after } of answers) expect(after[0]).toBe("tool__thing_77");
  });

  test("with different catalogs do not disturb each other", async () => {
    const path = storePath();
    const endpoint = await endpointWith();

    const first = await Promise.all([
      building(path, endpoint.url, "m", "thing", 60, "handles thing7 well").answer(),
      building(path, endpoint.url, "m", "other", 60, "handles other7 well").answer(),
    ]);
    const requests = endpoint.requests.length;
    const second = await Promise.all([
      building(path, endpoint.url, "m", "thing", 60).answer(),
      building(path, endpoint.url, "m", "other", 60).answer(),
    ]);

    expect(first.map(({ after }) => after[0])).toEqual(["tool__thing_7", "tool__other_7"]);
    expect(second.map(({ report }) => [report.embedded.length, report.reused])).toEqual([
      [0, 60],
      [0, 60],
    ]);
    expect(endpoint.requests).toHaveLength(requests);
  });

  test("a killed one leaves its batches and no half-built index; the next takes the lock over and makes the rest", async () => {
    const path = storePath();
    const endpoint = await endpointWith((response, request, nth) => {
      if (nth !== 3) answerVectors(response, request); // the third batch is never answered
    });

    const killed = building(path, endpoint.url, "m", "thing", 200);
    await expect.poll(() => endpoint.requests.length, { timeout: 60_000 }).toBe(3);
    killed.child.kill("SIGKILL");
    await killed.ended;
    expect(await heldLocks(path)).toEqual([{ pid: killed.child.pid, host: hostname() }]);
    const next = await building(path, endpoint.url, "m", "thing", 200, "handles thing150 well").answer();

    expect(next.before).toBe("the index is not ready yet.");
    expect(next.report).toMatchObject({ reused: 64 });
    expect(next.report.embedded).toHaveLength(136);
    expect(next.after[0]).toBe("tool__thing_150");
    const rest = endpoint.requests.slice(3).flatMap(({ body }) => body.input);
    expect(rest.filter((text) => text.startsWith("tool"))).toHaveLength(136);
    expect(await heldLocks(path)).toEqual([]);
  });
});

describe("one process after another", () => {
  test("an unchanged catalog makes no request and writes nothing", async () => {
    const path = storePath();
    const endpoint = await endpointWith();
    await building(path, endpoint.url, "m", "thing", 50).answer();
    const watching = await openSqlite(path);
    onTestFinished(() => watching.close());
    const version = async () => (await watching.all(sql`pragma data_version`))[0]?.data_version;
    const before = await version();
    const requests = endpoint.requests.length;

    const { report } = await building(path, endpoint.url, "m", "thing", 50).answer();

    expect(report).toMatchObject({ embedded: [], reused: 50 });
    expect(await version()).toBe(before);
    expect(endpoint.requests).toHaveLength(requests);
  });

  test("a changed description sends one text, another model all of them", async () => {
    const { indexAt } = await opened();
    const endpoint = await endpointWith();
    const actions = testActions(50);
    const changed = [...actions.slice(1), testAction("tool__thing_0", "Peels bananas.")];
    await indexAt(endpoint.url).build(actions);

    const sent = async (build: () => Promise<BuildReport>) => {
      const before = endpoint.texts().length;
      await build();
      return endpoint.texts().slice(before);
    };

    expect(await sent(() => indexAt(endpoint.url).build(changed))).toEqual(["tool thing 0\nPeels bananas."]);
    expect(await sent(() => indexAt(endpoint.url).build(actions))).toEqual([]);
    expect(await sent(() => indexAt(endpoint.url, { model: "swapped" }).build(actions))).toHaveLength(50);
    expect(await sent(() => indexAt(endpoint.url).build(changed))).toEqual([]);
  });
});

describe("an endpoint that has failed", () => {
  const actions = testActions(10);

  test.each<[string, Parameters<typeof embeddingEndpoint>[0], RegExp, string?]>([
    ["never answers", () => {}, /did not answer within 200 ms/, "the embedder did not answer in time."],
    ["hangs up", (response) => response.destroy(), /cannot be reached/],
    ["answers too few vectors", (response) => answerJson(response, 200, { data: [] }), /0 vectors for 1 texts/],
    [
      "answers no numbers",
      (response) => answerJson(response, 200, { data: [{ index: 0, embedding: [null] }] }),
      /finite/,
    ],
    ["answers HTML", (response) => response.end(`<html>${KEY}</html>`), /did not answer with JSON/],
    [
      "refuses the key and says it",
      (response) => answerJson(response, 401, { error: { message: KEY } }),
      /answered 401/,
    ],
  ])(
    "%s: a search says so in time, and the next does not wait",
    async (_what, respond = () => {}, why, told = "the embedder failed.") => {
      const { indexAt } = await opened();
      let broken = false;
      const endpoint = await endpointWith((...request) => (broken ? respond : answerVectors)(...request));
      const index = indexAt(endpoint.url, { queryLimitMs: 200 });
      await index.build(actions);
      broken = true;
      const requests = endpoint.requests.length;

      const first = await index.search("thing3", createSearchView(actions), { limit: 5, order });
      const second = await index.search("thing4", createSearchView(actions), { limit: 5, order });

      expect(first).toEqual({ unavailable: told });
      expect(second).toEqual({ unavailable: "the embedder failed a moment ago and is paused for a while." });
      expect(index.status()).toMatchObject({ state: "ready", reason: expect.stringMatching(why) });
      expect(endpoint.requests).toHaveLength(requests + 1);
      expect(JSON.stringify([first, second, index.status()])).not.toMatch(/sk-test|Zm9v/);
    },
  );

  test("nobody is there: searches and builds say so, and what was complete stays", async () => {
    const { indexAt, store } = await opened();
    const endpoint = await embeddingEndpoint();
    const index = indexAt(endpoint.url);
    await index.build(actions);
    endpoint.close();
    const changed = [...actions, testAction("tool__new", "New.")];

    const answer = await index.search("thing3", createSearchView(actions), { limit: 5, order });
    const error = await index.build(changed).catch((thrown: Error) => thrown);

    expect(answer).toEqual({ unavailable: "the embedder failed." });
    expect(error).toMatchObject({ code: "embedder_failed", message: expect.stringContaining("ECONNREFUSED") });
    expect(index.status()).toMatchObject({ state: "failed", rows: 10, done: 10, total: 11 });
    expect(JSON.stringify([answer, index.status(), String(error)])).not.toMatch(/sk-test|Zm9v/);
    expect(await store.vectors.clear()).toEqual({ rows: 10 });
  });

  test("a build that is refused in the middle keeps what it has", async () => {
    const { indexAt } = await opened();
    let refuse = true;
    const endpoint = await endpointWith((response, request, nth) => {
      if (refuse && nth > 2) answerJson(response, 401, { error: { message: `Wrong key ${KEY}` } });
      else answerVectors(response, request);
    });
    const many = testActions(100);

    const error = await indexAt(endpoint.url)
      .build(many)
      .catch((thrown: Error) => thrown);
    refuse = false;
    const report = await indexAt(endpoint.url).build(many);

    expect(error).toMatchObject({ code: "embedder_failed", hint: expect.stringContaining("API key") });
    expect(String(error)).not.toMatch(/sk-test|Zm9v/);
    expect(report).toMatchObject({ reused: 64 });
  });
});

test("a build that is cancelled ends its request, and frees the lock", async () => {
  const { indexAt, path } = await opened();
  let closed = 0;
  const endpoint = await endpointWith((response) => response.on("close", () => closed++));
  const caller = new AbortController();

  const building = indexAt(endpoint.url).build(testActions(10), { signal: caller.signal });
  await expect.poll(() => endpoint.requests.length).toBe(1);
  caller.abort();

  await expect(building).rejects.toMatchObject({ code: "cancelled" });
  await expect.poll(() => closed).toBe(1);
  expect(await heldLocks(path)).toEqual([]);
});

interface Answer {
  readonly before: string | readonly string[];
  readonly report: BuildReport;
  readonly after: readonly string[];
}

/** A process that builds a catalog's vectors, as `fixtures/embedding-process.ts` does. */
function building(...[path, url, model, prefix, count, query = ""]: [string, string, string, string, number, string?]) {
  const script = findCompiled(new URL("fixtures/embedding-process.ts", import.meta.url));
  const args = [script, path, url, model, prefix, String(count), query];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (more: string) => {
    text += more;
  });
  const ended = once(child, "close");
  return { child, ended, answer: () => ended.then(() => JSON.parse(text) as Answer) };
}

async function opened() {
  const path = storePath();
  const store = await openSqliteStore(path, { now: systemRuntime.now });
  onTestFinished(() => store.close());
  const indexAt = (baseUrl: string, { model = "m", queryLimitMs = 60_000 } = {}) => {
    const chosen = createEmbedder({ class: "standard", baseUrl, model, apiKey: KEY });
    if (!("embedder" in chosen)) throw new Error("no embedder");
    const self = { pid: process.pid, host: hostname(), isAlive: () => true };
    const parts = { store: store.vectors, locks: store.locks, runtime: systemRuntime, self };
    const index = createSemanticIndex({ ...chosen, ...parts, queryLimitMs });
    onTestFinished(() => index.close());
    return index;
  };
  return { path, store, indexAt };
}

async function heldLocks(path: string) {
  const db = await openSqlite(path);
  const rows = await db.all(sql`select pid, host from locks`);
  await db.close();
  return rows.map((row) => ({ ...row }));
}

async function endpointWith(...respond: Parameters<typeof embeddingEndpoint>) {
  const endpoint = await embeddingEndpoint(...respond);
  onTestFinished(endpoint.close);
  return endpoint;
}

function storePath(): string {
  const folder = mkdtempSync(join(tmpdir(), "qm-embeddings-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "store.db");
}
