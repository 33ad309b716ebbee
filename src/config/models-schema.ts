import { z } from "zod";
import { isLoopback } from "../core/loopback.ts";
import { listVariables } from "./references.ts";
import {
  DAY_MS,
  flag,
  integer,
  type Options,
  REFERENCE_FORMS,
  referenceText,
  secretReference,
  text,
} from "./schema-values.ts";

const perMillion = (what: string) =>
  z.number("expected a number").min(0, "expected a number of at least 0").describe(`For a million tokens ${what}.`);

const model = z
  .strictObject({
    provider: z
      .enum(["openai-compatible", "anthropic"])
      .describe("The API of the server: OpenAI's chat completions, or Anthropic's messages."),
    model: text("a model's name").describe("The name of the model, as its server knows it."),
    baseUrl: referenceText("a URL")
      .refine(isBaseUrl, "expected an http or https URL without ? and #, as in http://127.0.0.1:11434/v1")
      .refine(
        (url) => !/\/(?:chat\/completions|messages)\/?$/.test(url),
        "expected it without /chat/completions or /messages",
      )
      .optional()
      .describe(
        `The URL of the server, up to \`/v1\`. Absent: OpenAI's or Anthropic's own. May hold ${REFERENCE_FORMS}.`,
      ),
    apiKey: secretReference()
      .optional()
      .describe(`The key of the server, as ${REFERENCE_FORMS}. Absent: none is sent.`),
    maxOutputTokens: integer(1)
      .optional()
      .describe("The most tokens of one answer. Absent: as the request or the server says."),
    timeoutMs: integer(100, DAY_MS)
      .default(120_000)
      .describe("How long one attempt of a request may take, or the wait for the next piece of a streamed answer."),
    retries: integer(0, 10)
      .default(2)
      .describe("How often a request is repeated when the server is overloaded, fails or cannot be reached."),
    price: z
      .strictObject({ input: perMillion("that the model reads"), output: perMillion("that it writes") })
      .optional()
      .describe("What it costs, in any one currency. Absent: unknown, so it cannot be used under a budget for costs."),
    structuredOutputs: flag(
      true,
      "For `openai-compatible`: whether the server takes a JSON Schema for its answer. `false`: it is only asked for JSON.",
    ),
  })
  .superRefine(({ baseUrl, apiKey }, context) => {
    if (apiKey === undefined || baseUrl === undefined || !isUnencrypted(baseUrl)) return;
    const message = "the api_key would be sent unencrypted; use https, or leave out the api_key";
    context.addIssue({ code: "custom", path: ["baseUrl"], message });
  });

export type ModelConfig = Options<z.output<typeof model>>;

export const modelsSchema = z
  .record(
    z.string().regex(/^[A-Za-z][A-Za-z0-9_.-]{0,63}$/, "expected a letter, then letters, digits, `_`, `.` or `-`"),
    model,
  )
  .default({})
  .describe("Language models, by name. Skills that ask a model use `default`.");

/** A URL with references is checked where it is used. */
function isBaseUrl(url: string): boolean {
  if (listVariables(url).length > 0) return true;
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  return parsed !== undefined && /^https?:$/.test(parsed.protocol) && parsed.search === "" && parsed.hash === "";
}

const isUnencrypted = (url: string): boolean =>
  listVariables(url).length === 0 &&
  URL.canParse(url) &&
  new URL(url).protocol === "http:" &&
  !isLoopback(new URL(url));
