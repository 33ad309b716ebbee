import { z } from "zod";
import { fileKeys } from "./file-keys.ts";
import { DAY_MS, duration, flag, integer, REFERENCE_FORMS, secretReference, text } from "./schema-values.ts";

const glob = (what: string) => text(what).max(256, `expected ${what} of at most 256 characters`);

const routeRule = z.strictObject({
  name: glob("a name").describe("The name of the rule in the ledger and in messages. Must be unique."),
  source: glob("a source, or a glob like actor:*")
    .optional()
    .describe("The source: `actor:<name>`, or a glob. Absent: any."),
  event: glob("an event, or a glob like tool_call:file__*")
    .refine((value) => !value.startsWith("tool_result:"), "no rule is asked about results; expected tool_call:<action>")
    .optional()
    .describe("The called action: `tool_call:<action>`, or a glob. Absent: any."),
  when: text("a CEL expression")
    .optional()
    .describe(
      "A CEL expression over `event` (`source`, `type`, and the arguments as `data`), `tool`, `actor` and `ctx`. If it fails, the rule does not apply. Absent: always.",
    ),
  deadlineMs: integer(1, DAY_MS)
    .optional()
    .describe("How long the call may take, all attempts together. Absent: as `limits.timeout_ms` and its action say."),
  retry: z
    .strictObject({
      attempts: integer(1, 10).describe("The most attempts, including the first."),
      backoffMs: integer(0, 30_000)
        .default(200)
        .describe("The pause after the first attempt. It doubles with each further one, up to 30 seconds."),
    })
    .optional()
    .describe("Retries calls that only read or are idempotent, after errors that may pass. Absent: one attempt."),
});

/** Routes of calls. Routes of the host's own events lead to handlers in code, so they are not in the file. */
export const routingSchema = z
  .strictObject({
    rules: z
      .array(routeRule)
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
      .describe("Tried in order; only the first that applies to a call counts."),
  })
  .prefault({})
  .describe("Deadlines and retries for calls.");

const roles = z.array(text("a role")).min(1);
const personName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9_.@+-]{0,127}$/, "expected letters, digits, `_`, `.`, `@`, `+` or `-`");

export const categoryApprovalOptions = z.strictObject({
  autoApproveIf: text("a CEL expression").describe(
    "If true, no approval is needed. Over `args`, `actor`, `tool`, `ctx`.",
  ),
  level: text("a level").optional().describe("Who must approve. Absent: `user`."),
  expiresIn: duration().optional().describe("How long the request stays open. Absent: as `expires_in` says."),
});

export const approvalOptions = z.strictObject({
  expiresIn: duration().default("24h").describe("How long a request stays open, unless its rule says."),
  allowSelf: flag(false, "Whether users may approve calls that were made for them."),
  askClient: flag(true, "Whether the person at the MCP client that made the call is asked, if the client supports it."),
  maxOpen: integer(1, 100_000).default(100).describe("How many calls of one session may wait at a time."),
  categories: z
    .record(
      z.string(),
      z.union(
        [z.boolean(), categoryApprovalOptions],
        "expected true, false, or auto_approve_if with level and expires_in",
      ),
    )
    .default({})
    .describe("Whether calls need approval, for the actions of a category that do not say."),
  levels: z
    .record(personName, z.strictObject({ roles: roles.describe("The roles that may approve.") }))
    .default({})
    .describe("The roles that may approve, by level. `user` and `admin` exist unless you redefine them."),
});

const approver = z.strictObject({
  roles: roles.describe("`approver`, `admin`, or a role that a level names. A `viewer` may only look."),
  token: secretReference()
    .optional()
    .describe(`For the HTTP interface, at least 16 characters, as ${REFERENCE_FORMS}.`),
});

function isPageAddress(text: string): boolean {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url !== undefined && /^https?:$/.test(url.protocol) && url.search === "" && url.hash === "";
}

export const approvalsSchema = approvalOptions
  .extend({
    approvers: z
      .record(personName, approver)
      .default({})
      .describe("The people who may answer. Empty: everyone at this machine's command line, with every role."),
    publicUrl: text("a URL")
      .refine(isPageAddress, "expected the address of a page without ? and #, such as https://qm.example.com")
      .optional()
      .describe("The address of `qm serve` as people reach it, for links to approvals. A change needs a restart."),
  })
  .prefault({})
  .describe("Calls that a person must approve.");

export const limitOptions = z.strictObject({
  timeoutMs: integer(1, DAY_MS).default(60_000).describe("How long a call may run, unless its action says."),
  concurrency: integer(1, 10_000).default(32).describe("How many calls may run at the same time."),
  queue: integer(0, 1_000_000).default(256).describe("How many calls may wait to run; more are refused."),
  hops: integer(0, 100)
    .default(4)
    .describe("How often work may be handed on from one actor or peer to the next. 0: never."),
});

export const valueLimit = integer(256, 10_000_000)
  .default(4096)
  .describe("How many characters of a result a model is shown.");

export const limitsSchema = limitOptions
  .extend({ valueChars: valueLimit })
  .prefault({})
  .describe("Bounds on running calls.");

const MIB = 1024 * 1024;

function quota(notes: number, bytes: number, rows: number) {
  return z
    .strictObject({
      notes: integer(0).default(notes).describe("Notes and collections."),
      bytes: integer(0).default(bytes).describe("Contents in every version, and 256 for each note and collection."),
      rows: integer(0)
        .default(rows)
        .describe("Rows that list the members of collections; notes stored in one go are one row for each thousand."),
    })
    .prefault({});
}

export const infospaceOptions = z.strictObject({
  enabled: flag(true, "Whether long results are stored and used by reference. `false`: they are cut."),
  expiresIn: duration().default("24h").describe("How long notes are kept that are not saved."),
  previewLimit: integer(300, 100_000)
    .register(fileKeys, { key: "preview_chars" })
    .default(1_200)
    .describe("How many characters of a stored result a model is shown: its shape and its beginning."),
  fillLimit: integer(1_024, 67_108_864)
    .register(fileKeys, { key: "fill_chars" })
    .default(4_194_304)
    .describe("How many characters arguments may have once handles in them are filled in."),
  quota: z
    .strictObject({
      session: quota(500_000, 256 * MIB, 500_000).describe("For one session of one user."),
      user: quota(2_000_000, 1024 * MIB, 2_000_000).describe("For one user; callers without a user share one."),
      tenant: quota(4_000_000, 2048 * MIB, 4_000_000).describe("For one tenant; callers without a tenant share one."),
    })
    .prefault({})
    .describe("How much may be stored. A write that would pass a limit is refused with `quota_exceeded`."),
});

export const infospaceSchema = infospaceOptions
  .prefault({})
  .describe("Notes and collections: long results are stored there and used by reference.");
