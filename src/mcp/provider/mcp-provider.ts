import { z } from "zod";
import { defineAction, type PendingSource, type Provider } from "../../catalog/define-action.ts";
import type { Action } from "../../core/action.ts";
import { toErrorDetails } from "../../core/errors.ts";
import { WithContent } from "../../core/handler-result.ts";
import type { JsonObject } from "../../core/json.ts";
import { actionName, getEntry, SEPARATOR } from "../../core/names.ts";
import { type Outcome, toOutcomeError } from "../../core/outcome.ts";
import type { ManifestService } from "../manifests/manifest-service.ts";
import type { ServerSpec } from "../server-spec.ts";
import { createDropServerAction, createInstallActions, createSearchRegistryAction } from "./install-actions.ts";
import { createConnectAction, createPendingSource, createServerActions, LIST_TOOLS } from "./server-actions.ts";
import { type ServerInstaller, serverNotFoundError } from "./server-installer.ts";
import { createSkillAction } from "./skill-actions.ts";
import { createToolAction, MCP_CATEGORY, type ServerAccess, toMethodEntry } from "./tool-actions.ts";

interface CatalogOptions extends ServerAccess {
  readonly manifests: ManifestService;
  readonly installer: ServerInstaller;
}

/** The category `mcp`: the tools of all servers, and the actions that manage servers. */
export function createMcpProvider(options: CatalogOptions & { readonly install: boolean }): Provider {
  const { installer, install } = options;
  const servers = createServerCatalog(options);
  const using = [createListServersAction(servers), createListToolsAction(servers), createCallToolAction()].map(
    (action) =>
      // Without installation, these actions exist only for callers who can see a server.
      install ? action : Object.freeze({ ...action, serves: ({ category }: Action) => category === MCP_CATEGORY }),
  );
  const managing = [
    createSearchRegistryAction(installer),
    ...createInstallActions(installer),
    createDropServerAction(installer, servers),
  ];
  return {
    category: MCP_CATEGORY,
    capability: `Use the tools of MCP servers${install ? ", and find, install or remove servers" : ""}.`,
    pending: servers.pending,
    learn: async ({ name }, signal) => void (await options.hub.connect(name, signal)),
    list() {
      const names = servers.names();
      const actions = install ? [...using, ...managing] : names.length > 0 ? using : [];
      return [...actions, ...names.flatMap(servers.actions)];
    },
  };
}

export type ServerCatalog = ReturnType<typeof createServerCatalog>;

/** The actions of the configured servers, rebuilt when something about a server has changed. */
function createServerCatalog(access: CatalogOptions) {
  const { manifests, hub, installer } = access;
  const cache = new Map<string, { readonly from: readonly unknown[]; readonly actions: readonly Action[] }>();

  function getActions(spec: ServerSpec): readonly Action[] {
    const offer = manifests.offer(spec.name);
    const tools = manifests.tools(spec.name);
    const from = [spec, offer, ...tools];
    const cached = cache.get(spec.name);
    if (cached?.from.length === from.length && from.every((part, at) => part === cached.from[at]))
      return cached.actions;
    const toolActions = tools.flatMap((tool) => {
      const create = tool.definition.skill === undefined ? createToolAction : createSkillAction;
      return create(access, spec, tool) ?? [];
    });
    const actions = offer
      ? [...toolActions, ...createServerActions(access, spec, offer)]
      : [createConnectAction(access, spec)];
    cache.set(spec.name, { from, actions });
    return actions;
  }

  const find = (server: string) => installer.specs().find(({ name }) => name === server);
  return {
    names: () => installer.specs().map(({ name }) => name),
    actions(server: string): readonly Action[] {
      const spec = find(server);
      return spec === undefined ? [] : getActions(spec);
    },
    pending: (): readonly PendingSource[] =>
      installer.specs().flatMap((spec) => (manifests.offer(spec.name) ? [] : [createPendingSource(access, spec)])),
    /** The entry of `mcp__list_servers`, without the number of tools if they are unknown. */
    summarize(name: string, visibleTools: number): JsonObject {
      const { state } = hub.status(name);
      const isKnown = manifests.offer(name) !== undefined;
      return toErrorDetails({
        name,
        state: state !== "idle" ? state : isKnown ? "known" : "configured",
        description: find(name)?.description,
        tools: isKnown ? visibleTools : undefined,
      });
    },
  };
}

/** Lists only the servers of which the caller can see an action. */
function createListServersAction(servers: ServerCatalog): Action {
  return defineAction(MCP_CATEGORY, {
    entry: "list_servers",
    description: "List the MCP servers that are installed, and whether their tools can be used.",
    effect: "read",
    idempotent: true,
    input: z.lazy(() => z.strictObject({})),
    examples: [{ args: {} }],
    run: (_args, { sees }) => ({
      servers: servers.names().flatMap((name) => {
        const visible = servers.actions(name).filter((action) => sees(action.name));
        return visible.length === 0 ? [] : [servers.summarize(name, visible.length)];
      }),
    }),
  });
}

function createListToolsAction(servers: ServerCatalog): Action {
  return defineAction(MCP_CATEGORY, {
    entry: getEntry(LIST_TOOLS),
    description: "List the tools of one MCP server as `<server>__<tool>`, with their schemas.",
    effect: "read",
    idempotent: true,
    input: z.lazy(() => z.strictObject({ server: z.string().min(1) })),
    examples: [{ args: { server: "github" } }],
    async run({ server }, { sees, invoke, untimed }) {
      const listVisible = () => servers.actions(server).filter((action) => sees(action.name));
      let visible = listVisible();
      if (visible.length > 0 && servers.pending().some(({ name }) => name === server)) {
        // As a call of its own, so that the policy decides on the start.
        const connect = actionName(MCP_CATEGORY, toMethodEntry(server, "connect"));
        const connected = await untimed(() => invoke(connect, {}));
        if (connected.status !== "done") return readInnerOutcome(connected);
        visible = listVisible();
      }
      if (visible.length === 0) throw serverNotFoundError(server);
      return {
        server,
        tools: visible.map(({ entry, description, inputSchema, effect, tags, readiness }) => ({
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

const TOOL_PREFIX = `${MCP_CATEGORY}${SEPARATOR}`;

/** Calls a server's tool by its id. The call passes the same checks as a call of the tool's own action. */
function createCallToolAction(): Action {
  return defineAction(MCP_CATEGORY, {
    entry: "call_tool",
    description: "Call a tool of an MCP server by its id, `<server>__<tool>`.",
    // The inner call is decided by the tool's own effect.
    effect: "external",
    runsAction: { argument: "tool", prefix: TOOL_PREFIX },
    timeoutMs: 10 * 60_000,
    input: z.lazy(() =>
      z.strictObject({
        tool: z.string().min(1).describe("As mcp__list_tools lists it: `<server>__<tool>`."),
        tool_args: z.record(z.string(), z.unknown()).default({}).describe("The tool's own arguments."),
      }),
    ),
    examples: [{ args: { tool: "github__create_issue", tool_args: { title: "It is broken" } } }],
    async run({ tool, tool_args }, { invoke }) {
      return readInnerOutcome(await invoke(tool.startsWith(TOOL_PREFIX) ? tool : `${TOOL_PREFIX}${tool}`, tool_args));
    },
  });
}

/** The result of a call, from the outcome of a call inside it. If the inner call waits, the runner makes the outer one wait. */
function readInnerOutcome(outcome: Outcome): unknown {
  if (outcome.status === "done")
    return outcome.content === undefined ? outcome.data : new WithContent(outcome.data, outcome.content);
  if (outcome.status === "waiting") return undefined;
  throw toOutcomeError(outcome);
}
