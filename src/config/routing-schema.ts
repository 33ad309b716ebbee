import { z } from "zod";
import { text, whole } from "./values.ts";

const DAY_MS = 86_400_000;
const glob = (what: string) => text(what).max(256, `expected ${what} of at most 256 characters`);

const rule = z.strictObject({
  name: glob("a name").describe("What the ledger and messages call the rule. Each rule has its own."),
  source: glob("a source, or a glob like actor:*")
    .optional()
    .describe("Where the call comes from: `actor:<name>`, or a glob. Absent: anywhere."),
  event: glob("an event, or a glob like tool_call:file__*")
    .refine((value) => !value.startsWith("tool_result:"), "no rule is asked about results; expected tool_call:<action>")
    .optional()
    .describe("What is called: `tool_call:<action>`, or a glob. Absent: anything."),
  when: text("a CEL expression")
    .optional()
    .describe(
      "A CEL expression over `event` (`source`, `type`, and the arguments as `data`), `tool`, `actor` and `ctx`. Where it fails, the rule does not apply. Absent: always.",
    ),
  deadline_ms: whole(1, DAY_MS)
    .optional()
    .describe("How long the call may take, all tries together. Absent: as `limits.timeout_ms` and its action say."),
  retry: z
    .strictObject({
      attempts: whole(1, 10).describe("How many tries there may be, the first one too."),
      backoff_ms: whole(0, 30_000)
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
