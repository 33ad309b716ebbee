import { z } from "zod";
import {
  activationScopes,
  hotListSeed,
  type SurfaceChoice,
  searchTypes,
  selections,
  surfaceKinds,
} from "../core/surface-choice.ts";
import { toFileKey } from "./file-keys.ts";
import { listVariables } from "./references.ts";
import {
  actionPattern,
  flag,
  HOT_LIST_LIMIT,
  integer,
  list,
  REFERENCE_FORMS,
  referenceText,
  secretReference,
  text,
} from "./schema-values.ts";

const actionName = text("the name of an action").regex(/^[^\s*?]+$/, "expected a name, not a glob");

const surface = z.strictObject({
  kind: z
    .enum(surfaceKinds)
    .default("universal")
    .describe(
      "`universal`: a few constant tools that find and call actions. `deferred`: two tools that find actions; an action becomes a tool once it was called. `flat`: every action is a tool. `auto`: flat while the schemas fit the budget, else universal.",
    ),
  tokenBudget: integer(1, 10_000_000)
    .default(8000)
    .describe("For `auto`: the most tokens of schemas in a flat surface."),
  selection: z
    .enum(selections)
    .default("none")
    .describe(
      "`enum`, for `universal`: tools that take an action's name list the names the model has seen. `promote`: those actions become tools; on `deferred`, the ones `tool_get` returned.",
    ),
  hotListN: integer(0, HOT_LIST_LIMIT)
    .default(0)
    .describe("For `universal`: how many of the most used actions are tools."),
  hotListSeed: z
    .array(actionName)
    .default([...hotListSeed])
    .describe(
      "For `universal`: the actions in the hot list until others are used more. Those that do not exist are left out.",
    ),
  defaultLoadingMode: z
    .enum(["always", "deferred"])
    .default("deferred")
    .describe("For `deferred`: whether actions without a loading mode are shown from the start (`always`)."),
  alwaysLoadedPatterns: list(
    actionPattern(),
    "For `deferred`: actions that are always shown: names, globs, or `tag:<tag>`.",
  ),
  activationScope: z
    .enum(activationScopes)
    .default("run")
    .describe("For `deferred`: whether a called action stays a tool for the turn (`run`) or for the session."),
});

export const surfaceSchema = surface.prefault({}).describe("The tools a model is shown.");

/** The same options without defaults: what is left out is as `surface` says. */
export const surfaceOptions = z.strictObject(
  Object.fromEntries(
    Object.entries(surface.shape).map(([option, schema]) => {
      const optional = (schema.unwrap() as z.ZodType).optional();
      return [option, optional.describe(`Overrides \`surface.${toFileKey(option)}\`.`)];
    }),
  ),
) as unknown as z.ZodType<SurfaceChoice, SurfaceChoice>;

export const directoryGroup = z.strictObject({
  name: text("a name").describe("The name of the group."),
  title: text("text").optional().describe("A short description."),
  trigger: text("text").optional().describe("When the model should look here."),
  namespaces: list(text("a namespace"), "Takes the actions of these namespaces."),
  tags: list(text("a tag"), "Takes the actions with one of these tags."),
  actions: list(actionPattern(), "Takes these actions: names, or globs."),
});

export const searchOptions = {
  enabled: flag(true, "Whether actions can be searched. The `deferred` surface needs it."),
  maxResults: integer(1, 50).default(20).describe("The most results a search returns."),
  preferredNamespaces: list(text("a namespace"), "Come first among equal results, in this order."),
  hints: z
    .strictObject({
      enabled: flag(false, "Whether the prompt of each turn gets a shortlist of actions."),
      topK: integer(1, 20).default(5).describe("How many actions the shortlist has."),
      searchType: z.enum(searchTypes).optional().describe("How they are searched. Absent: the best type available."),
      includeAlwaysLoaded: flag(false, "On the `deferred` surface: also list actions that are already shown as tools."),
    })
    .prefault({})
    .describe("A shortlist of actions for each turn."),
  directory: z
    .strictObject({
      enabled: flag(false, "Whether the prompt gets a directory of the caller's actions."),
      maxGroups: integer(1, 100).default(20).describe("How many groups it shows; the rest is counted."),
      maxActionsPerGroup: integer(0, 50).default(6).describe("How many names a group shows; others are counted."),
      showCounts: flag(true, "Whether each group shows its number of actions."),
      defaultGroups: flag(
        true,
        "Whether actions outside your groups are grouped by namespace, those of the caller's world first.",
      ),
      groups: list(directoryGroup, "Your groups. An action goes to the first one that takes it."),
    })
    .prefault({})
    .describe("A directory of the caller's actions, for the prompt."),
};

export const searchIndexOptions = z.strictObject({
  path: referenceText("a path")
    .optional()
    .describe(
      `A SQLite file for the vectors. Absent: they are in the store. Relative to the folder of the configuration file. May hold ${REFERENCE_FORMS}.`,
    ),
  incremental: flag(true, "Whether a change of the catalog embeds only changed actions. `false`: all of them."),
  rebuild: flag(false, "Whether every start embeds all actions again; the existing vectors are used until then."),
});

export const embedderTimeoutMs = integer(1, 60_000)
  .default(1500)
  .describe("How long a search waits for the vector of its query before it searches by words alone.");

export const embedderClass = z.enum(["light", "standard", "strong", "local-mini"]).nullable();

const embedder = z
  .strictObject({
    class: embedderClass
      .optional()
      .describe(
        "Enables search by meaning: `light`, `standard` and `strong` use a small, medium or large model of an OpenAI-compatible endpoint, `local-mini` a model on this machine. `null`: off. Absent: off, and `list_actions` says so.",
      ),
    baseUrl: referenceText("a URL")
      .refine(
        (url) => listVariables(url).length > 0 || /^https?:\/\/[^/]/.test(url),
        "expected a URL with http or https",
      )
      .refine((url) => !/\/embeddings\/?$/.test(url), "expected it up to and without /embeddings")
      .optional()
      .describe(`The URL of the endpoint, without \`/embeddings\`. Absent: OpenAI's. May hold ${REFERENCE_FORMS}.`),
    model: text("a model's name").optional().describe("Absent: the default model of the class."),
    apiKey: secretReference().optional().describe(`The key of the endpoint, as ${REFERENCE_FORMS}. Absent: none.`),
    dimensions: integer(8, 8192).optional().describe("The length of vectors, if the model has a choice."),
    modelPath: referenceText("a path")
      .optional()
      .describe(
        `For \`local-mini\`: the folder with the model's files. Relative to the folder of the configuration file. May hold ${REFERENCE_FORMS}.`,
      ),
    timeoutMs: embedderTimeoutMs,
  })
  .superRefine((embedder, context) => {
    for (const key of listUnusedKeys(embedder.class).filter((key) => embedder[key] !== undefined)) {
      const where = embedder.class == null ? "without a class" : `with the class ${embedder.class}`;
      context.addIssue({ code: "custom", path: [key], message: `has no effect ${where}` });
    }
  });

/** The options that the chosen class does not read. Setting one is most often a mistake. */
function listUnusedKeys(kind: string | null | undefined) {
  const ofEndpoints = ["baseUrl", "model", "apiKey", "dimensions"] as const;
  if (kind === undefined || kind === null) return [...ofEndpoints, "modelPath"] as const;
  return kind === "local-mini" ? ofEndpoints : (["modelPath"] as const);
}

const { enabled, maxResults, preferredNamespaces, ...promptAids } = searchOptions;

export const searchSchema = z
  .strictObject({
    enabled,
    maxResults,
    preferredNamespaces,
    embedder: embedder.prefault({}).describe("Search by meaning, in addition to search by words."),
    index: searchIndexOptions.prefault({}).describe("Where vectors are stored, and when they are built."),
    ...promptAids,
  })
  .prefault({})
  .describe("How actions are found.");
