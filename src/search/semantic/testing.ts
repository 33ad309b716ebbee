import { hash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action, JsonSchema } from "../../core/action.ts";
import { openSqlite } from "../../store/drivers/sqlite.ts";
import { openStore, type Store } from "../../store/open-store.ts";
import { sql } from "../../store/sql.ts";
import type { Embedder } from "../embedders/embedder.ts";
import type { Searchable } from "../hits.ts";
import { createHitOrder } from "../hits.ts";
import { createSemanticIndex, type SemanticIndex, type SemanticIndexOptions } from "./semantic-index.ts";

/** So many that hardly two words of a test share a place. */
export const DIMENSIONS = 4096;
const DAY = 24 * 60 * 60 * 1000;

/** A vector in which texts with the same words are near each other: each word adds one in a place of its own. */
export function wordVector(text: string, dimensions = DIMENSIONS): number[] {
  const vector = new Array<number>(dimensions).fill(0);
  for (const word of text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []) {
    const at = Number.parseInt(hash("sha1", word, "hex").slice(0, 8), 16) % dimensions;
    vector[at] = (vector[at] ?? 0) + 1;
  }
  return vector;
}

export function testAction(name: string, description: string, input: JsonSchema = { type: "object" }): Action {
  const at = name.indexOf("__");
  const [category, entry] = [name.slice(0, at), name.slice(at + 2)];
  return defineAction(category, { entry, description, effect: "read", input, run: () => null });
}

/** As many as wanted, each with a word of its own in its description. */
export function testActions(count: number, prefix = "thing"): readonly Action[] {
  return Array.from({ length: count }, (_, at) => testAction(`tool__${prefix}_${at}`, `Handles ${prefix}${at} well.`));
}

/** All of the actions, but for those that `hides` names. */
export function createSearchView(actions: readonly Action[], ...hides: readonly string[]): Searchable {
  const sees = ({ name }: Action): boolean => !hides.includes(name);
  return { snapshot: { actions }, sees, actions: () => actions.filter(sees) };
}

/** An embedder in this process that keeps the texts it was given. `before` can hold it up or make it fail. */
export function wordEmbedder(
  model = "words",
  before: (signal: AbortSignal, texts: readonly string[]) => unknown = () => {},
): Embedder & { readonly texts: string[]; readonly queries: string[] } {
  const texts: string[] = [];
  const queries: string[] = [];
  return {
    fingerprint: model,
    texts,
    queries,
    async embed(given, purpose, signal) {
      (purpose === "query" ? queries : texts).push(...given);
      await before(signal, given);
      return given.map((text) => Float32Array.from(wordVector(text)));
    },
  };
}

/** One request as the endpoint got it. */
export interface EmbeddingRequest {
  readonly authorization: string | undefined;
  readonly path: string;
  readonly body: { readonly model: string; readonly input: readonly string[]; readonly dimensions?: number };
}

/** A real server that speaks as OpenAI's does; with `respond` it answers as told. */
export async function embeddingEndpoint(
  respond: (response: ServerResponse, request: EmbeddingRequest, nth: number) => unknown = answerVectors,
) {
  const requests: EmbeddingRequest[] = [];
  const server = createServer((incoming, response) => {
    void readText(incoming).then((text) => {
      const { url: path = "", headers } = incoming;
      const request = { path, authorization: headers.authorization, body: JSON.parse(text) };
      requests.push(request);
      respond(response, request, requests.length);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    requests,
    texts: () => requests.flatMap(({ body }) => body.input),
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

export function answerVectors(response: ServerResponse, { body }: EmbeddingRequest): void {
  const data = body.input.map((text, index) => ({ index, embedding: wordVector(text, body.dimensions) }));
  answerJson(response, 200, { data });
}

export function answerJson(response: ServerResponse, status: number, body: unknown, headers = {}): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(JSON.stringify(body));
}

async function readText(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += chunk;
  return text;
}

/** Enough for more than one batch. */
export const actions = testActions(40);

/** A store in memory, and indexes over it on a clock that stands still. `atEnd` is told what to close. */
export async function openIndex(atEnd: (close: () => Promise<void>) => void) {
  const clock = { days: 0 };
  const now = () => new Date(Date.UTC(2026, 0, 1) + clock.days * DAY);
  const db = await openSqlite(":memory:");
  const store: Store = await openStore(db, now);
  atEnd(() => store.close());
  let ids = 0;
  const runtime = { now, elapsed: () => performance.now(), newId: () => `id-${ids++}` };
  const self = { pid: 1, host: "here", isAlive: () => true };
  const indexWith = (embedder: Embedder, options: Partial<SemanticIndexOptions> = {}): SemanticIndex => {
    const parts = { embedder, store: store.vectors, locks: store.locks, runtime, self };
    const index = createSemanticIndex({ ...parts, settleMs: 1, queryLimitMs: 60_000, ...options });
    atEnd(() => index.close());
    return index;
  };
  const changes = async () => Number((await db.all(sql`select total_changes() as n`))[0]?.n);
  return { store, clock, indexWith, changes };
}

/** Something to wait for, and what ends the wait. */
export function createGate() {
  let go = (): void => {};
  const gate = new Promise<void>((resolve) => {
    go = resolve;
  });
  return { gate, go };
}

export async function searchNames(index: SemanticIndex, query: string, among: readonly Action[] = actions) {
  const answer = await index.search(query, createSearchView(among), { limit: 3, order: createHitOrder() });
  if ("unavailable" in answer) throw new Error(answer.unavailable);
  return answer.hits.map(({ action }) => action.name);
}
