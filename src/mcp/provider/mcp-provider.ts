import { z } from "zod";
import type { Provider } from "../../catalog/define-action.ts";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import { QmError, toErrorDetails } from "../../core/errors.ts";
import { WithContent } from "../../core/handler-result.ts";
import { SEPARATOR } from "../../core/names.ts";
import { toWaitingFacts } from "../../core/outcome.ts";
import type { Hub } from "../hub/hub.ts";
import type { ManifestService } from "../manifests/manifest-service.ts";
import type { ServerSpec } from "../server-spec.ts";
import { createDropServerAction, createInstallActions, createSearchRegistryAction } from "./install-actions.ts";
import { createConnectAction, createServerActions } from "./server-actions.ts";
import type { ServerInstaller } from "./server-installer.ts";
import { createToolAction, MCP_CATEGORY, type ServerAccess } from "./tool-actions.ts";

/** Calls a server's tool by its id: the same call as of the action itself, through the same door. */
function createCallToolAction(): Action {
  return defineAction(MCP_CATEGORY, {
    entry: "call_tool",
    description: "Call a tool of an MCP server by its id, `<server>__<tool>`.",
    // What it does is what the tool does, and that is decided when the tool is called.
    effect: "external",
    timeoutMs: 10 * 60_000,
    input: z.strictObject({
      tool: z.string().min(1).describe("As mcp__list_tools lists it: `<server>__<tool>`."),
      tool_args: z.record(z.string(), z.unknown()).default({}).describe("The tool's own arguments."),
    }),
    examples: [{ args: { tool: "github__create_issue", tool_args: { title: "It is broken" } } }],
    async run({ tool, tool_args }, { invoke }) {
      const prefix = `${MCP_CATEGORY}${SEPARATOR}`;
      const outcome = await invoke(tool.startsWith(prefix) ? tool : `${prefix}${tool}`, tool_args);
      if (outcome.status === "done")
        return outcome.content === undefined ? outcome.data : new WithContent(outcome.data, outcome.content);
      if (outcome.status === "waiting")
        return { status: outcome.status, action: outcome.action, ...toWaitingFacts(outcome.reason, outcome.approval) };
      const { code, error, hint, ...details } = outcome.error;
      throw new QmError(code, error, { ...(hint === undefined ? {} : { hint }), details, content: outcome.content });
    },
  });
}

/** What is told of a server to whoever may see it: its connection, and whether its tools are known. */
interface ServerSummary {
  readonly description: string | undefined;
  readonly state: string;
  readonly known: boolean;
}

/** The actions of every configured server, made when something about it has changed. */
export interface ServerCatalog {
  names(): readonly string[];
  actions(server: string): readonly Action[];
  summarize(server: string): ServerSummary;
}

function createServerCatalog(
  reach: ServerAccess & { readonly book: Pick<ManifestService, "tools" | "tool" | "refresh" | "offer"> },
  specs: () => readonly ServerSpec[],
): ServerCatalog {
  const made = new Map<string, { readonly from: readonly unknown[]; readonly actions: readonly Action[] }>();

  function getActions(spec: ServerSpec): readonly Action[] {
    const offer = reach.book.offer(spec.name);
    const tools = reach.book.tools(spec.name);
    const from = [spec, offer, ...tools];
    const kept = made.get(spec.name);
    if (kept !== undefined && kept.from.length === from.length && from.every((part, at) => part === kept.from[at]))
      return kept.actions;
    const actions =
      offer === undefined
        ? [createConnectAction(reach, spec)]
        : [
            ...tools.flatMap((tool) => createToolAction(reach, spec, tool) ?? []),
            ...createServerActions(reach, spec, offer),
          ];
    made.set(spec.name, { from, actions });
    return actions;
  }

  const find = (server: string) => specs().find(({ name }) => name === server);
  return {
    names: () => specs().map(({ name }) => name),
    actions(server) {
      const spec = find(server);
      return spec === undefined ? [] : getActions(spec);
    },
    summarize(server) {
      const { state } = reach.hub.status(server);
      const known = reach.book.offer(server) !== undefined;
      const resting = known ? "known" : "configured";
      return { description: find(server)?.description, state: state === "idle" ? resting : state, known };
    },
  };
}

/** The servers of which the caller may see anything at all: one that is hidden from it is not there. */
function createListServersAction(servers: ServerCatalog): Action {
  return defineAction(MCP_CATEGORY, {
    entry: "list_servers",
    description: "List the MCP servers that are installed, and whether their tools can be used.",
    effect: "read",
    idempotent: true,
    input: z.strictObject({}),
    run: (_args, { sees }) => ({
      servers: servers.names().flatMap((name) => {
        const seen = servers.actions(name).filter((action) => sees(action.name));
        if (seen.length === 0) return [];
        const { description, state, known } = servers.summarize(name);
        return [toErrorDetails({ name, state, description, tools: known ? seen.length : undefined })];
      }),
    }),
  });
}

function createListToolsAction(servers: ServerCatalog): Action {
  return defineAction(MCP_CATEGORY, {
    entry: "list_tools",
    description: "List the tools of one MCP server as `<server>__<tool>`, with their schemas.",
    effect: "read",
    idempotent: true,
    input: z.strictObject({ server: z.string().min(1) }),
    examples: [{ args: { server: "github" } }],
    run({ server }, { sees }) {
      const seen = servers.actions(server).filter((action) => sees(action.name));
      if (seen.length === 0) {
        throw new QmError("not_found", `there is no MCP server ${JSON.stringify(server)}`, {
          hint: "mcp__list_servers lists the servers there are.",
        });
      }
      return {
        server,
        tools: seen.map(({ entry, description, inputSchema, effect, tags, readiness }) => ({
          tool: entry,
          action: `${MCP_CATEGORY}${SEPARATOR}${entry}`,
          description,
          input_schema: inputSchema,
          effect,
          tags,
          state: readiness?.() ?? "ready",
        })),
      };
    },
  });
}

interface McpProviderOptions extends ServerAccess {
  readonly hub: Hub;
  readonly book: ManifestService;
  readonly desk: ServerInstaller;
  /** Whether servers can be found, installed and removed through actions. */
  readonly install: boolean;
}

const isServerAction = ({ category }: Action): boolean => category === MCP_CATEGORY;

/** The category `mcp`: the tools of every server, and the verbs that manage servers. */
export function createMcpProvider(options: McpProviderOptions): Provider {
  const { desk, install } = options;
  const servers = createServerCatalog(options, desk.specs);
  const using = [createListServersAction(servers), createListToolsAction(servers), createCallToolAction()].map(
    (verb) =>
      // Where servers can be installed, the verbs are there without any. Elsewhere a hidden server must not bring them.
      install ? verb : Object.freeze({ ...verb, serves: isServerAction }),
  );
  const managing = [
    createSearchRegistryAction(desk),
    ...createInstallActions(desk),
    createDropServerAction(desk, servers),
  ];
  return {
    category: MCP_CATEGORY,
    capability: install
      ? "Use the tools of MCP servers, and find, install or remove servers."
      : "Use the tools of MCP servers.",
    list() {
      const names = servers.names();
      const verbs = install ? [...using, ...managing] : names.length > 0 ? using : [];
      return [...verbs, ...names.flatMap(servers.actions)];
    },
  };
}
