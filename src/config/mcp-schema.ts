import { z } from "zod";
import { effects } from "../core/action.ts";
import { normalForms } from "../core/normalize-arguments.ts";
import { surfaceKinds } from "../core/surface-choice.ts";
import { parseFileValue, referenceTexts } from "./file-keys.ts";
import { listVariables } from "./references.ts";
import { optionalSandboxSchema } from "./sandbox-schema.ts";
import {
  DAY_MS,
  duration,
  flag,
  integer,
  list,
  type Options,
  REFERENCE_FORMS,
  referenceText,
  secretReference,
  text,
} from "./schema-values.ts";

const profile = z.strictObject({
  token: secretReference().optional().describe(`The token of this profile's clients over HTTP, as ${REFERENCE_FORMS}.`),
  actor: text("an actor").default("default").describe("The actor of its clients."),
  surface: z.enum(surfaceKinds).optional().describe("The surface of its clients. Absent: that of the actor."),
  passThrough: list(text("a server's name, or a glob"), "Servers whose tools keep their own names."),
  resources: flag(true, "Whether the resources of servers are offered."),
  prompts: flag(true, "Whether the prompts of servers are offered."),
});

const gateway = z.strictObject({
  host: text("an address").default("127.0.0.1").describe("The address `qm serve` listens on."),
  port: integer(0, 65_535).default(7420).describe("The port it listens on. 0: any free port."),
  allowedHosts: list(text("a host name"), "Host names that clients may use, besides those of this machine."),
  allowedOrigins: list(text("an origin"), "The only web pages that may connect, as `https://example.com`."),
  sessionIdle: duration()
    .default("30m")
    .describe("A client's session ends after this time without requests. Its next request begins a new session."),
  profiles: z
    .record(
      z.string().regex(/^[A-Za-z][A-Za-z0-9_.-]{0,63}$/, "expected a letter, then letters, digits, `_`, `.` or `-`"),
      profile,
    )
    .default({})
    .describe("Kinds of clients, by name. `default` exists unless you redefine it."),
});

export const gatewaySchema = gateway.prefault({}).describe("Quartermaster as an MCP server: `qm mcp` and `qm serve`.");
export type ProfileConfig = Options<z.output<typeof profile>>;

const SERVER_NAME =
  "expected a lower-case letter or digit, then letters, digits, - or single _, at most 40 in all, as in `github`";

/** A name has no `__`, so that `mcp__<name>__<tool>` can be read in one way only. */
export const serverName = z
  .string()
  .max(40, SERVER_NAME)
  .regex(/^[a-z0-9]+(?:[-_][a-z0-9]+)*$/, SERVER_NAME);

const serverForms = ["file", ...normalForms] as const;

const toolOverride = z.strictObject({
  enabled: flag(true, "`false`: the tool is not offered."),
  effect: z.enum(effects).optional().describe("Overrides the server's annotations."),
  tags: list(text("a tag"), "Further tags, for rules."),
  approval: z.boolean().optional().describe("`true`: a person must approve each call."),
  loading: z.enum(["always", "deferred"]).optional().describe("The loading mode on the `deferred` surface."),
  arguments: z
    .record(text("an argument, or a field of one as in `options.cwd`"), z.enum(serverForms))
    .default({})
    .describe(
      "Arguments that can be spelled in several ways, by name, and the form in which rules, approvals, the ledger and the server see them. `file`: an absolute path on this machine. `path`: one without `.` and `..`.",
    ),
});

const oauth = z.strictObject({
  clientId: referenceText("a client id").optional().describe("The id of a client. Absent: one is registered."),
  clientSecret: secretReference().optional().describe(`The secret of that client, as ${REFERENCE_FORMS}.`),
  clientMetadataUrl: text("an https URL")
    .regex(/^https:\/\//, "expected an https URL")
    .optional()
    .describe("The URL of this client's metadata, for servers that take such a URL as the client id."),
  scopes: z.array(text("a scope")).optional().describe("The scopes to request. Absent: those the server names."),
  callbackPort: integer(1, 65_535).optional().describe("The local port of the redirect. Absent: any free port."),
});

export const serverSchema = z
  .strictObject({
    command: referenceText("a command")
      .optional()
      .describe(`The program of a local server. May hold ${REFERENCE_FORMS}.`),
    args: list(filledText(), `Its arguments. No shell interprets them. May hold ${REFERENCE_FORMS}.`),
    env: z
      .record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "expected the name of a variable"), filledText())
      .default({})
      .describe(`Its environment variables, besides a few harmless ones of ours. Values may hold ${REFERENCE_FORMS}.`),
    cwd: referenceText("a path").optional().describe("Its working directory, relative to the folder of the file."),
    sandbox: optionalSandboxSchema.describe(
      "Runs the server in a sandbox with this reach. If it cannot be isolated, it does not start. Absent: it runs with your rights.",
    ),
    url: referenceText("a URL")
      .refine(isHttpUrl, "expected an http or https URL, as in https://example.com/mcp")
      .optional()
      .describe(`A remote server: its Streamable HTTP address. May hold ${REFERENCE_FORMS}.`),
    headers: z
      .record(z.string().regex(/^[A-Za-z0-9-]+$/, "expected the name of a header"), filledText())
      .default({})
      .describe(`Headers of every request to it. Values may hold ${REFERENCE_FORMS}.`),
    oauth: oauth.optional().describe("How to log in, where the defaults do not work."),
    description: text("text").optional().describe("What it is for. Search uses it while its tools are not known yet."),
    enabled: flag(true, "`false`: the server is ignored."),
    version: text("a version").optional().describe("Its version. After a change its tools are listed again."),
    source: text("text").optional().describe("Where it came from. Written by `qm servers add`."),
    protocol: z.enum(["auto", "legacy", "modern"]).default("auto").describe("Its era of MCP. `auto`: detected once."),
    startTimeoutMs: integer(100, DAY_MS).default(60_000).describe("How long it may take to start."),
    callTimeoutMs: integer(1, DAY_MS).optional().describe("How long a call may run. Absent: `limits.timeout_ms`."),
    idleTimeoutMs: integer(0, DAY_MS).default(600_000).describe("Stopped after this time without a call. 0: never."),
    trustAnnotations: flag(true, "Whether its annotations decide effects. `false`: all tools are `external`."),
    pin: flag(true, "Whether a tool whose definition has changed is withheld until a person accepts it."),
    tools: z
      .record(text("a tool's name, or a glob"), toolOverride)
      .default({})
      .describe("Overrides for tools, by name or glob. The last that matches wins."),
  })
  .refine(({ command, url }) => command !== undefined || url !== undefined, {
    error: "has neither `command`, for a local server, nor `url`, for a remote one",
    when: hasKnownKeys,
  })
  .refine(({ command, url }) => command === undefined || url === undefined, {
    error: "has both `command`, for a local server, and `url`, for a remote one",
  })
  .superRefine((server, context) => {
    const keys = server.url === undefined ? (["oauth"] as const) : (["cwd", "sandbox"] as const);
    const message = `has no effect ${server.url === undefined ? "without" : "with"} \`url\``;
    for (const key of keys) if (server[key] !== undefined) context.addIssue({ code: "custom", path: [key], message });
  });

export const serversSchema = z
  .record(serverName, serverSchema)
  .default({})
  .describe("MCP servers, by name. Their tools are actions: `mcp__<name>__<tool>`.");

const mcp = z.strictObject({
  registry: text("a URL").default("https://registry.modelcontextprotocol.io").describe("The registry of servers."),
  startingAtOnce: integer(1, 64).default(4).describe("How many servers may be starting at the same time."),
  install: flag(true, "Whether actions can find and install servers. Installing always needs approval."),
});

export const mcpSchema = mcp.prefault({}).describe("Options for all MCP servers.");
export type ServerConfig = Options<z.output<typeof serverSchema>>;

export function checkServerEntry(entry: unknown): readonly z.core.$ZodIssue[] {
  const parsed = parseFileValue(serverSchema, entry);
  return parsed.success ? [] : parsed.issues;
}

/** With an unknown key, that key is probably the misspelt `command` or `url`, and is reported instead. */
function hasKnownKeys({ issues }: z.core.ParsePayload): boolean {
  return !issues.some(({ code }) => code === "unrecognized_keys");
}

/** A URL with references is accepted: it is known only once they are filled in. */
function isHttpUrl(url: string): boolean {
  return listVariables(url).length > 0 || (/^https?:\/\//i.test(url) && URL.canParse(url));
}

function filledText() {
  return z.string().register(referenceTexts, { isChecked: false, mayBeSecret: true });
}
