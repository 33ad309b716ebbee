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

describe("concurrent processes on one store", () => {
  test("embed each text of a shared catalog once, and every process finds it", async () => {
    const path = storePath();
    const endpoint = await endpointWith((response, request) => {
      setTimeout(() => answerVectors(response, request), 20); // long enough for every process to wait for the lock
    });

    const answers = await Promise.all(
      Array.from({ length: 3 }, () =>
        startBuild(path, endpoint.url, "m", "thing", 150, "handles thing77 well").answer(),
      ),
    );

    const documents = endpoint.texts().filter((text) => text.startsWith("tool"));
    expect(documents).toHaveLength(150);
    expect(new Set(documents).size).toBe(150);
    expect(answers.map(({ report }) => report.embedded.length + report.reused)).toEqual([150, 150, 150]);
    for (const { after } of answers) expect(after[0]).toBe("tool__thing_77");
  });

  test("do not interfere when their catalogs differ", async () => {
    const path = storePath();
    const endpoint = await endpointWith();

    const first = await Promise.all([
      startBuild(path, endpoint.url, "m", "thing", 60, "handles thing7 well").answer(),
      startBuild(path, endpoint.url, "m", "other", 60, "handles other7 well").answer(),
    ]);
    const requests = endpoint.requests.length;
    const second = await Promise.all([
      startBuild(path, endpoint.url, "m", "thing", 60).answer(),
      startBuild(path, endpoint.url, "m", "other", 60).answer(),
    ]);

    expect(first.map(({ after }) => after[0])).toEqual(["tool__thing_7", "tool__other_7"]);
    expect(second.map(({ report }) => [report.embedded.length, report.reused])).toEqual([
      [0, 60],
      [0, 60],
    ]);
    expect(endpoint.requests).toHaveLength(requests);
  });

  test("take over the lock of a killed process and embed only the missing texts", async () => {
    const path = storePath();
    const endpoint = await endpointWith((response, request, nth) => {
      if (nth !== 3) answerVectors(response, request); // the third batch is never answered
    });

    const killed = startBuild(path, endpoint.url, "m", "thing", 200);
    await expect.poll(() => endpoint.requests.length, { timeout: 60_000 }).toBe(3);
    killed.child.kill("SIGKILL");
    await killed.ended;
    expect(await heldLocks(path)).toEqual([{ pid: killed.child.pid, host: hostname() }]);
    const next = await startBuild(path, endpoint.url, "m", "thing", 200, "handles thing150 well").answer();

    expect(next.before).toBe("the index is not ready yet.");
    expect(next.report).toMatchObject({ reused: 64 });
    expect(next.report.embedded).toHaveLength(136);
    expect(next.after[0]).toBe("tool__thing_150");
    const rest = endpoint.requests.slice(3).flatMap(({ body }) => body.input);
    expect(rest.filter((text) => text.startsWith("tool"))).toHaveLength(136);
    expect(await heldLocks(path)).toEqual([]);
  });
});

describe("consecutive builds", () => {
  test("send no request and write nothing for an unchanged catalog", async () => {
    const path = storePath();
    const endpoint = await endpointWith();
    await startBuild(path, endpoint.url, "m", "thing", 50).answer();
    const watching = await openSqlite(path);
    onTestFinished(() => watching.close());
    const version = async () => (await watching.all(sql`pragma data_version`))[0]?.data_version;
    const before = await version();
    const requests = endpoint.requests.length;

    const { report } = await startBuild(path, endpoint.url, "m", "thing", 50).answer();

    expect(report).toMatchObject({ embedded: [], reused: 50 });
    expect(await version()).toBe(before);
    expect(endpoint.requests).toHaveLength(requests);
  });

  test("send one text for a changed description, and every text for another model", async () => {
    const { indexAt } = await openTestStore();
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

describe("a failing endpoint", () => {
  const actions = testActions(10);

  test.each<[string, Parameters<typeof embeddingEndpoint>[0], RegExp, string?]>([
    ["never answers", () => {}, /did not answer within 200 ms/, "the embedder did not answer in time."],
    ["hangs up", (response) => response.destroy(), /cannot be reached/],
    ["returns too few vectors", (response) => answerJson(response, 200, { data: [] }), /0 vectors for 1 texts/],
    [
      "returns non-numbers",
      (response) => answerJson(response, 200, { data: [{ index: 0, embedding: [null] }] }),
      /finite/,
    ],
    ["returns HTML", (response) => response.end(`<html>${KEY}</html>`), /did not answer with JSON/],
    [
      "rejects the key and echoes it",
      (response) => answerJson(response, 401, { error: { message: KEY } }),
      /answered 401/,
    ],
  ])(
    "%s: the first search reports it in time, and the next one does not wait",
    async (_what, respond = () => {}, why, expectedReason = "the embedder failed.") => {
      const { indexAt } = await openTestStore();
      let broken = false;
      const endpoint = await endpointWith((...request) => (broken ? respond : answerVectors)(...request));
      const index = indexAt(endpoint.url, { queryLimitMs: 200 });
      await index.build(actions);
      broken = true;
      const requests = endpoint.requests.length;

      const first = await index.search("thing3", createSearchView(actions), { limit: 5, order });
      const second = await index.search("thing4", createSearchView(actions), { limit: 5, order });

      expect(first).toEqual({ unavailable: expectedReason });
      expect(second).toEqual({ unavailable: "the embedder failed a moment ago and is paused for a while." });
      expect(index.status()).toMatchObject({ state: "ready", reason: expect.stringMatching(why) });
      expect(endpoint.requests).toHaveLength(requests + 1);
      expect(JSON.stringify([first, second, index.status()])).not.toMatch(/sk-test|Zm9v/);
    },
  );

  test("refuses connections: searches and builds report it, and stored vectors stay", async () => {
    const { indexAt, store } = await openTestStore();
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

  test("rejects a build halfway: the next build reuses the stored vectors", async () => {
    const { indexAt } = await openTestStore();
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

test("cancelling a build aborts its request and releases the lock", async () => {
  const { indexAt, path } = await openTestStore();
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

/** Starts `fixtures/embedding-process.ts`, which builds a catalog's vectors. */
function startBuild(
  ...[path, url, model, prefix, count, query = ""]: [string, string, string, string, number, string?]
) {
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

async function openTestStore() {
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
