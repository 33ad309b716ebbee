import type { Action, CallContext, Readiness } from "../../core/action.ts";
import { facts, QmError } from "../../core/errors.ts";
import type { JsonObject } from "../../core/json.ts";
import { actionName } from "../../core/names.ts";
import type { ConnectionState, Hub } from "../hub/hub.ts";
import type { ServerBook } from "../manifest/book.ts";
import { effectOf } from "../manifest/effect.ts";
import type { KnownTool } from "../manifest/known-tools.ts";
import type { ServerSpec } from "../server-spec.ts";
import { toolEntry } from "./entry-names.ts";
import { toolResult } from "./results.ts";
import { serverForms } from "./server-forms.ts";

export const MCP = "mcp";

/** What the actions of servers reach their servers by. */
export interface Reach {
  readonly hub: Pick<Hub, "connect" | "request" | "status">;
  readonly book: Pick<ServerBook, "tool" | "refresh">;
}

/** A server's tool as an action. Undefined where the configuration takes it away. */
export function toolAction(reach: Reach, spec: ServerSpec, known: KnownTool): Action | undefined {
  const { definition } = known;
  const { effect, tags, idempotent, approval, loading, enabled, arguments: forms } = effectOf(definition, spec);
  if (!enabled) return undefined;
  const { name: tool, title, description, inputSchema, outputSchema } = definition;
  const entry = toolEntry(spec.name, tool);
  const marks = known.marks.length > 0 ? ["suspect"] : [];
  return Object.freeze({
    name: actionName(MCP, entry),
    category: MCP,
    entry,
    description: description || title || `${tool} of ${spec.name}. Its server says nothing about it.`,
    inputSchema,
    ...(outputSchema === undefined ? {} : { outputSchema }),
    effect,
    tags: [...new Set([...tags, ...marks])],
    aliases: [entry, `${spec.name}.${tool}`, `${spec.name}/${tool}`],
    examples: [],
    scope: "generalist",
    routing: "routed",
    ...(approval === undefined ? {} : { requiresApproval: approval }),
    peerExposed: false,
    ...(loading === undefined ? {} : { loading }),
    ...(forms === undefined ? {} : { normalize: serverForms(forms, spec.launch) }),
    readiness: () =>
      reach.book.tool(spec.name, tool)?.state === "withheld" ? "quarantined" : readinessOf(reach, spec.name),
    idempotent,
    ...(spec.callTimeoutMs === undefined ? {} : { timeoutMs: spec.callTimeoutMs }),
    run: (args, context) => callTool(reach, spec, tool, args, context),
  } satisfies Action);
}

async function callTool(
  reach: Reach,
  spec: ServerSpec,
  tool: string,
  args: JsonObject,
  context: CallContext,
): Promise<unknown> {
  // Once so that nothing is started for what is withheld, and once more when the server has said what it offers now.
  const usable = () => requireUsable(reach, spec.name, tool);
  await usable();
  const request = { method: "tools/call", params: { name: tool, arguments: args } };
  return toolResult(tool, await requested(reach, spec, request, context, usable));
}

/** Sends a request for a call of an action. */
export async function requested(
  reach: Reach,
  spec: ServerSpec,
  request: { readonly method: string; readonly params: JsonObject },
  { signal, dialogue, trace, untimed }: CallContext,
  before?: () => Promise<void>,
): Promise<JsonObject> {
  // How long a server takes to start is no part of a call's time: the start has a limit of its own.
  await untimed(() => reach.hub.connect(spec.name, signal));
  return reach.hub.request(spec.name, request, { signal, dialogue, before, trace });
}

const readinesses: Readonly<Record<ConnectionState, Readiness>> = {
  idle: "not_started",
  starting: "not_started",
  ready: "ready",
  needs_login: "needs_login",
  failed: "unavailable",
};

export function readinessOf({ hub }: Reach, server: string): Readiness {
  try {
    return readinesses[hub.status(server).state];
  } catch {
    // It was taken away since the action was listed.
    return "unavailable";
  }
}

async function requireUsable({ book }: Reach, server: string, tool: string): Promise<void> {
  if (book.tool(server, tool)?.state === "usable") return;
  // A person may have accepted it meanwhile, in another process.
  await book.refresh();
  const state = book.tool(server, tool)?.state;
  if (state === "usable") return;
  if (state === "withheld") {
    throw new QmError(
      "quarantined",
      `${server} has changed what ${tool} is; it is withheld until a person accepts it`,
      {
        hint: `It was not run. A person can look at the change with \`qm servers review ${server}\`.`,
        details: facts({ server, tool }),
      },
    );
  }
  throw new QmError("not_found", `${server} does not offer ${tool} any more`, {
    hint: "Look for another action.",
  });
}
