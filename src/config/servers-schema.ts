import { z } from "zod";
import { effects } from "../core/effect.ts";
import { normalForms } from "../core/normalize.ts";
import { variablesIn } from "./references.ts";
import { REFERENCE, referring, secret, text, whole } from "./values.ts";

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
  tags: z.array(text("a tag")).default([]).describe("Further tags, for rules."),
  approval: z.boolean().optional().describe("`true`: a person must agree to each call."),
  loading: z.enum(["always", "deferred"]).optional().describe("For the deferred surface."),
  arguments: z
    .record(text("an argument, or a field of one as in `options.cwd`"), z.enum(serverForms))
    .default({})
    .describe(
      "Arguments that can be spelled in several ways, by name, and the one form that rules, approvals, the ledger and the server see. `file`: an absolute path on this machine. `path`: one without `.` and `..`.",
    ),
});

const oauth = z.strictObject({
  client_id: referring("a client id")
    .optional()
    .describe("Of a client registered beforehand. Absent: one is registered."),
  client_secret: secret().optional().describe(`Of that client, as ${REFERENCE}.`),
  client_metadata_url: text("an https URL")
    .regex(/^https:\/\//, "expected an https URL")
    .optional()
    .describe("Where this client describes itself, for servers that take such a URL as the client id."),
  scopes: z.array(text("a scope")).optional().describe("What is asked for. Absent: what the server says."),
  callback_port: whole(1, 65_535).optional().describe("Where the browser comes back to. Absent: any free port."),
});

/** One server in the file. */
export const serverSchema = z
  .strictObject({
    command: referring("a command").optional().describe(`A local server: the program to start. May hold ${REFERENCE}.`),
    args: z
      .array(z.string().superRefine(refersWell))
      .default([])
      .describe(`Its arguments, as they are; no shell reads them. May hold ${REFERENCE}.`),
    env: z
      .record(
        z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "expected the name of a variable"),
        z.string().superRefine(refersWell),
      )
      .default({})
      .describe(`Its variables beside a few harmless ones of our own. Values may hold ${REFERENCE}.`),
    cwd: referring("a path")
      .optional()
      .describe("Its working directory. Relative to the folder of the configuration file."),
    url: referring("a URL")
      .refine(isHttp, "expected an http or https URL, as in https://example.com/mcp")
      .optional()
      .describe(`A remote server: its Streamable HTTP address. May hold ${REFERENCE}.`),
    headers: z
      .record(z.string().regex(/^[A-Za-z0-9-]+$/, "expected the name of a header"), z.string().superRefine(refersWell))
      .default({})
      .describe(`Sent with every request to it. Values may hold ${REFERENCE}.`),
    oauth: oauth.optional().describe("How to log in there, where the defaults do not do."),
    description: text("text").optional().describe("What it is for. Search reads it while its tools are not known yet."),
    enabled: z.boolean().default(true).describe("`false`: as if it were not written here."),
    version: text("a version")
      .optional()
      .describe("The version that is meant. Changing it makes its tools be looked up anew."),
    source: text("text").optional().describe("Where it came from, as `qm servers add` noted it."),
    protocol: z
      .enum(["auto", "legacy", "modern"])
      .default("auto")
      .describe("Which era of MCP it speaks. `auto`: found out once and remembered."),
    start_timeout_ms: whole(100, DAY_MS)
      .default(60_000)
      .describe("How long it may take until it answers for the first time."),
    call_timeout_ms: whole(1, DAY_MS).optional().describe("How long a call may run. Absent: `limits.timeout_ms`."),
    idle_timeout_ms: whole(0, DAY_MS)
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
      .record(text("a tool's name, or a glob"), toolOverride)
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
    registry: text("a URL")
      .default("https://registry.modelcontextprotocol.io")
      .describe("Where servers are looked for."),
    starting_at_once: whole(1, 64).default(4).describe("How many servers may be starting at the same time."),
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
function isHttp(url: string): boolean {
  return variablesIn(url).length > 0 || (/^https?:\/\//i.test(url) && URL.canParse(url));
}

function refersWell(value: string, context: z.RefinementCtx): void {
  const checked = referring("text").safeParse(value === "" ? " " : value);
  if (!checked.success) for (const { message } of checked.error.issues) context.addIssue(message);
}
