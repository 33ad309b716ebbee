import { z } from "zod";
import { flag, integer, list, REFERENCE_FORMS, referenceText, secretReference, text } from "./schema-values.ts";

const file = z
  .strictObject({
    enabled: flag(true, "Whether the category `file` exists."),
    root: referenceText("a path")
      .default(".")
      .describe(
        `Nothing outside this folder can be reached. Relative to the folder of the configuration file. May hold ${REFERENCE_FORMS}.`,
      ),
    readOnly: flag(
      true,
      "Leave out every action that changes a file. `false`: files can be written, edited and deleted.",
    ),
  })
  .prefault({})
  .describe("Reading and changing files.");

const source = z
  .strictObject({ enabled: flag(false, "Whether the category `qm_source` exists.") })
  .prefault({})
  .describe("Reading the documentation and the source of Quartermaster itself.");

const memory = z
  .strictObject({
    enabled: flag(
      false,
      "Whether actors can remember things across sessions, with the categories `memory_operation` and `memory_entry`. A change needs a restart.",
    ),
  })
  .prefault({})
  .describe("What actors remember across sessions.");

const search = z
  .strictObject({
    kind: z.enum(["searxng", "brave"]).describe("How the engine answers: like SearXNG, or like Brave Search."),
    url: referenceText("a URL")
      .optional()
      .describe(`The address of the engine. SearXNG needs one. May hold ${REFERENCE_FORMS}. It may be private.`),
    token: secretReference()
      .optional()
      .describe(`The token of the engine, as ${REFERENCE_FORMS}. Brave needs one. Absent: none is sent.`),
  })
  .refine(({ kind, url }) => kind !== "searxng" || url !== undefined, "searxng needs a url")
  .refine(({ kind, token }) => kind !== "brave" || token !== undefined, "brave needs a token");

const web = z
  .strictObject({
    enabled: flag(false, "Whether the category `web` exists."),
    allowHosts: list(
      text("a host or host:port").regex(/^[^\s/@?#]+$/, "expected a host or host:port, as in wiki.example.com:8080"),
      "Hosts that may be fetched although their addresses are private, each as `host` or `host:port`.",
    ),
    respectRobots: flag(true, "Whether pages that the robots.txt of a site does not allow are refused."),
    maxBytes: integer(1_024, 52_428_800)
      .default(5_242_880)
      .describe("How many bytes of a page are read, after decompression. A longer text is cut."),
    search: search.optional().describe("The search engine. Absent: searching is unavailable."),
  })
  .prefault({})
  .describe("Fetching pages and searching the web.");

const rag = z
  .strictObject({
    enabled: flag(
      false,
      "Whether documents can be indexed and recalled: the categories `rag_operation` and `rag_corpus`. A change needs a restart.",
    ),
  })
  .prefault({})
  .describe("Recalling passages of indexed documents.");

export const providersSchema = z
  .strictObject({ file, source, memory, rag, web })
  .prefault({})
  .describe("The built-in categories of actions.");
