/** An MCP server over stdio with everything that the conformance suite needs, in both eras. */
import { pathToFileURL } from "node:url";
import { ProtocolError, ProtocolErrorCode, Server } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { fixturePrompts } from "./fixture-prompts.ts";
import { fixtureResources, fixtureTemplates, readFixture } from "./fixture-resources.ts";
import { states } from "./fixture-states.ts";
import { type FixtureTool, fixtureTools, text } from "./fixture-tools.ts";

/** The server of one connection. A change in one does not affect another. */
export function fixtureServer(): Server {
  const more = { tools: false, prompts: false };
  const server = new Server(
    { name: "conformance-fixture", version: "1.0.0" },
    {
      capabilities: {
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { listChanged: true, subscribe: true },
        completions: {},
        logging: {},
      },
      requestState: { verify: states.verify },
    },
  );
  const tools = fixtureTools((what) => {
    more[what] = !more[what];
    const send = what === "tools" ? server.sendToolListChanged() : server.sendPromptListChanged();
    send.catch(() => {});
  });
  const allTools = () => (more.tools ? [...tools, EXTRA_TOOL] : tools);
  const allPrompts = () => (more.prompts ? [...fixturePrompts, EXTRA_PROMPT] : fixturePrompts);

  server.setRequestHandler("tools/list", () => ({ tools: allTools().map(({ run: _run, ...tool }) => tool) }) as never);
  server.setRequestHandler("tools/call", async ({ params }, ctx) => {
    const tool = allTools().find(({ name }) => name === params.name);
    if (tool === undefined) throw unknown("tool", params.name);
    return tool.run(params.arguments ?? {}, ctx);
  });
  server.setRequestHandler(
    "prompts/list",
    () => ({ prompts: allPrompts().map(({ get: _get, ...prompt }) => prompt) }) as never,
  );
  server.setRequestHandler("prompts/get", ({ params }, ctx) => {
    const prompt = allPrompts().find(({ name }) => name === params.name);
    if (prompt === undefined) throw unknown("prompt", params.name);
    return prompt.get(params.arguments ?? {}, ctx);
  });
  server.setRequestHandler("resources/list", () => ({ resources: [...fixtureResources] }));
  server.setRequestHandler("resources/templates/list", () => ({ resourceTemplates: [...fixtureTemplates] }));
  server.setRequestHandler("resources/read", ({ params }) => readFixture(params.uri));
  server.setRequestHandler("resources/subscribe", () => ({}));
  server.setRequestHandler("resources/unsubscribe", () => ({}));
  server.setRequestHandler("completion/complete", ({ params: { argument } }) => {
    const values = ["paris", "park", "party"].filter((value) => value.startsWith(argument.value));
    return { completion: { values, total: values.length, hasMore: false } };
  });
  return server;
}

const EXTRA_TOOL: FixtureTool = {
  name: "test_extra_tool",
  description: "Was not there before.",
  inputSchema: { type: "object" },
  run: () => text("New."),
};

const EXTRA_PROMPT: (typeof fixturePrompts)[number] = {
  name: "test_extra_prompt",
  description: "Was not there before.",
  get: () => ({ messages: [] }),
};

function unknown(what: string, name: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown ${what}: ${name}`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  serveStdio(fixtureServer, { onerror: (error) => process.stderr.write(`${error.message}\n`) });
}
