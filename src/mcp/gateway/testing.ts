import { Client, InMemoryTransport, isInputRequiredResult, ProtocolError } from "@modelcontextprotocol/client";
import {
  CLIENT_CAPABILITIES_META_KEY,
  LOG_LEVEL_META_KEY,
  type McpServerFactory,
  type Result,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import type { Provider } from "../../catalog/provider.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { type ContentBlock, contentText, WithContent } from "../../core/content.ts";
import { facts, QmError } from "../../core/errors.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import { actionName } from "../../core/names.ts";
import type { Era, Upstream } from "./gateway.ts";

/** One real server behind the gateway, reached as plainly as can be: what stands in for the hub in tests. */
export interface TestUpstream {
  readonly provider: Provider;
  readonly upstream: Upstream;
  close(): Promise<void>;
}

type Listed = "tools" | "resources" | "resourceTemplates" | "prompts";
const LISTS = {
  tools: "tools/list",
  resources: "resources/list",
  resourceTemplates: "resources/templates/list",
  prompts: "prompts/list",
} as const;

export async function connectUpstream(server: string, factory: McpServerFactory, era: Era): Promise<TestUpstream> {
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  const served = serveStdio(factory, { transport: theirs });
  const listeners = new Set<(what: "tools" | "resources" | "prompts") => void>();
  const followers = new Set<(server: string, uri: string) => void>();
  const running = new Set<CallContext>();
  const lists: Record<Listed, readonly JsonObject[]> = { tools: [], resources: [], resourceTemplates: [], prompts: [] };
  let changed = () => {};

  const client = new Client(
    { name: "test-upstream", version: "1" },
    {
      capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} },
      versionNegotiation: { mode: era === "legacy" ? "legacy" : { pin: "2026-07-28" } },
      inputRequired: { autoFulfill: false },
      listChanged: {
        tools: { onChanged: () => void refresh("tools"), autoRefresh: false, debounceMs: 0 },
        prompts: { onChanged: () => void refresh("prompts"), autoRefresh: false, debounceMs: 0 },
      },
    },
  );
  const dialogue = () => [...running].at(-1)?.dialogue;
  for (const method of ["elicitation/create", "sampling/createMessage", "roots/list"] as const) {
    client.setRequestHandler(method, async ({ params }) => {
      const answers = await dialogue()?.ask({ it: { method, params: (params ?? {}) as JsonObject } });
      return answers?.it as never;
    });
  }
  client.setNotificationHandler("notifications/message", ({ params: { level, data } }) => dialogue()?.log({ level, data }));
  client.setNotificationHandler("notifications/resources/updated", ({ params: { uri } }) => {
    for (const follower of followers) follower(server, uri);
  });
  await client.connect(ours);
  if (era === "legacy") await client.setLoggingLevel("debug");

  async function refresh(what: Listed): Promise<void> {
    const listed = (await client.request({ method: LISTS[what] })) as unknown as Record<Listed, JsonObject[]>;
    lists[what] = listed[what];
    changed();
    for (const listener of listeners) listener(what === "resourceTemplates" ? "resources" : what);
  }

  async function forward(method: string, params: JsonObject, context: CallContext): Promise<JsonObject> {
    running.add(context);
    try {
      return await rounds(method, params, context);
    } catch (thrown) {
      if (!(thrown instanceof ProtocolError)) throw thrown;
      throw new QmError("action_failed", thrown.message, {
        details: facts({ mcp_code: thrown.code, mcp_data: thrown.data as Json | undefined }),
      });
    } finally {
      running.delete(context);
    }
  }

  async function rounds(method: string, params: JsonObject, context: CallContext): Promise<JsonObject> {
    const { signal, dialogue: told } = context;
    const _meta =
      era === "legacy"
        ? {}
        : { [CLIENT_CAPABILITIES_META_KEY]: told?.capabilities ?? {}, [LOG_LEVEL_META_KEY]: "debug" };
    let more: JsonObject = {};
    for (;;) {
      const request = { method: method as "tools/call", params: { ...params, ...more, _meta } as never };
      const options = { signal, allowInputRequired: true, onprogress: told?.progress.bind(told) } as never;
      const result = (await client.request(request, options)) as Result;
      if (!isInputRequiredResult(result)) return result as JsonObject;
      const { inputRequests, requestState } = result as unknown as JsonObject;
      if (told === undefined) throw new QmError("action_failed", "nobody can be asked");
      const inputResponses = await told.ask((inputRequests ?? {}) as never);
      more = { inputResponses, ...(requestState === undefined ? {} : { requestState }) };
    }
  }

  function action(entry: string, inputSchema: JsonObject, run: Action["run"]): Action {
    return {
      name: actionName("mcp", `${server}__${entry}`),
      category: "mcp",
      entry: `${server}__${entry}`,
      description: `${entry} of ${server}.`,
      effect: "external",
      inputSchema,
      aliases: [],
      examples: [],
      tags: [],
      idempotent: false,
      requiresApproval: false,
      scope: "generalist",
      routing: "routed",
      peerExposed: false,
      run,
    };
  }

  async function callTool(name: string, args: JsonObject, context: CallContext): Promise<WithContent> {
    const { content, structuredContent, isError, _meta } = await forward(
      "tools/call",
      { name, arguments: args },
      context,
    );
    const blocks = (content ?? []) as unknown as readonly ContentBlock[];
    const own = Object.entries((_meta ?? {}) as JsonObject).filter(
      ([key]) => !key.startsWith("io.modelcontextprotocol/"),
    );
    const shown = { blocks, ...(own.length === 0 ? {} : { meta: Object.fromEntries(own) }) };
    const text = contentText(blocks, Number.MAX_SAFE_INTEGER);
    if (isError === true) throw new QmError("action_failed", text, { content: shown });
    return new WithContent(structuredContent ?? text, shown);
  }

  const any = { type: "object" } as const;
  const reaching = ["resources/read", "prompts/get", "completion/complete"];
  await Promise.all((Object.keys(LISTS) as Listed[]).map(refresh));

  return {
    provider: {
      category: "mcp",
      capability: "Use one test server.",
      list: () => [
        ...lists.tools.map(({ name, inputSchema }) =>
          action(String(name), inputSchema as JsonObject, (args, context) => callTool(String(name), args, context)),
        ),
        ...reaching.map((method) => action(method, any, (args, context) => forward(method, args, context))),
        ...["resources/subscribe", "resources/unsubscribe"].map((method) =>
          action(method, any, (args, context) => (era === "legacy" ? forward(method, args, context) : {})),
        ),
      ],
      watch(onChange) {
        changed = onChange;
        return () => {
          changed = () => {};
        };
      },
    },
    upstream: {
      tools: () =>
        lists.tools.map((definition) => ({
          server,
          action: actionName("mcp", `${server}__${definition.name}`),
          name: String(definition.name),
          definition,
        })),
      resources: () => lists.resources.map((resource) => ({ server, resource })),
      templates: () => lists.resourceTemplates.map((template) => ({ server, template })),
      prompts: () => lists.prompts.map((prompt) => ({ server, prompt })),
      onChange(listener) {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
      onResourceUpdated(listener) {
        followers.add(listener);
        return () => followers.delete(listener);
      },
    },
    async close() {
      await client.close();
      await served.close();
    },
  };
}
