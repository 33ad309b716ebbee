import { z } from "zod";
import { searchTypes } from "../core/search-type.ts";
import { variablesIn } from "./references.ts";
import { pattern, REFERENCE, referring, secret, text, whole } from "./values.ts";

const searchType = z.enum(searchTypes);

const group = z.strictObject({
  name: text("a name").describe("What the group is called."),
  title: text("text").optional().describe("A few words more."),
  trigger: text("text").optional().describe("When to look here."),
  namespaces: z.array(text("a namespace")).default([]).describe("It takes the actions of these namespaces,"),
  tags: z.array(text("a tag")).default([]).describe("those with one of these tags,"),
  actions: z.array(pattern()).default([]).describe("and these: names, or globs."),
});

/** What is said to somebody who is not there is most often a mistake. */
function idleKeys(kind: string | null | undefined) {
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
    max_results: whole(1, 50).default(20).describe("No search answers more, whatever is asked for."),
    preferred_namespaces: z
      .array(text("a namespace"))
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
        base_url: referring("a URL")
          .refine(
            (url) => variablesIn(url).length > 0 || /^https?:\/\/[^/]/.test(url),
            "expected a URL with http or https",
          )
          .refine((url) => !/\/embeddings\/?$/.test(url), "expected it up to and without /embeddings")
          .optional()
          .describe(
            `Where the endpoint is, up to and without \`/embeddings\`. Absent: OpenAI's own. May hold ${REFERENCE}.`,
          ),
        model: text("a model's name").optional().describe("Absent: the one that belongs to the class."),
        api_key: secret().optional().describe(`What the endpoint is paid with, as ${REFERENCE}. Absent: none is sent.`),
        dimensions: whole(8, 8192).optional().describe("How long a vector is, where the model lets one choose."),
        model_path: referring("a path")
          .optional()
          .describe(
            `For \`local-mini\`: the folder with the model's files. Relative to the folder of the configuration file. May hold ${REFERENCE}.`,
          ),
        timeout_ms: whole(1, 60_000)
          .default(1500)
          .describe("How long a search waits for the vector of its query before it goes on by words alone."),
      })
      .superRefine((embedder, context) => {
        const useless = idleKeys(embedder.class).filter((key) => embedder[key] !== undefined);
        for (const key of useless) {
          const where = embedder.class == null ? "without a class" : `with the class ${embedder.class}`;
          context.addIssue({ code: "custom", path: [key], message: `has no effect ${where}` });
        }
      })
      .prefault({})
      .describe("Search by meaning, beside search by words."),
    index: z
      .strictObject({
        path: referring("a path")
          .optional()
          .describe(
            `A SQLite file for the vectors alone. Absent: they are in the store. Relative to the folder of the configuration file. May hold ${REFERENCE}.`,
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
        top_k: whole(1, 20).default(5).describe("How many actions it names."),
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
        max_groups: whole(1, 100).default(20).describe("How many groups it shows; the rest is counted."),
        max_actions_per_group: whole(0, 50).default(6).describe("How many names a group shows; the rest is counted."),
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
