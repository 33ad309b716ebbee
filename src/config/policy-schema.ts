import { z } from "zod";
import { modelTiers } from "../core/surface-choice.ts";
import { directoryGroup, surfaceOptions } from "./discovery-schema.ts";
import { actionPattern, duration, flag, integer, list, REFERENCE_FORMS, referenceText, text } from "./schema-values.ts";

export const toolPolicyOptions = z.strictObject({
  allowed: z
    .array(actionPattern())
    .optional()
    .describe("The only usable actions: names, globs, or `tag:<tag>`. Absent: all. `[]`: none."),
  denied: list(actionPattern(), "Actions that may not be used: names, globs, or `tag:<tag>`. Wins over `allowed`."),
  requireTags: list(text("a tag"), "Tags that an action must have, all of them."),
});

export const policyRuleOptions = z.strictObject({
  name: text("a name").describe("The name of the rule in explanations and in the ledger. Must be unique."),
  rule: text("a CEL expression").describe(
    "A CEL expression over `actor`, `tool`, `ctx` and, except to hide, `args`. The rule applies if it is true, and if it fails.",
  ),
  effect: z
    .enum(["hide", "deny", "ask"])
    .describe(
      "`hide`: the action is not seen. `deny`: seen, never run. `ask`: the call waits until a person approves it.",
    ),
  reason: text("text").optional().describe("Told to the caller. Absent: that the policy does not allow it."),
  level: text("a level").optional().describe("For `ask`: who must approve. Absent: `user`."),
  expiresIn: duration().optional().describe("For `ask`: how long it stays open. Absent: `approvals.expires_in`."),
});

const GATE_NAME = "expected a letter, then letters, digits, `_`, `.` or `-`, at most 64 in all, as in `maintenance`";

const budget = z.strictObject({
  calls: integer(1).optional().describe("The most calls. Absent: no limit."),
  ms: integer(1).optional().describe("The most milliseconds of running time in all. Absent: no limit."),
  bytes: integer(1).optional().describe("The most bytes of results in all. Absent: no limit."),
  tokens: integer(1)
    .optional()
    .describe("The most tokens of language models, read and written, in all. Absent: no limit."),
  cost: z
    .number()
    .positive()
    .optional()
    .describe(
      "The most that language models may cost in all, in the currency of `models.<name>.price`. Absent: no limit.",
    ),
});

export const budgetOptions = z.strictObject({
  turn: budget.optional().describe("For one model loop."),
  session: budget.optional().describe("For one conversation."),
  tenant: budget.optional().describe("For all calls of one tenant."),
});

const gate = z.strictObject({
  guards: z
    .array(actionPattern())
    .min(1, "expected at least one name or glob")
    .describe("The actions that the gate hides while it is closed: names, globs, or `tag:<tag>`."),
  open: flag(false, "Whether the actions may be used, as far as the rest of the policy allows them."),
  reason: text("text").optional().describe("Why it is closed. `qm explain` shows it to operators."),
});

export const policySchema = toolPolicyOptions
  .extend({
    gates: z
      .record(z.string().regex(/^[A-Za-z][A-Za-z0-9_.-]{0,63}$/, GATE_NAME), gate)
      .default({})
      .describe("Switches for groups of actions, by name. An action is hidden while one of its gates is closed."),
    rules: list(policyRuleOptions, "Rules in CEL. An action must pass all of them."),
    budgets: budgetOptions.prefault({}).describe("How much may be used before calls are refused."),
  })
  .prefault({})
  .describe("What is allowed, for all actors.");

export const actorOptions = z.strictObject({
  tools: z.array(actionPattern()).describe("The actions the actor may use: names, globs, or `tag:<tag>`. `[]`: none."),
  scope: text("text").optional().describe("A word for rules to compare, as `actor.scope`."),
  attributes: z
    .record(
      z
        .string()
        .regex(
          /^(?!(?:name|scope|world)$)[A-Za-z_][A-Za-z0-9_]*$/,
          "expected letters, digits and _, and not name, scope or world",
        ),
      z.union([text("text"), z.number(), z.boolean()], "expected text, a number, true or false"),
    )
    .default({})
    .describe(
      "Further values for rules to compare, as `actor.<name>`: text, numbers, true or false. Not `name`, `scope` or `world`.",
    ),
  surface: surfaceOptions.optional().describe("Overrides `surface` for this actor."),
  model: text("the name of a model")
    .optional()
    .describe("The model of `models` that answers when the actor is called. Absent: the one named `default`."),
  instructions: text("text").optional().describe("What the actor's model is told about its task, in its prompt."),
  description: text("text").optional().describe("What the actor is for. Actors and agents that can call it see this."),
  exposed: z
    .boolean()
    .optional()
    .describe("Whether the agents of `a2a.clients` can call it, as far as the policy allows. Absent: they cannot."),
  tier: z
    .enum(modelTiers)
    .optional()
    .describe("`light`: the model is weak, and its prompt tells it each step. Absent: as `router_model` says."),
  maxSteps: integer(1, 1000)
    .optional()
    .describe("The most requests to the model in one turn, before it must answer. Absent: 20."),
  budgets: budgetOptions
    .optional()
    .describe("Further limits, for what this actor uses. `policy.budgets` counts as well."),
  world: text("the name of a world")
    .nullable()
    .optional()
    .describe("The world whose actions the actor also sees. `null`: none. Absent: as `world` says."),
});

/** Without dots and `__`, because it is part of the names of its skills. */
export const worldName = z
  .string()
  .regex(
    /^(?=.{1,64}$)[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*$/,
    "expected lower-case letters and digits, joined by single `_` or `-`, at most 64 in all, as in `minecraft`",
  );

export const worldOptions = z.strictObject({
  description: text("text").optional().describe("What the world is for. The directory shows it."),
  actions: list(
    actionPattern(),
    "Actions that belong to the world, besides its skills: names, globs, or `tag:<tag>`. Only actors in it see them.",
  ),
  groups: list(directoryGroup, "Groups of the directory for actors in the world, before all others."),
});

export const worldsSchema = z
  .record(
    worldName,
    worldOptions.extend({
      skills: list(
        referenceText("a path"),
        `Folders with the world's skills, \`skill__<world>__<name>\`. Relative to the folder of the configuration file. May hold ${REFERENCE_FORMS}.`,
      ),
    }),
  )
  .default({})
  .describe("Named sets of skills, actions and groups on top of the core ones, for actors in them.");

const ACTOR_NAME = "expected a letter, then letters, digits, `_`, `.` or `-`, at most 64 in all, as in `reviewer`";

/** The actor of callers that name none, unless the file redefines it. */
const defaultActor: z.output<typeof actorOptions> = { tools: ["*"], attributes: {} };

export const actorsSchema = z
  .record(z.string().regex(/^[A-Za-z][A-Za-z0-9_.-]{0,63}$/, ACTOR_NAME), actorOptions)
  .default({})
  .transform((actors): Record<string, z.output<typeof actorOptions>> => ({ default: defaultActor, ...actors }))
  .describe("Who may use what, by name. `default`, with every action, exists unless you redefine it.");
