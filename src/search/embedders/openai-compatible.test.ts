import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { answerJson, answerVectors, DIMENSIONS, embeddingEndpoint, wordVector } from "../semantic/testing.ts";
import { createEmbedder } from "./create-embedder.ts";
import type { Embedder } from "./embedder.ts";
import type { EndpointChoice } from "./openai-compatible.ts";

/** The pauses that were asked for, and whether they are made. */
const pauses = vi.hoisted(() => ({ asked: [] as number[], skip: false }));
vi.mock("node:timers/promises", async (original) => {
  const real = await original<typeof import("node:timers/promises")>();
  const setTimeout: typeof real.setTimeout = (ms, ...rest) => {
    pauses.asked.push(ms ?? 0);
    return real.setTimeout(pauses.skip ? 0 : ms, ...rest);
  };
  return { ...real, setTimeout };
});

const never = new AbortController().signal;
const KEY = "sk-proj-Zm9vYmFyYmF6cXV4MDEyMzQ1";

test("sends model, texts and key, and returns unit vectors in order", async () => {
  const endpoint = await endpointWith((response, { body }) => {
    const data = body.input.map((text, index) => ({ index, embedding: wordVector(text).map((n) => n * 3) }));
    answerJson(response, 200, { data: data.toReversed() });
  });
  const embedder = embedderAt(endpoint.url, { model: "mine", apiKey: ` ${KEY}\n` });

  const [first, second] = await embedder.embed(["red", "green blue"], "document", never);

  expect(endpoint.requests).toEqual([
    { path: "/v1/embeddings", authorization: `Bearer ${KEY}`, body: { model: "mine", input: ["red", "green blue"] } },
  ]);
  expect([...(first ?? [])]).toEqual(wordVector("red"));
  expect(Math.hypot(...(second ?? []))).toBeCloseTo(1, 6);
});

test("sends no key if there is none, and keeps the query of the base URL", async () => {
  const endpoint = await endpointWith();
  const embedder = embedderAt(`${endpoint.url}/deep//?api-version=1`, {});

  await embedder.embed(["red"], "query", never);

  expect(endpoint.requests).toMatchObject([{ path: "/v1/deep/embeddings?api-version=1", authorization: undefined }]);
});

test.each([
  [
    { class: "light" },
    { model: "text-embedding-3-small", dimensions: 512 },
    "openai-compatible:text-embedding-3-small:512",
  ],
  [{ class: "standard" }, { model: "text-embedding-3-small" }, "openai-compatible:text-embedding-3-small"],
  [{ class: "strong" }, { model: "text-embedding-3-large" }, "openai-compatible:text-embedding-3-large"],
  [{ class: "light", model: "other" }, { model: "other" }, "openai-compatible:other"],
  [
    { class: "strong", dimensions: 8 },
    { model: "text-embedding-3-large", dimensions: 8 },
    "openai-compatible:text-embedding-3-large:8",
  ],
] as const)("%j asks for %j", async (choice, asked, fingerprint) => {
  const endpoint = await endpointWith();
  const embedder = embedderAt(endpoint.url, choice);

  await embedder.embed(["red"], "document", never);

  expect(endpoint.requests[0]?.body).toEqual({ ...asked, input: ["red"] });
  expect(embedder.fingerprint).toMatch(new RegExp(`^${fingerprint}:[0-9a-f]{8}$`));
});

test("has another fingerprint for another URL, regardless of its query", () => {
  const at = (baseUrl: string, apiKey = KEY) => embedderAt(baseUrl, { model: "m", apiKey }).fingerprint;
  const first = at("https://one.example/v1");

  expect([at("https://one.example/v1/"), at("https://one.example/v1?key=secret", "another")]).toEqual([first, first]);
  const others = [
    "https://two.example/v1",
    "http://one.example/v1",
    "https://one.example:8443/v1",
    "https://one.example",
  ];
  expect(new Set([first, ...others.map((each) => at(each))]).size).toBe(5);
});

test("sends many texts in batches, by count and by size", async () => {
  const endpoint = await endpointWith();
  const short = Array.from({ length: 70 }, (_, at) => `word${at}`);
  const long = Array.from({ length: 5 }, (_, at) => `long${at} ${"x".repeat(15_000)}`);

  const vectors = await embedderAt(endpoint.url, {}).embed([...short, ...long, "z".repeat(90_000)], "document", never);

  expect(endpoint.requests.map(({ body }) => body.input.length)).toEqual([32, 32, 8, 2, 1, 1]);
  expect(endpoint.texts().slice(0, 70)).toEqual(short);
  expect(vectors).toHaveLength(76);
  expect([...(vectors[69] ?? [])]).toEqual(wordVector("word69"));
});

describe("an overloaded server", () => {
  test("is retried for documents, after retry-after", async () => {
    const endpoint = await endpointWith((response, request, nth) => {
      if (nth < 4) answerJson(response, nth === 1 ? 429 : 503, {}, { "retry-after": "0" });
      else answerVectors(response, request);
    });

    const vectors = await embedderAt(endpoint.url, {}).embed(["red"], "document", never);

    expect(vectors).toHaveLength(1);
    expect(endpoint.requests).toHaveLength(4);
  });

  test("is retried after at most a minute", async () => {
    const endpoint = await endpointWith((response, request, nth) => {
      if (nth < 3) answerJson(response, 429, {}, { "retry-after": nth === 1 ? "86400" : "30" });
      else answerVectors(response, request);
    });
    pauses.skip = true;
    onTestFinished(() => {
      pauses.skip = false;
    });

    await embedderAt(endpoint.url, {}).embed(["red"], "document", never);

    expect(pauses.asked.slice(-2)).toEqual([60_000, 30_000]);
  });

  test("is given up after a few attempts", async () => {
    const endpoint = await endpointWith((response) => answerJson(response, 429, {}, { "retry-after": "0" }));

    await expect(embedderAt(endpoint.url, {}).embed(["red"], "document", never)).rejects.toMatchObject({
      code: "embedder_failed",
      message: expect.stringContaining("answered 429"),
      hint: expect.stringContaining("later"),
    });
    expect(endpoint.requests).toHaveLength(4);
  });

  test("is not retried for a query, nor after a permanent error", async () => {
    const busy = await endpointWith((response) => answerJson(response, 429, {}, { "retry-after": "0" }));
    const wrong = await endpointWith((response) => answerJson(response, 400, {}));

    await expect(embedderAt(busy.url, {}).embed(["red"], "query", never)).rejects.toThrow("429");
    await expect(embedderAt(wrong.url, {}).embed(["red"], "document", never)).rejects.toThrow("400");

    expect([busy.requests.length, wrong.requests.length]).toEqual([1, 1]);
  });

  test("is not retried after an abort", async () => {
    const endpoint = await endpointWith((response) => answerJson(response, 503, {}, { "retry-after": "60" }));
    const caller = new AbortController();

    const embedding = embedderAt(endpoint.url, {}).embed(["red"], "document", caller.signal);
    await expect.poll(() => endpoint.requests.length).toBe(1);
    caller.abort(new Error("gone"));

    await expect(embedding).rejects.toThrow("gone");
  });
});

describe("an invalid answer", () => {
  const good = wordVector("red");
  test.each<[string, unknown]>([
    ["too few vectors", { data: [{ index: 0, embedding: good }] }],
    ["too many vectors", { data: [0, 1, 2].map((index) => ({ index, embedding: good })) }],
    ["two of one index", { data: [0, 0].map((index) => ({ index, embedding: good })) }],
    ["an index beyond the end", { data: [0, 2 ** 31].map((index) => ({ index, embedding: good })) }],
    ["no index", { data: [{ embedding: good }, { embedding: good }] }],
    [
      "no number in it",
      {
        data: [
          { index: 0, embedding: good },
          { index: 1, embedding: [null, ...good.slice(1)] },
        ],
      },
    ],
    [
      "text in it",
      {
        data: [
          { index: 0, embedding: good },
          { index: 1, embedding: "AAAA" },
        ],
      },
    ],
    [
      "different lengths",
      {
        data: [
          { index: 0, embedding: good },
          { index: 1, embedding: [1] },
        ],
      },
    ],
    ["empty vectors", { data: [0, 1].map((index) => ({ index, embedding: [] })) }],
    ["numbers too large", { data: [0, 1].map((index) => ({ index, embedding: [1e200, 1e200] })) }],
    ["no list", { data: { 0: good } }],
    ["null", null],
  ])("is refused: %s", async (_what, answer) => {
    const endpoint = await endpointWith((response) => answerJson(response, 200, answer));

    await expect(embedderAt(endpoint.url, {}).embed(["red", "red"], "document", never)).rejects.toMatchObject({
      code: "embedder_failed",
      hint: expect.stringContaining("OpenAI"),
    });
    expect(endpoint.requests).toHaveLength(1);
  });

  test.each([
    ["HTML", "<!doctype html><h1>Welcome</h1>"],
    ["NaN", '{"data":[{"index":0,"embedding":[NaN]}]}'],
    ["Infinity", '{"data":[{"index":0,"embedding":[1e999]}]}'],
    ["nothing", ""],
  ])("is refused: %s", async (_what, text) => {
    const endpoint = await endpointWith((response) => response.end(text));

    await expect(embedderAt(endpoint.url, {}).embed(["red"], "document", never)).rejects.toMatchObject({
      code: "embedder_failed",
    });
  });

  test("is refused: vectors of other dimensions than requested", async () => {
    const endpoint = await endpointWith((response, { body }) => {
      answerJson(response, 200, { data: body.input.map((text, index) => ({ index, embedding: wordVector(text) })) });
    });

    await expect(embedderAt(endpoint.url, { dimensions: 8 }).embed(["red"], "document", never)).rejects.toMatchObject({
      message: expect.stringContaining(`of ${DIMENSIONS} numbers, not of 8`),
      hint: expect.stringContaining("dimensions"),
    });
  });

  test("is refused: an endless one", async () => {
    const endpoint = await endpointWith((response) => {
      const chunk = Buffer.alloc(2 ** 20, " ");
      const more = () => {
        while (response.writable && response.write(chunk));
      };
      response.on("drain", more);
      more();
    });

    await expect(embedderAt(endpoint.url, {}).embed(["red"], "query", never)).rejects.toThrow("more than 64 MiB");
  });

  test("is refused: a redirect", async () => {
    const elsewhere = await endpointWith();
    const endpoint = await endpointWith((response) => {
      response.writeHead(307, { location: `${elsewhere.url}/embeddings` }).end();
    });

    await expect(embedderAt(endpoint.url, {}).embed(["red"], "query", never)).rejects.toThrow("cannot be reached");
    expect(elsewhere.requests).toEqual([]);
  });
});

test("reports an endpoint that cannot be reached", async () => {
  const url = `http://127.0.0.1:${await closedPort()}/v1`;

  await expect(embedderAt(url, { apiKey: KEY }).embed(["red"], "query", never)).rejects.toMatchObject({
    code: "embedder_failed",
    message: `the embedding endpoint ${url}/embeddings cannot be reached (ECONNREFUSED)`,
    hint: expect.stringContaining("base URL"),
  });
});

test.each(["query", "document"] as const)("cancels a %s on abort", async (purpose) => {
  const endpoint = await endpointWith(() => {});
  const caller = new AbortController();

  const embedding = embedderAt(endpoint.url, {}).embed(["red"], purpose, caller.signal);
  await expect.poll(() => endpoint.requests.length).toBe(1);
  caller.abort(new Error("enough"));

  await expect(embedding).rejects.toThrow("enough");
});

describe("the key", () => {
  test.each([
    [401, { error: { message: `Incorrect API key provided: ${KEY}.` } }],
    [401, { error: { message: "Incorrect API key provided: sk-proj-****MzQ1." } }],
    [401, { error: { message: "Your key that ends with MzQ1 is not valid." } }],
    [403, { error: KEY }],
    [400, { error: { message: `What is "Bearer ${KEY}"?` } }],
    [400, { error: { message: `cut: ${KEY.slice(3, 20)}` } }],
    [422, { message: KEY, headers: { authorization: KEY } }],
    [422, { message: "Something else.", headers: { authorization: KEY } }],
  ])("is in no message when the server answers %i with it", async (status, answer) => {
    const endpoint = await endpointWith((response) => answerJson(response, status, answer));

    const error = await embedderAt(endpoint.url, { apiKey: KEY })
      .embed(["red"], "document", never)
      .catch((thrown: Error) => thrown);

    expect(error).toMatchObject({
      code: "embedder_failed",
      message: expect.stringMatching(new RegExp(`answered ${status}$`)),
    });
    expect(told(error)).not.toMatch(/sk-proj|Zm9v|MzQ1/);
  });

  test("is in no message when the server spells it in escapes", async () => {
    const escaped = [...KEY].map((each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
    const endpoint = await endpointWith((response) => {
      response.writeHead(400, { "content-type": "application/json" });
      response.end(`{"error":{"message":"What is ${escaped}?"}}`);
    });

    const error = await embedderAt(endpoint.url, { apiKey: KEY })
      .embed(["red"], "query", never)
      .catch((thrown: Error) => thrown);

    expect(told(error)).toContain("answered 400");
    expect(told(error)).not.toMatch(/sk-proj|Zm9v|MzQ1/);
  });

  test("is in no message if it cannot be sent, nor is a password", () => {
    const broken = createEmbedder({ class: "light", apiKey: "sk-secret\nkey" });
    const password = createEmbedder({ class: "light", apiKey: KEY, baseUrl: "https://me:hunter2@example.com/v1" });

    expect(broken).toEqual({ unavailable: expect.stringContaining("API key"), hint: expect.any(String) });
    expect(password).toEqual({ unavailable: expect.stringContaining("base URL"), hint: expect.any(String) });
    expect(JSON.stringify([broken, password])).not.toMatch(/secret|hunter2/);
  });

  test("in the query of the base URL is not shown", async () => {
    const endpoint = await endpointWith((response) => answerJson(response, 404, {}));

    const error = await embedderAt(`${endpoint.url}?key=${KEY}`, {})
      .embed(["red"], "query", never)
      .catch((thrown: Error) => thrown);

    expect(told(error)).not.toContain("sk-proj");
  });

  test("is required for OpenAI itself", () => {
    expect(createEmbedder({ class: "standard" })).toMatchObject({ unavailable: expect.stringContaining("no API key") });
    expect(createEmbedder({ class: "standard", apiKey: "  " })).toHaveProperty("unavailable");
  });
});

test("quotes the message of the server safely", async () => {
  const endpoint = await endpointWith((response) => {
    answerJson(response, 404, { error: { message: "The model `x`\u001b[2J does not exist" } });
  });

  await expect(embedderAt(endpoint.url, { apiKey: KEY }).embed(["red"], "query", never)).rejects.toMatchObject({
    message: expect.stringContaining('answered 404: "The model `x`\\u001b[2J does not exist"'),
    hint: expect.stringContaining("name of the model"),
  });
});

test("reads only the first part of a long error message", async () => {
  const message = (length: number) => ({ error: { message: "No.", padding: "x".repeat(length) } });
  let endless = 0;
  const answers: Parameters<typeof embeddingEndpoint>[0][] = [
    (response) => answerJson(response, 400, message(60_000)),
    (response) => answerJson(response, 400, message(70_000)),
    (response) => {
      response.writeHead(400);
      const more = () => {
        while (response.writable && response.write(" ".repeat(1_000))) endless += 1_000;
      };
      response.on("drain", more);
      more();
    },
  ];
  const messages: string[] = [];

  for (const answer of answers) {
    const endpoint = await endpointWith(answer);
    await embedderAt(endpoint.url, { apiKey: KEY })
      .embed(["red"], "query", never)
      .catch((thrown: Error) => messages.push(thrown.message.replace(/.*embeddings /, "")));
  }

  expect(messages).toEqual(['answered 400: "No."', "answered 400", "answered 400"]);
  expect(endless).toBeLessThan(32 * 2 ** 20);
});

test.each(["nonsense", "ftp://example.com/v1", ""])("refuses the base URL %j", (baseUrl) => {
  expect(createEmbedder({ class: "light", apiKey: KEY, baseUrl })).toHaveProperty("unavailable");
});

test("can be off by choice", () => {
  expect(createEmbedder({ class: "null" })).toEqual({ off: true });
});

async function endpointWith(...respond: Parameters<typeof embeddingEndpoint>) {
  const endpoint = await embeddingEndpoint(...respond);
  onTestFinished(endpoint.close);
  return endpoint;
}

function embedderAt(baseUrl: string, choice: Partial<EndpointChoice>): Embedder {
  const chosen = createEmbedder({ class: "standard", baseUrl, ...choice });
  if (!("embedder" in chosen)) throw new Error("no embedder");
  return chosen.embedder;
}

/** Everything that could be shown of an error. */
function told(error: unknown): string {
  const { message, hint, stack, cause, details } = error as Error & { hint?: string; details?: unknown };
  return JSON.stringify([message, hint, stack, details, String(cause)]);
}

async function closedPort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
