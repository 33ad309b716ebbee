import { hash } from "node:crypto";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createQuartermaster, type QuartermasterOptions } from "../src/index.ts";
import { fileProvider } from "../src/providers/file/file-provider.ts";
import { stopWords, tokenize } from "../src/search/lexical/tokenize.ts";
import { answerJson, embeddingEndpoint } from "../src/search/semantic/testing.ts";

type Question = readonly [question: string, ...files: readonly string[]];

/** Each must be answered from one of its files. */
const questions: readonly Question[] = [
  ["How do I copy my data somewhere safe and get it back after a crash?", "guides/back-up-and-retain.md"],
  ["Where do I hide a field of a result from the model?", "guides/distribute-results.md"],
  ["How does a turn go on when the process was restarted while it waited?", "guides/suspend-a-turn.md"],
  ["Which exit code does qm use when the configuration is wrong?", "cli.md"],
  ["Can I use it with the Vercel AI SDK?", "guides/connect-a-model.md"],
  ["What does the error unknown_action mean?", "errors.md"],
  ["How are deny rules written?", "guides/write-policy.md"],
  ["I want to send traces to OpenTelemetry", "guides/observe.md"],
  ["How do I connect Claude Code to the gateway?", "guides/use-with-your-client.md"],
  ["Which event is written when a call ends?", "events.md"],
];

/** These share few words with the documents. By words alone, some are missed. */
const harder: readonly Question[] = [
  ["Can a model look at images on the disk?", "guides/work-with-files.md"],
  ["Where can a person say yes or no to a call?", "guides/approve-calls.md"],
  ["How do I make an assistant keep facts between conversations?", "guides/remember-things.md"],
  ["What happens to a tool answer that is too long for the model?", "guides/handle-large-results.md"],
  ["How do I add a GitHub server?", "guides/use-mcp-servers.md"],
  ["How can another agent on a different machine do work for mine?", "guides/delegate-to-peers.md"],
  ["How do I test my agent without paying for a real LLM?", "guides/test-with-simulated-models.md"],
  ["How do I pick the LLM and its key?", "guides/configure-a-model.md"],
  ["How do I write my own category of actions?", "guides/add-a-category.md"],
  ["How do I react to a tool call in other code?", "guides/route-events.md"],
  ["How long are old records kept before they are deleted?", "guides/back-up-and-retain.md", "config.md"],
  ["How can I give one project extra skills?", "guides/use-worlds.md"],
  ["Can an agent read pages on the internet?", "guides/use-the-web.md"],
];

const repository = resolve(import.meta.dirname, "..");

test("finds the right document of this repository among the first three hits, by words alone", async () => {
  const qm = await start(repository);
  const indexed = await call(qm, "rag_operation__index", { source: "docs", files: ["docs/**/*.md"] });
  expect(indexed.failed).toEqual([]);
  expect(await listMissed(qm, questions)).toEqual([]);
  const missed = await listMissed(qm, harder);
  expect(harder.length - missed.length, JSON.stringify(missed)).toBeGreaterThanOrEqual(6);
});

test("finds it by words and vectors, and embeds only the chunks of one changed file again", async () => {
  const endpoint = await embeddingEndpoint((response, { body }) =>
    answerJson(response, 200, { data: body.input.map((text, index) => ({ index, embedding: embedText(text) })) }),
  );
  onTestFinished(() => endpoint.close());
  const embedder = { class: "light", baseUrl: endpoint.url, model: "m" } as const;
  const root = mkdtempSync(join(tmpdir(), "qm-rag-docs-"));
  onTestFinished(() => rmSync(root, { recursive: true }));
  cpSync(join(repository, "docs"), join(root, "docs"), { recursive: true });
  const store = join(root, "store.db");
  const options = { store, search: { embedder, index: { background: false } } };
  const listEmbedded = () => endpoint.texts().filter((text) => !questions.some(([question]) => text === question));

  const first = await start(root, options);
  const indexed = await call(first, "rag_operation__index", { source: "docs", files: ["docs/**/*.md"] });
  expect(new Set(listEmbedded()).size).toBe(listEmbedded().length);
  expect(listEmbedded().length).toBeGreaterThan(0.9 * Number(indexed.chunks));
  expect(await listMissed(first, questions)).toEqual([]);
  await first.close();

  const changed = join(root, "docs/guides/observe.md");
  writeFileSync(changed, `${readFileSync(changed, "utf8")}\n## Herons\n\nThe heron counts the fish in the pond.\n`);
  const second = await start(root, options);
  const before = listEmbedded().length;
  const again = await call(second, "rag_operation__index", { source: "docs" });
  expect(again).toMatchObject({ changed: 1, added: 0, removed: 0, failed: [] });
  const fresh = listEmbedded().slice(before);
  expect(fresh).toHaveLength(1);
  expect(fresh[0]).toContain("heron");
  expect(await recall(second, "herons and fish")).toMatchObject({
    search: "hybrid",
    hits: [{ document: "docs/guides/observe.md", heading: expect.stringMatching(/> Herons$/) }, {}, {}],
  });
  const queried = listEmbedded().length;
  expect(await call(second, "rag_operation__index", { source: "docs" })).toMatchObject({ changed: 0 });
  expect(listEmbedded()).toHaveLength(queried);
});

const DIMENSIONS = 1024;

/** A small embedder: texts with the same stems are near each other, whatever their forms. Stop words do not count. */
function embedText(text: string): readonly number[] {
  const counts = new Map<string, number>();
  for (const { plain, terms } of tokenize(text)) {
    if (!stopWords.has(plain)) for (const term of terms) counts.set(term, (counts.get(term) ?? 0) + 1);
  }
  const vector = new Array<number>(DIMENSIONS).fill(0);
  for (const [term, count] of counts) {
    const at = Number.parseInt(hash("sha1", term, "hex").slice(0, 8), 16) % DIMENSIONS;
    vector[at] = (vector[at] ?? 0) + 1 + Math.log(count);
  }
  return vector;
}

type Started = Awaited<ReturnType<typeof start>>;

async function start(root: string, options: QuartermasterOptions = {}) {
  const qm = await createQuartermaster({ providers: [fileProvider({ root })], rag: { enabled: true }, ...options });
  onTestFinished(() => qm.close());
  return qm;
}

async function call(qm: Started, name: string, args: object): Promise<Record<string, unknown>> {
  const outcome = await qm.invoke(name, args);
  if (outcome.status !== "done") throw new Error(JSON.stringify(outcome));
  return outcome.data as Record<string, unknown>;
}

const recall = async (qm: Started, query: string) =>
  (await call(qm, "rag_operation__recall", { query, limit: 3 })) as { hits: readonly { document: string }[] };

async function listMissed(qm: Started, asked: readonly Question[]) {
  const missed: unknown[] = [];
  for (const [question, ...files] of asked) {
    const found = (await recall(qm, question)).hits.map(({ document }) => document);
    if (!files.some((file) => found.includes(`docs/${file}`))) missed.push({ question, found });
  }
  return missed;
}
