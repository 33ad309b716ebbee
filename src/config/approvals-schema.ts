import { z } from "zod";
import { DURATION, durationMs } from "../core/duration.ts";
import { REFERENCE, secret, text } from "./values.ts";

/** A time as the file has it. */
export function time() {
  const expected = "expected a time such as 30s, 15m, 24h or 7d";
  return z
    .string(expected)
    .regex(DURATION, expected)
    .refine((text) => durationMs(text) !== undefined, expected);
}

const roles = z.array(text("a role")).min(1);
const name = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9_.@+-]{0,127}$/, "expected letters, digits, `_`, `.`, `@`, `+` or `-`");

const categoryRule = z.union(
  [
    z.boolean(),
    z.strictObject({
      auto_approve_if: text("a CEL expression").describe(
        "Where it is true nobody is asked. Over `args`, `actor`, `tool`, `ctx`.",
      ),
      level: text("a level").optional().describe("Who must agree. Absent: `user`."),
      expires_in: time().optional().describe("How long the question stands. Absent: as `expires_in` says."),
    }),
  ],
  "expected true, false, or auto_approve_if with level and expires_in",
);

const approver = z.strictObject({
  roles: roles.describe(
    "What the person may agree to: `approver`, `admin`, or a role that a level names. `viewer` only looks.",
  ),
  token: secret()
    .optional()
    .describe(`What the person says to the HTTP interface, as ${REFERENCE}. At least 16 characters.`),
});

/** Below which addresses of pages can be made. */
function isPlace(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url !== undefined && /^https?:$/.test(url.protocol) && url.search === "" && url.hash === "";
}

/** Who is asked about calls, and how. */
export const approvalsSchema = z
  .strictObject({
    expires_in: time().default("24h").describe("How long a question stands that does not say."),
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
    public_url: text("a URL")
      .refine(isPlace, "expected the address of a page without ? and #, such as https://qm.example.com")
      .optional()
      .describe(
        "Where `qm serve` is reached from outside, for links to approvals. Read when it starts: a change needs a restart.",
      ),
  })
  .prefault({})
  .describe("Calls that a person must agree to.");
