import { z } from "zod";
import { activationScopes, searchTypes, selections, surfaceKinds } from "../core/surface-choice.ts";
import { listVariables } from "./references.ts";
import {
  actionPattern,
  boundedInteger,
  plainText,
  REFERENCE_FORMS,
  referenceText,
  secretReference,
} from "./schema-values.ts";

const kind = z.enum(surfaceKinds);
const tokenBudget = boundedInteger(1, 10_000_000);
const selection = z.enum(selections);
const hotListN = boundedInteger(0, 64);
const loading = z.enum(["always", "deferred"]);
const scope = z.enum(activationScopes);
const name = plainText("the name of an action").regex(/^[^\s*?]+$/, "expected a name, not a glob");

/** What models are shown. */
export const surfaceSchema = z
  .strictObject({
    kind: kind
      .default("universal")
      .describe(
        "`universal`: a few constant tools that find and call actions. `deferred`: two tools that find actions, and each action as a tool once it was called. `flat`: every action as a tool. `auto`: flat while the schemas fit the budget, else universal.",
      ),
    token_budget: tokenBudget.default(8000).describe("How many tokens of schemas `auto` shows as they are."),
    selection: selection
      .default("none")
      .describe(
        "`enum`, for `universal`: the names that were shown are listed where a name is asked for. `promote`: they become tools of their own; on `deferred`, those that `tool_get` gave.",
      ),
    hot_list_n: hotListN
      .default(0)
      .describe("For `universal`: so many of the actions most used are tools of their own. 0: none."),
    hot_list_seed: z
      .array(name)
      .default([])
      .describe("For `universal`: the names that fill the hot list until others are used more."),
    default_loading_mode: loading
      .default("deferred")
      .describe("For `deferred`: whether an action that does not say itself is shown from the start (`always`)."),
    always_loaded_patterns: z
      .array(actionPattern())
      .default([])
      .describe("For `deferred`: names or globs of actions that are shown from the start, whatever they say."),
    activation_scope: scope
      .default("run")
      .describe("For `deferred`: whether a called action stays a tool for the turn (`run`) or for the session."),
  })
  .prefault({})
  .describe("The tools a model is shown.");

/** What an actor's model is shown instead. */
export const actorSurfaceSchema = z
  .strictObject({
    kind: kind.optional().describe("In place of `surface.kind`."),
    token_budget: tokenBudget.optional().describe("In place of `surface.token_budget`."),
    selection: selection.optional().describe("In place of `surface.selection`."),
    hot_list_n: hotListN.optional().describe("In place of `surface.hot_list_n`."),
    hot_list_seed: z.array(name).optional().describe("In place of `surface.hot_list_seed`."),
    default_loading_mode: loading.optional().describe("In place of `surface.default_loading_mode`."),
    always_loaded_patterns: z
      .array(actionPattern())
      .optional()
      .describe("In place of `surface.always_loaded_patterns`."),
    activation_scope: scope.optional().describe("In place of `surface.activation_scope`."),
  })
  .optional()
  .describe("What this actor's model is shown, where it differs from `surface`.");

const searchType = z.enum(searchTypes);

const group = z.strictObject({
  name: plainText("a name").describe("What the group is called."),
  title: plainText("text").optional().describe("A few words more."),
  trigger: plainText("text").optional().describe("When to look here."),
  namespaces: z.array(plainText("a namespace")).default([]).describe("It takes the actions of these namespaces,"),
  tags: z.array(plainText("a tag")).default([]).describe("those with one of these tags,"),
  actions: z.array(actionPattern()).default([]).describe("and these: names, or globs."),
});

/** What is said to somebody who is not there is most often a mistake. */
function listUnusedKeys(kind: string | null | undefined) {
  const ofEndpoints = ["base_url", "model", "api_key", "dimensions"] as const;
  if (kind === undefined || kind === null) return [...ofEndpoints, "model_path"] as const;
  return kind === "local-mini" ? ofEndpoints : (["model_path"] as const);
}

/** How actions are found. */
export const searchSchema = z
  .strictObject({
    enabled: z
      .boolean()
      .default(true)
      .describe(
        "Whether actions can be searched for. Without it there is no `search_actions` and no `deferred` surface.",
      ),
    max_results: boundedInteger(1, 50).default(20).describe("No search answers more, whatever is asked for."),
    preferred_namespaces: z
      .array(plainText("a namespace"))
      .default([])
      .describe("Among equals the actions of these come first, in this order."),
    embedder: z
      .strictObject({
        class: z
          .enum(["light", "standard", "strong", "local-mini"])
          .nullable()
          .optional()
          .describe(
            "Who turns texts into vectors, for search by meaning: an endpoint like OpenAI's with a small, usual or large model, or `local-mini`, which runs here. `null`: nobody. Absent: nobody, and `list_actions` says so.",
          ),
        base_url: referenceText("a URL")
          .refine(
            (url) => listVariables(url).length > 0 || /^https?:\/\/[^/]/.test(url),
            "expected a URL with http or https",
          )
          .refine((url) => !/\/embeddings\/?$/.test(url), "expected it up to and without /embeddings")
          .optional()
          .describe(
            `Where the endpoint is, up to and without \`/embeddings\`. Absent: OpenAI's own. May hold ${REFERENCE_FORMS}.`,
          ),
        model: plainText("a model's name").optional().describe("Absent: the one that belongs to the class."),
        api_key: secretReference()
          .optional()
          .describe(`What the endpoint is paid with, as ${REFERENCE_FORMS}. Absent: none is sent.`),
        dimensions: boundedInteger(8, 8192)
          .optional()
          .describe("How long a vector is, where the model lets one choose."),
        model_path: referenceText("a path")
          .optional()
          .describe(
            `For \`local-mini\`: the folder with the model's files. Relative to the folder of the configuration file. May hold ${REFERENCE_FORMS}.`,
          ),
        timeout_ms: boundedInteger(1, 60_000)
          .default(1500)
          .describe("How long a search waits for the vector of its query before it goes on by words alone."),
      })
      .superRefine((embedder, context) => {
        const useless = listUnusedKeys(embedder.class).filter((key) => embedder[key] !== undefined);
        for (const key of useless) {
          const where = embedder.class == null ? "without a class" : `with the class ${embedder.class}`;
          context.addIssue({ code: "custom", path: [key], message: `has no effect ${where}` });
        }
      })
      .prefault({})
      .describe("Search by meaning, beside search by words."),
    index: z
      .strictObject({
        path: referenceText("a path")
          .optional()
          .describe(
            `A SQLite file for the vectors alone. Absent: they are in the store. Relative to the folder of the configuration file. May hold ${REFERENCE_FORMS}.`,
          ),
        incremental: z
          .boolean()
          .default(true)
          .describe("Whether only what changed is embedded. `false`: all of it, at each change of the catalog."),
        rebuild: z
          .boolean()
          .default(false)
          .describe("Whether everything is embedded anew at each start; what is there answers until then."),
      })
      .prefault({})
      .describe("Where vectors are kept, and when they are made."),
    hints: z
      .strictObject({
        enabled: z
          .boolean()
          .default(false)
          .describe("Whether a prompt gets a shortlist for what is asked, made anew each turn."),
        top_k: boundedInteger(1, 20).default(5).describe("How many actions it names."),
        search_type: searchType.optional().describe("How they are found. Absent: as well as can be."),
        include_always_loaded: z
          .boolean()
          .default(false)
          .describe("On the `deferred` surface: also what the model is shown anyway."),
      })
      .prefault({})
      .describe("A shortlist for each turn."),
    directory: z
      .strictObject({
        enabled: z.boolean().default(false).describe("Whether a prompt gets a directory of what there is."),
        max_groups: boundedInteger(1, 100).default(20).describe("How many groups it shows; the rest is counted."),
        max_actions_per_group: boundedInteger(0, 50)
          .default(6)
          .describe("How many names a group shows; the rest is counted."),
        show_counts: z.boolean().default(true).describe("Whether a group says how many it has, also when none is cut."),
        default_groups: z
          .boolean()
          .default(true)
          .describe("Whether what no group takes is grouped by world, then by namespace."),
        groups: z.array(group).default([]).describe("Groups of your own. An action goes to the first that takes it."),
      })
      .prefault({})
      .describe("A directory of what a caller may use."),
  })
  .prefault({})
  .describe("How actions are found.");
