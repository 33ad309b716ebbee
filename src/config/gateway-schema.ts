import { z } from "zod";
import { surfaceKinds } from "../core/surface-choice.ts";
import { time } from "./approvals-schema.ts";
import { REFERENCE, secret, text, whole } from "./values.ts";

const profile = z.strictObject({
  token: secret().optional().describe(`What a client says to get this profile over HTTP, as ${REFERENCE}.`),
  actor: text("an actor").default("default").describe("Whom its clients act as."),
  surface: z
    .enum(surfaceKinds)
    .optional()
    .describe("The tools its clients are shown. Absent: as `surface` or the actor says."),
  pass_through: z
    .array(text("a server's name, or a glob"))
    .default([])
    .describe("Servers that its clients see as if they were connected to them: every tool by its own name."),
  resources: z.boolean().default(true).describe("Whether the resources of servers are offered, too."),
  prompts: z.boolean().default(true).describe("Whether the prompts of servers are offered, too."),
});

/** How MCP clients reach us. */
export const gatewaySchema = z
  .strictObject({
    host: text("an address").default("127.0.0.1").describe("What `qm serve` listens on."),
    port: whole(0, 65_535).default(7420).describe("0: any free one."),
    allowed_hosts: z
      .array(text("a host name"))
      .default([])
      .describe("Names that clients may call us by, beside those of this machine itself."),
    allowed_origins: z
      .array(text("an origin"))
      .default([])
      .describe("Web pages that may call, as `https://example.com`. None else may."),
    session_idle: time()
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
