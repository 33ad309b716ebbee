import { z } from "zod";
import { DURATION_PATTERN, parseDuration } from "../core/runtime.ts";
import { boundedInteger, plainText, REFERENCE_FORMS, secretReference } from "./schema-values.ts";

const DAY_MS = 86_400_000;
const glob = (what: string) => plainText(what).max(256, `expected ${what} of at most 256 characters`);

const rule = z.strictObject({
  name: glob("a name").describe("What the ledger and messages call the rule. Each rule has its own."),
  source: glob("a source, or a glob like actor:*")
    .optional()
    .describe("Where the call comes from: `actor:<name>`, or a glob. Absent: anywhere."),
  event: glob("an event, or a glob like tool_call:file__*")
    .refine((value) => !value.startsWith("tool_result:"), "no rule is asked about results; expected tool_call:<action>")
    .optional()
    .describe("What is called: `tool_call:<action>`, or a glob. Absent: anything."),
  when: plainText("a CEL expression")
    .optional()
    .describe(
      "A CEL expression over `event` (`source`, `type`, and the arguments as `data`), `tool`, `actor` and `ctx`. Where it fails, the rule does not apply. Absent: always.",
    ),
  deadline_ms: boundedInteger(1, DAY_MS)
    .optional()
    .describe("How long the call may take, all tries together. Absent: as `limits.timeout_ms` and its action say."),
  retry: z
    .strictObject({
      attempts: boundedInteger(1, 10).describe("How many tries there may be, the first one too."),
      backoff_ms: boundedInteger(0, 30_000)
        .default(200)
        .describe("The pause after the first try. It doubles with each further one, up to 30 seconds."),
    })
    .optional()
    .describe("For calls that only read or may be repeated, and errors that may pass. Absent: one try."),
});

/** What becomes of calls on their way. Handlers are code, so where events of the host's go is not in the file. */
export const routingSchema = z
  .strictObject({
    rules: z
      .array(rule)
      .max(1000, "expected at most 1000 rules")
      .default([])
      .superRefine((rules, context) => {
        const names = new Set<string>();
        for (const [index, { name }] of rules.entries()) {
          if (names.has(name))
            context.addIssue({ code: "custom", path: [index, "name"], message: "another rule has this name" });
          names.add(name);
        }
      })
      .describe("Asked in order; the first that applies to a call is the only one that counts."),
  })
  .prefault({})
  .describe("Deadlines and further tries for calls.");

/** A time as the file has it. */
export function durationText() {
  const expected = "expected a time such as 30s, 15m, 24h or 7d";
  return z
    .string(expected)
    .regex(DURATION_PATTERN, expected)
    .refine((text) => parseDuration(text) !== undefined, expected);
}

const roles = z.array(plainText("a role")).min(1);
const name = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9_.@+-]{0,127}$/, "expected letters, digits, `_`, `.`, `@`, `+` or `-`");

const categoryRule = z.union(
  [
    z.boolean(),
    z.strictObject({
      auto_approve_if: plainText("a CEL expression").describe(
        "Where it is true nobody is asked. Over `args`, `actor`, `tool`, `ctx`.",
      ),
      level: plainText("a level").optional().describe("Who must agree. Absent: `user`."),
      expires_in: durationText().optional().describe("How long the question stands. Absent: as `expires_in` says."),
    }),
  ],
  "expected true, false, or auto_approve_if with level and expires_in",
);

const approver = z.strictObject({
  roles: roles.describe(
    "What the person may agree to: `approver`, `admin`, or a role that a level names. `viewer` only looks.",
  ),
  token: secretReference()
    .optional()
    .describe(`What the person says to the HTTP interface, as ${REFERENCE_FORMS}. At least 16 characters.`),
});

/** Below which addresses of pages can be made. */
function isPageAddress(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url !== undefined && /^https?:$/.test(url.protocol) && url.search === "" && url.hash === "";
}

/** Who is asked about calls, and how. */
export const approvalsSchema = z
  .strictObject({
    expires_in: durationText().default("24h").describe("How long a question stands that does not say."),
    allow_self: z.boolean().default(false).describe("Whether the user for whom a call was made may agree to it."),
    ask_client: z
      .boolean()
      .default(true)
      .describe("Whether the person at the MCP client that made the call is asked, where the client can ask."),
    max_open: z
      .int()
      .min(1)
      .max(100_000)
      .default(100)
      .describe("How many calls of one session may wait at the same time."),
    categories: z
      .record(z.string(), categoryRule)
      .default({})
      .describe("Whether a person must agree, for the actions of a category that say nothing themselves."),
    levels: z
      .record(name, z.strictObject({ roles: roles.describe("The roles that may agree.") }))
      .default({})
      .describe("The roles that may agree, by level. `user` and `admin` are there unless they are defined anew."),
    approvers: z
      .record(name, approver)
      .default({})
      .describe("The people who may answer. None: whoever is at this machine's command line, with every role."),
    public_url: plainText("a URL")
      .refine(isPageAddress, "expected the address of a page without ? and #, such as https://qm.example.com")
      .optional()
      .describe(
        "Where `qm serve` is reached from outside, for links to approvals. Read when it starts: a change needs a restart.",
      ),
  })
  .prefault({})
  .describe("Calls that a person must agree to.");
