import { expect, test } from "vitest";
import { parseConfig } from "./parse.ts";

const parse = (text: string) => parseConfig(Buffer.from(text), "/app/quartermaster.yaml", { env: {} }).config;
const KEY = `api_key: "\${env:NOT_SET}"`;
const model = (more: string) => `models:\n  default: { provider: openai-compatible, model: small, ${more} }\n`;

test("has defaults, and a key without a value stops nothing else", () => {
  const { models } = parse(model(`${KEY}, price: { input: 0.5, output: 2 }`));

  expect(models.default).toEqual({
    provider: "openai-compatible",
    model: "small",
    apiKey: `\${env:NOT_SET}`,
    price: { input: 0.5, output: 2 },
    timeoutMs: 120_000,
    retries: 2,
    structuredOutputs: true,
  });
});

test.each([
  [
    "a key in the file",
    model("api_key: sk-live-123456"),
    "models.default.api_key: this value is not allowed; expected",
  ],
  [
    "an unknown provider",
    "models: { default: { provider: openai, model: m } }",
    "expected openai-compatible, anthropic",
  ],
  ["a URL of one method", model('base_url: "https://x.example/v1/chat/completions"'), "without /chat/completions"],
  ["a URL with a query", model('base_url: "https://x.example/v1?a=1"'), "without ? and #"],
  ["a key over http", model(`base_url: "http://x.example/v1", ${KEY}`), "would be sent unencrypted"],
  ["a negative price", model("price: { input: -1, output: 1 }"), "a number of at least 0"],
  [
    "a budget for costs and no price",
    `${model("retries: 1")}policy: { budgets: { session: { cost: 5 } } }`,
    "models.default.price: missing; policy.budgets.session.cost needs it",
  ],
])("is refused with %s", (_what, text, message) => {
  expect(() => parse(text)).toThrow(message);
  expect(() => parse(text)).not.toThrow("sk-live-123456");
});

test("may use a key over http on this machine, and a budget for costs with a price", () => {
  const local = model(`base_url: "http://localhost:8080/v1", ${KEY}, price: { input: 0, output: 0 }`);

  expect(parse(`${local}policy: { budgets: { turn: { tokens: 1000, cost: 0.5 } } }`).policy.budgets).toEqual({
    turn: { tokens: 1000, cost: 0.5 },
  });
});
