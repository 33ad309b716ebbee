import { z } from "zod";
import { didYouMean } from "../core/nearest.ts";
import { approvalsSchema, time } from "./approvals-schema.ts";
import { gatewaySchema } from "./gateway-schema.ts";
import { infospaceSchema } from "./infospace-schema.ts";
import { routingSchema } from "./routing-schema.ts";
import { searchSchema } from "./search-schema.ts";
import { mcpSchema, serversSchema } from "./servers-schema.ts";
import { actorSurfaceSchema, surfaceSchema } from "./surface-schema.ts";
import { telemetrySchema } from "./telemetry-schema.ts";
import { pattern, REFERENCE, referring, secret, text, whole } from "./values.ts";

const DAY_MS = 86_400_000;

const budget = z.strictObject({
  calls: whole(1).optional().describe("How many calls may be made. Absent: no limit."),
  ms: whole(1).optional().describe("How many milliseconds the calls may run, added up. Absent: no limit."),
  bytes: whole(1).optional().describe("How many bytes the results may have, added up. Absent: no limit."),
});

const rule = z.strictObject({
  name: text("a name").describe("What explanations and the ledger call the rule. Each rule has its own."),
  rule: text("a CEL expression").describe(
    "A CEL expression over `actor`, `tool`, `ctx` and, except to hide, `args`; the rule applies where it is true, and where it fails.",
  ),
  effect: z
    .enum(["hide", "deny", "ask"])
    .describe(
      "`hide`: the action is not seen. `deny`: seen, never run. `ask`: a person must agree first; the call waits until then.",
    ),
  reason: text("text").optional().describe("What the caller is told. Absent: that the policy does not allow it."),
  level: text("a level").optional().describe("Of a rule that asks: who must agree. Absent: `user`."),
  expires_in: time().optional().describe("Of a rule that asks: how long. Absent: as `approvals.expires_in` says."),
});

const actor = z.strictObject({
  tools: z.array(pattern()).describe("The actions the actor may use: names, or globs. `[]`: none."),
  scope: text("text").optional().describe("A word that rules compare, as `actor.scope`."),
  attributes: z
    .record(
      z
        .string()
        .regex(/^(?!(?:name|scope)$)[A-Za-z_][A-Za-z0-9_]*$/, "expected letters, digits and _, and not name or scope"),
      z.union([text("text"), z.number(), z.boolean()], "expected text, a number, true or false"),
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
        path: referring("a path")
          .default(".quartermaster/quartermaster.db")
          .describe(`The SQLite file. Relative to the folder of the configuration file. May hold ${REFERENCE}.`),
      })
      .prefault({})
      .describe("Where the ledger and everything else that lasts is kept."),
    providers: z
      .strictObject({
        file: z
          .strictObject({
            enabled: z.boolean().default(true).describe("Whether the category `file` is there at all."),
            root: referring("a path")
              .default(".")
              .describe(
                `Nothing outside this folder can be reached. Relative to the folder of the configuration file. May hold ${REFERENCE}.`,
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
          .array(pattern())
          .optional()
          .describe("The only actions that may be used: names, or globs. Absent: everything. `[]`: nothing."),
        denied: z.array(pattern()).default([]).describe("Actions that may not be used, whatever else allows them."),
        require_tags: z.array(text("a tag")).default([]).describe("Tags an action must have, all of them."),
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
        timeout_ms: whole(1, DAY_MS).default(60_000).describe("How long a call may run, unless its action says."),
        concurrency: whole(1, 10_000).default(32).describe("How many calls may run at the same time."),
        queue: whole(0, 1_000_000).default(256).describe("How many calls may wait for a place; more are refused."),
        value_chars: whole(256, 10_000_000).default(4096).describe("How much of a result a model is shown."),
      })
      .prefault({})
      .describe("Bounds on running calls."),
    ledger: z
      .strictObject({
        redact: z
          .array(text("a key"))
          .default([])
          .describe("Keys whose values are not written down, beside the built-in ones (`password`, `token`, ...)."),
      })
      .prefault({})
      .describe("What is recorded of every call."),
    telemetry: telemetrySchema,
    secrets: z
      .array(secret())
      .default([])
      .describe(`Values to keep out of the ledger, each as ${REFERENCE}: a secret has no place in the file.`),
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
