import { z } from "zod";
import { effects } from "../core/action.ts";
import { referenceTexts } from "./file-keys.ts";
import { serverName } from "./mcp-schema.ts";
import { DAY_MS, flag, integer, list, type Options, REFERENCE_FORMS, text } from "./schema-values.ts";

const ADDRESS = "expected an http or https address without user and query, as in https://api.example.com/v1";

const address = () => text("an address").refine(isAddress, ADDRESS);

/** One reference, or two joined by a colon for a user and a password. */
const credential = z
  .string()
  .regex(
    /^\$\{(?:env|secret):[A-Za-z_][A-Za-z0-9_]*\}(?::\$\{(?:env|secret):[A-Za-z_][A-Za-z0-9_]*\})?$/,
    `expected ${REFERENCE_FORMS}, or two of them joined by a colon, not the secret itself`,
  )
  .register(referenceTexts, { isChecked: true, mayBeSecret: true });

const operation = z.strictObject({
  enabled: flag(true, "`false`: the operation is not offered."),
  effect: z.enum(effects).optional().describe("Overrides the effect that its method implies."),
  tags: list(text("a tag"), "Further tags, for rules."),
  approval: z.boolean().optional().describe("`true`: a person must approve each call."),
});

const api = z.strictObject({
  server: address().describe("The only address that requests and credentials are sent to."),
  otherServers: list(address(), "Further addresses, for operations that the document gives an address of their own."),
  digest: text("a digest")
    .regex(/^[0-9a-f]{64}$/, "expected the digest that `qm import openapi` wrote")
    .describe("The SHA-256 of the compiled file. A file with another digest is not used."),
  source: text("text").optional().describe("Where the document came from."),
  auth: z
    .record(text("a security scheme"), credential)
    .default({})
    .describe(
      `The credentials, by the security scheme of the document, as ${REFERENCE_FORMS}. For basic authentication: user and password joined by a colon.`,
    ),
  operations: z.record(text("an operation"), operation).default({}).describe("Overrides, by operation."),
  timeoutMs: integer(1_000, DAY_MS).default(60_000).describe("How long a call waits for its answer."),
  enabled: flag(true, "`false`: the API is ignored."),
});

export type ApiConfig = Options<z.output<typeof api>>;

export const apisSchema = z
  .record(serverName, api)
  .default({})
  .describe(
    "Imported OpenAPI documents, by name. Their operations are actions: `api__<name>__<operation>`. Written by `qm import openapi`.",
  );

function isAddress(value: string): boolean {
  if (!/^https?:\/\//i.test(value) || !URL.canParse(value)) return false;
  const { username, password, search, hash } = new URL(value);
  return [username, password, search, hash].every((part) => part === "");
}
