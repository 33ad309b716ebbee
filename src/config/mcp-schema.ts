import { z } from "zod";
import { effects } from "../core/action.ts";
import { normalForms } from "../core/normalize-arguments.ts";
import { surfaceKinds } from "../core/surface-choice.ts";
import { durationText } from "./calls-schema.ts";
import { listVariables } from "./references.ts";
import { boundedInteger, plainText, REFERENCE_FORMS, referenceText, secretReference } from "./schema-values.ts";

const profile = z.strictObject({
  token: secretReference()
    .optional()
    .describe(`What a client says to get this profile over HTTP, as ${REFERENCE_FORMS}.`),
  actor: plainText("an actor").default("default").describe("Whom its clients act as."),
  surface: z
    .enum(surfaceKinds)
    .optional()
    .describe("The tools its clients are shown. Absent: as `surface` or the actor says."),
  pass_through: z
    .array(plainText("a server's name, or a glob"))
    .default([])
    .describe("Servers that its clients see as if they were connected to them: every tool by its own name."),
  resources: z.boolean().default(true).describe("Whether the resources of servers are offered, too."),
  prompts: z.boolean().default(true).describe("Whether the prompts of servers are offered, too."),
});

/** How MCP clients reach us. */
export const gatewaySchema = z
  .strictObject({
    host: plainText("an address").default("127.0.0.1").describe("What `qm serve` listens on."),
    port: boundedInteger(0, 65_535).default(7420).describe("0: any free one."),
    allowed_hosts: z
      .array(plainText("a host name"))
      .default([])
      .describe("Names that clients may call us by, beside those of this machine itself."),
    allowed_origins: z
      .array(plainText("an origin"))
      .default([])
      .describe("Web pages that may call, as `https://example.com`. None else may."),
    session_idle: durationText()
      .default("30m")
      .describe("A client's session ends after this time without requests. Its next request begins a new session."),
    profiles: z
      .record(
        z.string().regex(/^[A-Za-z][A-Za-z0-9_.-]{0,63}$/, "expected a letter, then letters, digits, `_`, `.` or `-`"),
        profile,
      )
      .default({})
      .describe("Kinds of clients, by name. `default` is there unless it is defined anew."),
  })
  .prefault({})
  .describe("Quartermaster as an MCP server: `qm mcp` and `qm serve`.");

export type ProfileConfig = z.output<typeof profile>;

const DAY_MS = 24 * 60 * 60 * 1000;

const SERVER_NAME =
  "expected a lower-case letter or digit, then letters, digits, - or single _, at most 40 in all, as in `github`";

/** No `__`: the part of a name before the tool must have one reading. */
export const serverName = z
  .string()
  .max(40, SERVER_NAME)
  .regex(/^[a-z0-9]+(?:[-_][a-z0-9]+)*$/, SERVER_NAME);

const serverForms = ["file", ...normalForms] as const;

const toolOverride = z.strictObject({
  enabled: z.boolean().default(true).describe("`false`: the tool is not offered to anybody."),
  effect: z.enum(effects).optional().describe("In place of what the server's annotations say."),
  tags: z.array(plainText("a tag")).default([]).describe("Further tags, for rules."),
  approval: z.boolean().optional().describe("`true`: a person must agree to each call."),
  loading: z.enum(["always", "deferred"]).optional().describe("For the deferred surface."),
  arguments: z
    .record(plainText("an argument, or a field of one as in `options.cwd`"), z.enum(serverForms))
    .default({})
    .describe(
      "Arguments that can be spelled in several ways, by name, and the one form that rules, approvals, the ledger and the server see. `file`: an absolute path on this machine. `path`: one without `.` and `..`.",
    ),
});

const oauth = z.strictObject({
  client_id: referenceText("a client id")
    .optional()
    .describe("Of a client registered beforehand. Absent: one is registered."),
  client_secret: secretReference().optional().describe(`Of that client, as ${REFERENCE_FORMS}.`),
  client_metadata_url: plainText("an https URL")
    .regex(/^https:\/\//, "expected an https URL")
    .optional()
    .describe("Where this client describes itself, for servers that take such a URL as the client id."),
  scopes: z.array(plainText("a scope")).optional().describe("What is asked for. Absent: what the server says."),
  callback_port: boundedInteger(1, 65_535)
    .optional()
    .describe("Where the browser comes back to. Absent: any free port."),
});

/** One server in the file. */
export const serverSchema = z
  .strictObject({
    command: referenceText("a command")
      .optional()
      .describe(`A local server: the program to start. May hold ${REFERENCE_FORMS}.`),
    args: z
      .array(z.string().superRefine(checkReferences))
      .default([])
      .describe(`Its arguments, as they are; no shell reads them. May hold ${REFERENCE_FORMS}.`),
    env: z
      .record(
        z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "expected the name of a variable"),
        z.string().superRefine(checkReferences),
      )
      .default({})
      .describe(`Its variables beside a few harmless ones of our own. Values may hold ${REFERENCE_FORMS}.`),
    cwd: referenceText("a path")
      .optional()
      .describe("Its working directory. Relative to the folder of the configuration file."),
    url: referenceText("a URL")
      .refine(isHttpUrl, "expected an http or https URL, as in https://example.com/mcp")
      .optional()
      .describe(`A remote server: its Streamable HTTP address. May hold ${REFERENCE_FORMS}.`),
    headers: z
      .record(
        z.string().regex(/^[A-Za-z0-9-]+$/, "expected the name of a header"),
        z.string().superRefine(checkReferences),
      )
      .default({})
      .describe(`Sent with every request to it. Values may hold ${REFERENCE_FORMS}.`),
    oauth: oauth.optional().describe("How to log in there, where the defaults do not do."),
    description: plainText("text")
      .optional()
      .describe("What it is for. Search reads it while its tools are not known yet."),
    enabled: z.boolean().default(true).describe("`false`: as if it were not written here."),
    version: plainText("a version")
      .optional()
      .describe("The version that is meant. Changing it makes its tools be looked up anew."),
    source: plainText("text").optional().describe("Where it came from, as `qm servers add` noted it."),
    protocol: z
      .enum(["auto", "legacy", "modern"])
      .default("auto")
      .describe("Which era of MCP it speaks. `auto`: found out once and remembered."),
    start_timeout_ms: boundedInteger(100, DAY_MS)
      .default(60_000)
      .describe("How long it may take until it answers for the first time."),
    call_timeout_ms: boundedInteger(1, DAY_MS)
      .optional()
      .describe("How long a call may run. Absent: `limits.timeout_ms`."),
    idle_timeout_ms: boundedInteger(0, DAY_MS)
      .default(600_000)
      .describe("It is stopped after so long without a call. 0: never."),
    trust_annotations: z
      .boolean()
      .default(true)
      .describe("Whether what the server says of its tools' effects is believed. `false`: every tool is `external`."),
    pin: z
      .boolean()
      .default(true)
      .describe("Whether a tool whose definition has changed is withheld until a person has accepted it."),
    tools: z
      .record(plainText("a tool's name, or a glob"), toolOverride)
      .default({})
      .describe("What is different for some tools: by name or glob, the last that fits wins."),
  })
  .refine(({ command, url }) => command !== undefined || url !== undefined, {
    error: "has neither `command`, for a local server, nor `url`, for a remote one",
    when: hasKnownKeys,
  })
  .refine(({ command, url }) => command === undefined || url === undefined, {
    error: "has both `command`, for a local server, and `url`, for a remote one",
  })
  .superRefine((server, context) => {
    const foreign = server.url === undefined ? (["oauth"] as const) : (["cwd"] as const);
    for (const key of foreign) {
      if (server[key] !== undefined)
        context.addIssue({
          code: "custom",
          path: [key],
          message: `means nothing ${server.url === undefined ? "without" : "with"} \`url\``,
        });
    }
  });

/** The MCP servers whose tools are actions, by name. */
export const serversSchema = z
  .record(serverName, serverSchema)
  .default({})
  .describe("MCP servers, by name. Their tools are actions: `mcp__<name>__<tool>`.");

/** What holds for all servers. */
export const mcpSchema = z
  .strictObject({
    registry: plainText("a URL")
      .default("https://registry.modelcontextprotocol.io")
      .describe("Where servers are looked for."),
    starting_at_once: boundedInteger(1, 64).default(4).describe("How many servers may be starting at the same time."),
    install: z
      .boolean()
      .default(true)
      .describe("Whether there are actions that find and install servers. Installing asks a person, always."),
  })
  .prefault({})
  .describe("MCP servers in general.");

export type ServerConfig = z.output<typeof serverSchema>;

/** An unknown key is probably the one that is missed, and then says it better. */
function hasKnownKeys({ issues }: z.core.ParsePayload): boolean {
  return !issues.some(({ code }) => code === "unrecognized_keys");
}

/** What is filled in later cannot be judged yet. */
function isHttpUrl(url: string): boolean {
  return listVariables(url).length > 0 || (/^https?:\/\//i.test(url) && URL.canParse(url));
}

function checkReferences(value: string, context: z.RefinementCtx): void {
  const checked = referenceText("text").safeParse(value === "" ? " " : value);
  if (!checked.success) for (const { message } of checked.error.issues) context.addIssue(message);
}
