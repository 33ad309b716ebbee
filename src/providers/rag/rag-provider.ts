import { z } from "zod";
import { defineAction, type Provider } from "../../catalog/define-action.ts";
import type { LiveResources } from "../../catalog/snapshot.ts";
import { SEPARATOR } from "../../core/names.ts";
import { indexSource } from "./index-source.ts";
import { type RagParts, recall, recallTypes } from "./recall.ts";
import { CORPUS, createSourceAccess, type MeasuredSource, OPERATIONS, RECALL, toCorpus } from "./source-access.ts";

const INDEX_MS = 60 * 60 * 1000;
const sourceName = z
  .string()
  .max(64)
  .regex(/^[a-z0-9]+(?:[._-][a-z0-9]+)*$/)
  .describe("Name of the source: lower-case letters and digits, joined by . _ or -.");
const text = (limit: number) => z.string().min(1).max(limit);

/** The actions that index and recall documents, and the sources as resources of the callers that may use them. */
export function createRagProviders(options: Omit<RagParts, "access">) {
  const { store, search } = options;
  const access = createSourceAccess(options);
  const parts: RagParts = { ...options, access };
  const operations = [
    defineAction(OPERATIONS, {
      entry: "index",
      description:
        "Index files, a folder, web pages or a collection as a source to recall from. Indexing a source again reads everything and embeds only what has changed. Documents that cannot be read are listed as failed.",
      effect: "write",
      idempotent: true,
      timeoutMs: INDEX_MS,
      input: z.lazy(() =>
        z.strictObject({
          source: sourceName,
          description: z.string().max(300).optional().describe("What the source is about, on one line."),
          files: z.array(text(1_000)).min(1).max(50).optional().describe("Patterns such as docs/**/*.md."),
          folder: text(1_000)
            .optional()
            .describe("Folder of which every text file is indexed. Hidden files and folders are left out."),
          urls: z.array(text(4_000)).min(1).max(500).optional().describe("Addresses of web pages."),
          collection: text(256).optional().describe("Handle of a collection. The source is visible only to you."),
          preview: z.boolean().default(false).describe("Only count what would be indexed and embedded."),
        }),
      ),
      examples: [
        { args: { source: "docs", description: "The manual.", files: ["docs/**/*.md"] } },
        { args: { source: "docs" }, description: "Index it again" },
        { args: { source: "code", folder: "src", preview: true }, description: "See how much it is first" },
      ],
      run: (args, context) => indexSource(parts, args, context),
    }),
    defineAction(OPERATIONS, {
      entry: "recall",
      description:
        "Find the passages of indexed sources that fit a question. Each hit names its document and lines, to cite or to read on.",
      effect: "read",
      idempotent: true,
      input: z.lazy(() =>
        z.strictObject({
          query: text(2_000).describe("The question, or words of the passage."),
          sources: z.array(sourceName).min(1).max(50).optional().describe("Absent: every source."),
          limit: z.int().min(1).max(50).default(5).describe("Maximum number of passages."),
          type: z.enum(recallTypes).optional().describe("Absent: hybrid if possible, otherwise keyword."),
        }),
      ),
      examples: [{ args: { query: "how are backups restored", sources: ["docs"] } }],
      run: (args, context) => recall(parts, args, context),
    }),
    defineAction(OPERATIONS, {
      entry: "drop_source",
      description: "Remove a source with everything indexed in it. The documents themselves stay.",
      effect: "write",
      input: z.lazy(() => z.strictObject({ source: sourceName })),
      examples: [{ args: { source: "docs" } }],
      async run({ source: name }, { caller }) {
        for (const { id } of await access.require([name], caller)) await store.drop(id);
        await search.forget();
        return { source: name, dropped: true };
      },
    }),
    defineAction(OPERATIONS, {
      entry: "list",
      description: "List the indexed sources that you may recall from.",
      effect: "read",
      idempotent: true,
      input: z.lazy(() => z.strictObject({})),
      examples: [{ args: {} }],
      run: async (_args, { caller }) => ({ sources: (await access.listMeasured(caller)).map(summarizeSource) }),
    }),
  ];
  const providers: readonly Provider[] = [
    {
      category: OPERATIONS,
      capability: "Index documents and recall passages from them.",
      list: () => operations,
    },
    // Sources differ by tenant, so they are no part of the catalog.
    { category: CORPUS, capability: "Recall passages from one indexed source.", list: () => [] },
  ];
  const live: LiveResources = {
    find(name, caller) {
      if (!name.startsWith(CORPUS + SEPARATOR)) return undefined;
      const entry = name.slice(CORPUS.length + SEPARATOR.length);
      return access.listMeasured(caller, entry).then(([source]) => source && toCorpus(source));
    },
    list: async (caller, categories) =>
      categories.includes(CORPUS) ? (await access.listMeasured(caller)).map(toCorpus) : [],
    categories: () => [{ name: CORPUS, target: RECALL }],
  };
  return { providers, live };
}

function summarizeSource(source: MeasuredSource) {
  const { name, description, documents, chunks, characters, indexedAt, owner, contents, isPartial } = source;
  return {
    source: name,
    description,
    documents,
    chunks,
    characters,
    indexed_at: indexedAt,
    // Patterns and addresses can name hidden documents.
    ...(isPartial ? {} : { of: contents }),
    ...(owner.user === undefined ? {} : { private: true }),
  };
}
