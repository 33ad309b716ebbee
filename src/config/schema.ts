import { z } from "zod";
import { didYouMean } from "../core/nearest.ts";
import { approvalsSchema, durationText, routingSchema } from "./calls-schema.ts";
import { actorSurfaceSchema, searchSchema, surfaceSchema } from "./discovery-schema.ts";
import { gatewaySchema, mcpSchema, serversSchema } from "./mcp-schema.ts";
import {
  actionPattern,
  boundedInteger,
  plainText,
  REFERENCE_FORMS,
  referenceText,
  secretReference,
} from "./schema-values.ts";

/** What others are told of calls while they happen. */
const telemetrySchema = z
  .strictObject({
    enabled: z
      .boolean()
      .default(false)
      .describe("Whether calls are told to the OpenTelemetry SDK that the process was started with."),
    content: z
      .boolean()
      .default(false)
      .describe("Whether arguments, results and error texts are told, too, with secrets taken out as in the ledger."),
  })
  .prefault({})
  .describe("OpenTelemetry spans and metrics. Off, nothing of it is loaded.");

const MIB = 1024 * 1024;

function limits(notes: number, bytes: number, rows: number) {
  return z
    .strictObject({
      notes: boundedInteger(0).default(notes).describe("Notes and collections."),
      bytes: boundedInteger(0)
        .default(bytes)
        .describe("Contents, in every kept version, and 256 more for each note and collection."),
      rows: boundedInteger(0)
        .default(rows)
        .describe("Rows that say what collections hold; notes that were kept in one go are one row for each thousand."),
    })
    .prefault({});
}

const infospaceSchema = z
  .strictObject({
    enabled: z
      .boolean()
      .default(true)
      .describe("Whether long results are kept and can be handled by reference. `false`: they are cut."),
    expires_in: durationText().default("24h").describe("How long what nobody saves is kept."),
    preview_chars: boundedInteger(300, 100_000)
      .default(1_200)
      .describe("How much of what is kept a model is shown: its shape and the first of it."),
    fill_chars: boundedInteger(1_024, 67_108_864)
      .default(4_194_304)
      .describe("How long arguments may be once handles in them are filled in."),
    quota: z
      .strictObject({
        session: limits(500_000, 256 * MIB, 500_000).describe("Of one session of one user."),
        user: limits(2_000_000, 1024 * MIB, 2_000_000).describe(
          "Of one user of a tenant; callers without a user are one together.",
        ),
        tenant: limits(4_000_000, 2048 * MIB, 4_000_000).describe(
          "Of one tenant; callers without a tenant are one together.",
        ),
      })
      .prefault({})
      .describe("How much may be kept. A write that would pass a limit is refused with `quota_exceeded`."),
  })
  .prefault({})
  .describe("Notes and collections: where long results go, and what can be done with them unread.");

const DAY_MS = 86_400_000;

const budget = z.strictObject({
  calls: boundedInteger(1).optional().describe("How many calls may be made. Absent: no limit."),
  ms: boundedInteger(1).optional().describe("How many milliseconds the calls may run, added up. Absent: no limit."),
  bytes: boundedInteger(1).optional().describe("How many bytes the results may have, added up. Absent: no limit."),
});

const rule = z.strictObject({
  name: plainText("a name").describe("What explanations and the ledger call the rule. Each rule has its own."),
  rule: plainText("a CEL expression").describe(
    "A CEL expression over `actor`, `tool`, `ctx` and, except to hide, `args`; the rule applies where it is true, and where it fails.",
  ),
  effect: z
    .enum(["hide", "deny", "ask"])
    .describe(
      "`hide`: the action is not seen. `deny`: seen, never run. `ask`: a person must agree first; the call waits until then.",
    ),
  reason: plainText("text").optional().describe("What the caller is told. Absent: that the policy does not allow it."),
  level: plainText("a level").optional().describe("Of a rule that asks: who must agree. Absent: `user`."),
  expires_in: durationText()
    .optional()
    .describe("Of a rule that asks: how long. Absent: as `approvals.expires_in` says."),
});

const actor = z.strictObject({
  tools: z.array(actionPattern()).describe("The actions the actor may use: names, or globs. `[]`: none."),
  scope: plainText("text").optional().describe("A word that rules compare, as `actor.scope`."),
  attributes: z
    .record(
      z
        .string()
        .regex(/^(?!(?:name|scope)$)[A-Za-z_][A-Za-z0-9_]*$/, "expected letters, digits and _, and not name or scope"),
      z.union([plainText("text"), z.number(), z.boolean()], "expected text, a number, true or false"),
    )
    .default({})
    .describe(
      "Further facts that rules compare, as `actor.<name>`: text, numbers, true or false. Not `name` or `scope`.",
    ),
  surface: actorSurfaceSchema,
});

const ACTOR_NAME = "expected a letter, then letters, digits, `_`, `.` or `-`, at most 64 in all, as in `reviewer`";

/** The actor of callers that name none, unless the file defines it anew. */
const defaultActor: ActorConfig = { tools: ["*"], attributes: {} };

/** Everything `quartermaster.yaml` may say. The JSON Schema and the table in `docs/config.md` are made from it. */
export const configSchema = z
  .strictObject({
    store: z
      .strictObject({
        path: referenceText("a path")
          .default(".quartermaster/quartermaster.db")
          .describe(`The SQLite file. Relative to the folder of the configuration file. May hold ${REFERENCE_FORMS}.`),
      })
      .prefault({})
      .describe("Where the ledger and everything else that lasts is kept."),
    providers: z
      .strictObject({
        file: z
          .strictObject({
            enabled: z.boolean().default(true).describe("Whether the category `file` is there at all."),
            root: referenceText("a path")
              .default(".")
              .describe(
                `Nothing outside this folder can be reached. Relative to the folder of the configuration file. May hold ${REFERENCE_FORMS}.`,
              ),
            read_only: z.boolean().default(false).describe("Leave out every action that changes a file."),
          })
          .prefault({})
          .describe("Reading and changing files."),
      })
      .prefault({})
      .describe("The built-in categories of actions."),
    servers: serversSchema,
    mcp: mcpSchema,
    gateway: gatewaySchema,
    policy: z
      .strictObject({
        allowed: z
          .array(actionPattern())
          .optional()
          .describe("The only actions that may be used: names, or globs. Absent: everything. `[]`: nothing."),
        denied: z
          .array(actionPattern())
          .default([])
          .describe("Actions that may not be used, whatever else allows them."),
        require_tags: z.array(plainText("a tag")).default([]).describe("Tags an action must have, all of them."),
        rules: z.array(rule).default([]).describe("Tag rules. An action must pass every one."),
        budgets: z
          .strictObject({
            turn: budget.optional().describe("For one model loop."),
            session: budget.optional().describe("For one conversation."),
            tenant: budget.optional().describe("For everything one tenant does."),
          })
          .prefault({})
          .describe("How much may be used before calls are refused."),
      })
      .prefault({})
      .describe("What is allowed, for everyone."),
    actors: z
      .record(z.string().regex(/^[A-Za-z][A-Za-z0-9_.-]{0,63}$/, ACTOR_NAME), actor)
      .default({})
      .transform((actors): Readonly<Record<string, ActorConfig>> => ({ default: defaultActor, ...actors }))
      .describe("Who may use what, by name. `default`, with every tool, is there unless it is defined anew."),
    approvals: approvalsSchema,
    routing: routingSchema,
    infospace: infospaceSchema,
    surface: surfaceSchema,
    search: searchSchema,
    limits: z
      .strictObject({
        timeout_ms: boundedInteger(1, DAY_MS)
          .default(60_000)
          .describe("How long a call may run, unless its action says."),
        concurrency: boundedInteger(1, 10_000).default(32).describe("How many calls may run at the same time."),
        queue: boundedInteger(0, 1_000_000)
          .default(256)
          .describe("How many calls may wait for a place; more are refused."),
        value_chars: boundedInteger(256, 10_000_000).default(4096).describe("How much of a result a model is shown."),
      })
      .prefault({})
      .describe("Bounds on running calls."),
    ledger: z
      .strictObject({
        redact: z
          .array(plainText("a key"))
          .default([])
          .describe("Keys whose values are not written down, beside the built-in ones (`password`, `token`, ...)."),
      })
      .prefault({})
      .describe("What is recorded of every call."),
    telemetry: telemetrySchema,
    secrets: z
      .array(secretReference())
      .default([])
      .describe(`Values to keep out of the ledger, each as ${REFERENCE_FORMS}: a secret has no place in the file.`),
  })
  .superRefine(({ gateway, actors }, context) => {
    for (const [name, { actor }] of Object.entries(gateway.profiles)) {
      if (Object.hasOwn(actors, actor)) continue;
      const path = ["gateway", "profiles", name, "actor"];
      context.addIssue({
        code: "custom",
        path,
        message: `no actor is called that${didYouMean(actor, Object.keys(actors))}`,
      });
    }
    const tokens = Object.entries(gateway.profiles).filter(([, { token }]) => token !== undefined);
    for (const [name, { token }] of tokens) {
      const [first] = tokens.find(([, other]) => other.token === token) ?? [];
      const path = ["gateway", "profiles", name, "token"];
      if (first !== name)
        context.addIssue({ code: "custom", path, message: `is that of ${first}, too: nobody could tell them apart` });
    }
  })
  .superRefine(({ search, surface, actors }, context) => {
    if (search.enabled) return;
    const problem = "nothing could be found there while search.enabled is false";
    if (surface.kind === "deferred") context.addIssue({ code: "custom", path: ["surface", "kind"], message: problem });
    for (const [name, actor] of Object.entries(actors)) {
      const path = ["actors", name, "surface", "kind"];
      if (actor.surface?.kind === "deferred") context.addIssue({ code: "custom", path, message: problem });
    }
  })
  .meta({ title: "Quartermaster configuration" });

/** A whole and valid configuration: every default filled in, every reference unfilled. */
export type Config = z.output<typeof configSchema>;

type ActorConfig = z.output<typeof actor>;
