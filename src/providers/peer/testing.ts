import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { type AgentCard, formatSSEEvent, type Message, type Part, SSE_HEADERS, type TaskState } from "@a2a-js/sdk";
import {
  AgentEvent,
  type AgentExecutor,
  DefaultRequestHandler,
  type ExecutionEventBus,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  type RequestContext,
  ServerCallContext,
  validateVersion,
} from "@a2a-js/sdk/server";
import { startServer } from "../../../test/support/local-server.ts";
import { peerStates } from "./peer-answer.ts";

export const createTestCard = (origin: string, card: object = {}): object => ({
  name: "Tester",
  description: "Answers tests.",
  version: "1.0.0",
  supportedInterfaces: [{ url: `${origin}/rpc`, protocolBinding: "JSONRPC", protocolVersion: "1.0" }],
  capabilities: { streaming: true },
  defaultInputModes: ["text/plain"],
  defaultOutputModes: ["text/plain"],
  skills: [{ id: "echo", name: "Echo", description: "Repeats a text.", tags: ["test"] }],
  ...card,
});

export const answerJson = (response: ServerResponse, value: unknown, headers: Record<string, string> = {}): void =>
  void response.writeHead(200, { "content-type": "application/json", ...headers }).end(JSON.stringify(value));

export async function readJsonBody(request: IncomingMessage): Promise<Record<string, never>> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString());
}

type Say = (state: (typeof peerStates)[number], text?: string) => void;
/** What an agent does with a message. Its first status is `working`; it returns the parts of its result, or nothing. */
export type TestAgent = (
  message: Message,
  say: Say,
  task: { readonly id: string; readonly isCancelled: () => boolean },
) => Promise<readonly Part[] | undefined>;

export const toTextPart = (value: string): Part => ({
  content: { $case: "text", value },
  metadata: undefined,
  filename: "",
  mediaType: "text/plain",
});

/** An agent of the A2A SDK behind a plain HTTP server. `seen`: the messages it got. */
export function createSdkAgent(
  agent: TestAgent,
  options: { readonly streaming?: boolean; readonly token?: string } = {},
) {
  const seen: Message[] = [];
  const cancelled = new Set<string>();
  const executor: AgentExecutor = {
    async execute(request: RequestContext, bus: ExecutionEventBus) {
      const { taskId, contextId, userMessage } = request;
      seen.push(userMessage);
      const ids = { taskId, contextId };
      const toStatus = (state: (typeof peerStates)[number], text?: string) => ({
        state: peerStates.indexOf(state) as TaskState,
        timestamp: new Date().toISOString(),
        message: text === undefined ? undefined : createAgentMessage(ids, text),
      });
      const history = request.task?.history ?? [userMessage];
      const task = { id: taskId, contextId, artifacts: [], history, metadata: undefined };
      bus.publish(AgentEvent.task({ ...task, status: toStatus("working") }));
      const say: Say = (state, text) =>
        bus.publish(AgentEvent.statusUpdate({ ...ids, status: toStatus(state, text), metadata: undefined }));
      const parts = await agent(userMessage, say, { id: taskId, isCancelled: () => cancelled.has(taskId) });
      if (cancelled.has(taskId)) say("canceled");
      else if (parts !== undefined) {
        const about = { artifactId: "a1", name: "", description: "", extensions: [], metadata: undefined };
        const artifact = { ...about, parts: [...parts] };
        bus.publish(
          AgentEvent.artifactUpdate({ ...ids, artifact, append: false, lastChunk: true, metadata: undefined }),
        );
        say("completed");
      }
      bus.finished();
    },
    async cancelTask(taskId) {
      cancelled.add(taskId);
    },
  };
  const listener = (origin: string): RequestListener => {
    const card = createTestCard(origin, { capabilities: { streaming: options.streaming ?? true } }) as AgentCard;
    const handler = new DefaultRequestHandler(card, new InMemoryTaskStore(), executor);
    const rpc = new JsonRpcTransportHandler(handler);
    return async (request, response) => {
      if (options.token !== undefined && request.headers.authorization !== `Bearer ${options.token}`)
        return void response.writeHead(401).end();
      if (request.method === "GET") return answerJson(response, card);
      const version = request.headers["a2a-version"];
      validateVersion(String(version), card, "JSONRPC");
      const answer = await rpc.handle(await readJsonBody(request), new ServerCallContext());
      if (!(Symbol.asyncIterator in answer)) return answerJson(response, answer);
      response.writeHead(200, SSE_HEADERS);
      for await (const event of answer) response.write(formatSSEEvent(event));
      response.end();
    };
  };
  return { seen, cancelled, listener };
}

export async function startSdkAgent(...given: Parameters<typeof createSdkAgent>) {
  const { listener, ...agent } = createSdkAgent(...given);
  let handle: RequestListener = () => {};
  const url = `http://${await startServer((request, response) => handle(request, response))}`;
  handle = listener(url);
  return { url, ...agent };
}

function createAgentMessage(ids: { readonly taskId: string; readonly contextId: string }, text: string): Message {
  return {
    ...ids,
    messageId: crypto.randomUUID(),
    role: 2,
    parts: [toTextPart(text)],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  };
}
