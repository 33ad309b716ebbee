import { z } from "zod";
import { didYouMean } from "../core/nearest.ts";
import { parseDuration } from "../core/runtime.ts";
import { modelTiers } from "../core/surface-choice.ts";
import { actionRetrievalSchema } from "./action-retrieval.ts";
import { apisSchema } from "./apis-schema.ts";
import { searchSchema, surfaceSchema } from "./discovery-schema.ts";
import { approvalsSchema, infospaceSchema, limitsSchema, routingSchema } from "./limits-schema.ts";
import { gatewaySchema, mcpSchema, serversSchema } from "./mcp-schema.ts";
import { modelsSchema } from "./models-schema.ts";
import { a2aSchema, peersSchema } from "./peers-schema.ts";
import { actorsSchema, type budgetOptions, policySchema, worldsSchema } from "./policy-schema.ts";
import { providersSchema } from "./providers-schema.ts";
import { optionalSandboxSchema } from "./sandbox-schema.ts";
import {
  DAY_MS,
  duration,
  flag,
  list,
  type Options,
  REFERENCE_FORMS,
  referenceText,
  secretReference,
  text,
} from "./schema-values.ts";

/** Everything the file may say, there in snake_case. The JSON Schema and `docs/config.md` are made from it. */
export const configSchema = z
  .strictObject({
    store: z
      .strictObject({
        path: referenceText("a path")
          .default(".quartermaster/quartermaster.db")
          .describe(`The SQLite file. Relative to the folder of the configuration file. May hold ${REFERENCE_FORMS}.`),
      })
      .prefault({})
      .describe("Where the ledger and all other lasting data is stored."),
    providers: providersSchema,
    skills: z
      .strictObject({
        folders: list(
          referenceText("a path"),
          `Folders that are searched for skills: folders with a SKILL.md. Relative to the folder of the configuration file. May hold ${REFERENCE_FORMS}.`,
        ),
        projectFolders: z
          .array(referenceText("a path"))
          .default([".agents/skills", ".claude/skills"])
          .describe(
            "Folders that are searched for skills if they exist, after all others. They may come with a repository, so a person must approve the first use of each skill. `[]`: none.",
          ),
        sandbox: optionalSandboxSchema.describe(
          "Runs the programs of skills of the type `code` in a sandbox with this reach. If they cannot be isolated, they do not run. Absent: they run in a restricted process with your rights.",
        ),
      })
      .prefault({})
      .describe("Folders with skills, which are actions: `skill__<name>`."),
    models: modelsSchema,
    servers: serversSchema,
    apis: apisSchema,
    mcp: mcpSchema,
    gateway: gatewaySchema,
    peers: peersSchema,
    a2a: a2aSchema,
    policy: policySchema,
    actors: actorsSchema,
    worlds: worldsSchema,
    world: text("the name of a world").optional().describe("The world of actors that name none. Absent: none."),
    approvals: approvalsSchema,
    routing: routingSchema,
    infospace: infospaceSchema,
    routerModel: z
      .enum(modelTiers)
      .default("strong")
      .describe(
        "The tier of actors that name none. `light`: their prompts tell a weak model each step, and its first step must look actions up.",
      ),
    actionRetrieval: actionRetrievalSchema,
    surface: surfaceSchema,
    search: searchSchema,
    limits: limitsSchema,
    ledger: z
      .strictObject({
        redact: list(text("a key"), "Keys whose values are redacted, besides `password`, `token` and the like."),
        keep: duration()
          .refine((time) => (parseDuration(time) ?? 0) >= DAY_MS, "expected at least 1d")
          .optional()
          .describe(
            "How long events are kept, at least `1d`. `qm serve` and `qm mcp` remove older ones, and record that they did. Absent: for ever.",
          ),
        archive: referenceText("a path")
          .optional()
          .describe(
            `The folder to which removed events are written first, a file a month. Relative to the folder of the configuration file. Absent: removed events are gone. May hold ${REFERENCE_FORMS}.`,
          ),
      })
      .prefault({})
      .describe("What is recorded of every call."),
    telemetry: z
      .strictObject({
        enabled: flag(false, "Whether calls are reported to the OpenTelemetry SDK that the process was started with."),
        content: flag(false, "Whether arguments, results and error texts are included, redacted as in the ledger."),
      })
      .prefault({})
      .describe("OpenTelemetry spans and metrics."),
    secrets: list(secretReference(), `Values to keep out of the ledger, each as ${REFERENCE_FORMS}.`),
  })
  .superRefine(({ gateway, actors }, context) => {
    for (const [name, { actor }] of Object.entries(gateway.profiles)) {
      if (Object.hasOwn(actors, actor)) continue;
      const message = `no actor is called that${didYouMean(actor, Object.keys(actors))}`;
      context.addIssue({ code: "custom", path: ["gateway", "profiles", name, "actor"], message });
    }
    const tokens = Object.entries(gateway.profiles).filter(([, { token }]) => token !== undefined);
    for (const [name, { token }] of tokens) {
      const [first] = tokens.find(([, other]) => other.token === token) ?? [];
      const message = `the profile ${first} has the same token; give each profile its own`;
      if (first !== name) context.addIssue({ code: "custom", path: ["gateway", "profiles", name, "token"], message });
    }
  })
  .superRefine(({ peers, a2a, actors }, context) => {
    for (const name of Object.keys(peers).filter((each) => Object.hasOwn(actors, each)))
      context.addIssue({
        code: "custom",
        path: ["peers", name],
        message: "an actor is called that; rename one of them",
      });
    const clients = Object.entries(a2a.clients);
    for (const [name, { actor, token }] of clients) {
      const path = ["a2a", "clients", name];
      const unknown = `no actor is called that${didYouMean(actor, Object.keys(actors))}`;
      if (!Object.hasOwn(actors, actor))
        context.addIssue({ code: "custom", path: [...path, "actor"], message: unknown });
      const [first] = clients.find(([, other]) => other.token === token) ?? [];
      const message = `the client ${first} has the same token; give each client its own`;
      if (first !== name) context.addIssue({ code: "custom", path: [...path, "token"], message });
    }
  })
  .superRefine(({ models, policy, actors }, context) => {
    // Skills ask `default`, so an actor may cause costs of that one and of its own.
    const limited = [
      { place: "policy.budgets", budgets: policy.budgets, asked: Object.keys(models) },
      ...Object.entries(actors).map(([name, { budgets = {}, model = "default" }]) => ({
        place: `actors.${name}.budgets`,
        budgets,
        asked: ["default", model],
      })),
    ];
    for (const [name, { price }] of Object.entries(models)) {
      const needing = limited.find(
        ({ budgets, asked }) => findCostScope(budgets) !== undefined && asked.includes(name),
      );
      if (price !== undefined || needing === undefined) continue;
      const key = `${needing.place}.${findCostScope(needing.budgets)}.cost`;
      const message = `${key} needs it. For a model without costs: { input: 0, output: 0 }`;
      context.addIssue({ code: "custom", path: ["models", name, "price"], message });
    }
  })
  .superRefine(({ models, actors }, context) => {
    for (const [name, { model }] of Object.entries(actors)) {
      if (model === undefined || Object.hasOwn(models, model)) continue;
      const message = `no model is called that${didYouMean(model, Object.keys(models))}`;
      context.addIssue({ code: "custom", path: ["actors", name, "model"], message });
    }
  })
  .superRefine(({ worlds, world, actors }, context) => {
    const named = Object.entries(actors).map(([name, actor]) => [["actors", name, "world"], actor.world] as const);
    for (const [path, wanted] of [[["world"], world] as const, ...named]) {
      if (wanted === undefined || wanted === null || Object.hasOwn(worlds, wanted)) continue;
      const message = `no world is called that${didYouMean(wanted, Object.keys(worlds))}`;
      context.addIssue({ code: "custom", path: [...path], message });
    }
  })
  .superRefine(({ search, surface, actors }, context) => {
    if (search.enabled) return;
    const message = "the deferred surface needs search, and search.enabled is false";
    if (surface.kind === "deferred") context.addIssue({ code: "custom", path: ["surface", "kind"], message });
    for (const [name, actor] of Object.entries(actors)) {
      const path = ["actors", name, "surface", "kind"];
      if (actor.surface?.kind === "deferred") context.addIssue({ code: "custom", path, message });
    }
  })
  .meta({ title: "Quartermaster configuration" });

const findCostScope = (budgets: z.output<typeof budgetOptions>): string | undefined =>
  (["turn", "session", "tenant"] as const).find((scope) => budgets[scope]?.cost !== undefined);

/** A whole and valid configuration: every default filled in, every reference unfilled. */
export type Config = Options<z.output<typeof configSchema>>;
