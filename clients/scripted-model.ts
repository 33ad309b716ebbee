import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { isRecord, type JsonObject } from "../src/core/json.ts";
import { type Dialect, dialects, type ModelReply } from "./model-dialects.ts";

export interface ScriptedCall {
  /** The end of the tool's name. Clients put the name of the server before it. */
  readonly tool: string;
  readonly args: JsonObject;
}

export interface ScriptedModel {
  readonly url: string;
  /** The results of the tools, in the order of the calls, as the client sent them to the model. */
  readonly results: readonly string[];
  /** Problems and requests that the model did not expect. */
  readonly notes: readonly string[];
  close(): Promise<void>;
}

/**
 * A model on loopback that makes the given calls one after the other for any question, and then answers. It speaks the
 * APIs of OpenAI, Anthropic and Google.
 */
export async function startScriptedModel(calls: readonly ScriptedCall[], answer: string): Promise<ScriptedModel> {
  const notes: string[] = [];
  let results: readonly string[] = [];
  const server = createServer((request, response) => {
    void text(request)
      .then((body) => respond(request.url ?? "", body, response))
      .catch((thrown) => {
        notes.push(String(thrown));
        response.destroy();
      });
  });

  function respond(url: string, body: string, response: ServerResponse): void {
    const dialect = dialects.find(({ path }) => path.test(url));
    if (dialect === undefined) {
      notes.push(`${url} is not scripted`);
      response.writeHead(404, { "content-type": "application/json" }).end("{}");
      return;
    }
    const parsed: unknown = JSON.parse(body);
    const reply = chooseReply(dialect, isRecord(parsed) ? parsed : {});
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const event of dialect.stream(reply)) {
      const name = typeof event.type === "string" ? `event: ${event.type}\n` : "";
      response.write(`${name}data: ${JSON.stringify(event)}\n\n`);
    }
    response.end(dialect.end);
  }

  function chooseReply(dialect: Dialect, request: Readonly<Record<string, unknown>>): ModelReply {
    const { tools, results: received } = dialect.read(request);
    // Clients also ask the model for titles and summaries, without tools.
    const next = calls[received.length];
    const called = tools.find(({ name }) => next !== undefined && name.endsWith(next.tool));
    if (received.length > results.length) results = received;
    if (next === undefined || tools.length === 0) return { text: answer };
    if (called === undefined) {
      notes.push(`no tool ${next.tool} among ${tools.map(({ name }) => name).join(", ")}`);
      return { text: answer };
    }
    return { call: { ...called, id: `call_${received.length + 1}`, args: next.args } };
  }

  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    get results() {
      return results;
    },
    notes,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
