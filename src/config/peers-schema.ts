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

const name = z
  .string()
  .regex(
    /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/,
    "expected a letter, then letters, digits, `_`, `.` or `-`, at most 64 in all",
  );

const peer = z.strictObject({
  url: referenceText("a URL")
    .refine(isPeerUrl, "expected an https URL without # and user, or http on this machine, as in https://example.com")
    .describe(
      `The address of the agent, or of its card if it ends in \`.json\`. Its card may name no other host. May hold ${REFERENCE_FORMS}.`,
    ),
  token: secretReference().optional().describe(`Sent with each request, as ${REFERENCE_FORMS}. Absent: none is sent.`),
  header: z
    .string()
    .regex(/^[A-Za-z0-9-]{1,64}$/, "expected the name of a header")
    .optional()
    .describe("The header that holds the token, as it is. Absent: `Authorization`, as a bearer token."),
  description: text("text").optional().describe("What it is for. Models see it; they never see the text of its card."),
  timeoutMs: integer(1_000, DAY_MS)
    .default(300_000)
    .describe("How long a call waits for its answer. After that it ends with the id of the task, to ask again."),
  enabled: flag(true, "`false`: the peer is ignored."),
});

export type PeerConfig = Options<z.output<typeof peer>>;

export const peersSchema = z
  .record(name, peer)
  .default({})
  .describe("Other agents that speak A2A 1.0, by name. They are actions: `agent.peer__<name>`.");

const client = z.strictObject({
  token: secretReference().describe(
    `The token that it sends as a bearer token, at least 16 characters, as ${REFERENCE_FORMS}.`,
  ),
  actor: text("an actor").describe("The actor that its calls are decided for."),
});

const a2a = z.strictObject({
  enabled: flag(false, "Whether `qm serve` answers other agents over A2A 1.0."),
  name: text("a name").default("Quartermaster").describe("The name on the agent card."),
  description: text("text")
    .default("Runs approved tools and agents on behalf of other agents.")
    .describe("What the card says about this agent."),
  clients: z.record(name, client).default({}).describe("The agents that may call, by name. Others see only the card."),
});

export const a2aSchema = a2a
  .prefault({})
  .describe("Quartermaster as an agent: other agents reach exposed actors and tools.");

/** A URL with references is checked where it is used. */
function isPeerUrl(given: string): boolean {
  if (listVariables(given).length > 0) return true;
  const url = URL.canParse(given) ? new URL(given) : undefined;
  if (url === undefined || url.hash !== "" || url.username !== "" || url.password !== "") return false;
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url));
}
