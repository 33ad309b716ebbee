import { z } from "zod";
import { referenceTexts } from "./file-keys.ts";
import { sandboxSchema } from "./sandbox-schema.ts";
import { DAY_MS, flag, integer, list, REFERENCE_FORMS, referenceText, secretReference, text } from "./schema-values.ts";

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

/** Such a variable could change the program that sets the limits, before it sets them. */
const isLoaderVariable = (name: string) => /^(?:LD_|GLIBC_|GCONV_|LOCPATH$|NLSPATH$|MALLOC_)/.test(name);
const variableName = () =>
  z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "expected the name of a variable")
    .refine((name) => !isLoaderVariable(name), "programs in a sandbox cannot get this variable");

const exec = z
  .strictObject({
    enabled: flag(false, "Whether the category `exec` exists. It appears only where a sandbox passes its self-test."),
    folder: referenceText("a path")
      .default("work")
      .describe(
        `The folder that programs start in and can change. It is created if it is missing. Relative to the folder of the configuration file. May hold ${REFERENCE_FORMS}.`,
      ),
    sandbox: sandboxSchema,
    unisolated: flag(
      false,
      "Run programs without a sandbox, with all rights of Quartermaster. The action says so, and a person must approve each call.",
    ),
    timeoutMs: integer(1, DAY_MS)
      .default(60_000)
      .describe("How long a program may run, unless the call says. Never more than `max_timeout_ms`."),
    maxTimeoutMs: integer(1, DAY_MS)
      .default(600_000)
      .describe("The longest time that a call may ask for. A longer one is refused."),
    outputBytes: integer(1_024, 67_108_864)
      .default(1_048_576)
      .describe("How many bytes of its output and of its error output are returned. The rest is dropped."),
    env: z
      .record(variableName(), z.string().register(referenceTexts, { isChecked: false, mayBeSecret: true }))
      .default({})
      .describe(`Environment variables of every program. Values may hold ${REFERENCE_FORMS}. Programs can print them.`),
    allowEnv: list(variableName(), "Environment variables that a call may set. No others are accepted."),
  })
  .prefault({})
  .describe("Running programs in a sandbox.");

export const providersSchema = z
  .strictObject({ file, source, memory, rag, web, exec })
  .prefault({})
  .describe("The built-in categories of actions.");
