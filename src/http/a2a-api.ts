import { hash } from "node:crypto";
import { AgentCard, formatSSEErrorEvent, formatSSEEvent, SSE_HEADERS } from "@a2a-js/sdk";
import { RequestMalformedError, VersionNotSupportedError } from "@a2a-js/sdk/errors";
import { JsonRpcTransportHandler, ServerCallContext } from "@a2a-js/sdk/server";
import { type Context, Hono } from "hono";
import type { PeerTasks } from "../a2a/task-service.ts";
import type { Peers } from "../app/peer-system.ts";
import type { Quartermaster } from "../app/quartermaster.ts";
import { readPackageInfo, systemRuntime } from "../app/system-runtime.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { isLargerThan, isRecord } from "../core/json.ts";
import { authorizeBearer, createTokenAuthorizer } from "../core/token-authorizer.ts";
import type { Workspace } from "../workspace/workspace.ts";
import type { A2aClient } from "./a2a-client.ts";
import { type A2aRequest, createA2aHandler, createPeerCaller, toContextState } from "./a2a-handler.ts";
import { type CardFacts, toAgentCard } from "./a2a-messages.ts";
import { requireOwnToken } from "./approvers.ts";
import { readTextBody } from "./http-messages.ts";

interface A2aApiOptions {
  readonly listExposed: Peers["listExposed"];
  readonly tasks: PeerTasks;
  readonly card: CardFacts;
  /** All clients. The public card shows what every one of them may call. */
  readonly clients: readonly A2aClient[];
  /** Finds the client of a token, as `createTokenAuthorizer` does. Undefined: the token is not known. */
  readonly authorize: (token: string) => A2aClient | undefined;
  /** The address of this server as others reach it. Absent: as the request names it. */
  readonly publicUrl?: URL | undefined;
  readonly newId: () => string;
  /** Receives errors as text, without tokens and arguments. */
  readonly onProblem: (problem: string) => void;
  /** Ends open streams and waiting requests when it is aborted. */
  readonly signal: AbortSignal;
}

const CARD_PATH = "/.well-known/agent-card.json";
const RPC_PATH = "/a2a";
const VERSION = "1.0";
const BODY_BYTES = 1024 * 1024;
const BODY_SHAPE = { nodes: 50_000, depth: 64 };
const REQUESTS_EACH = 64;
const HEARTBEAT_MS = 20_000;
const NO_STORE = { "cache-control": "no-store" };

/** The routes of A2A: the public card, and the methods for clients with a token. The listener checks host and origin. */
function createA2aApi(options: A2aApiOptions): Hono {
  const { listExposed, clients, authorize, onProblem } = options;
  const transport = new JsonRpcTransportHandler(createA2aHandler(options));
  const open = new Map<string, number>();
  const app = new Hono();

  function getUrl(c: Context): string {
    return new URL(RPC_PATH, options.publicUrl ?? `http://${c.req.header("host")}`).href;
  }

  function createPublicCard(url: string): string {
    const views = clients.map((client) => listExposed(createPeerCaller(client, "card")));
    const [first = [], ...others] = views;
    const shared = first.filter(({ name }) => others.every((view) => view.some((each) => each.name === name)));
    return JSON.stringify(AgentCard.toJSON(toAgentCard(options.card, url, shared)));
  }

  app.get(CARD_PATH, (c) => {
    const text = createPublicCard(getUrl(c));
    const etag = `"${hash("sha256", text, "hex").slice(0, 32)}"`;
    const headers = { etag, "cache-control": "public, max-age=60", "x-content-type-options": "nosniff" };
    if (c.req.header("if-none-match") === etag) return c.body(null, 304, headers);
    return c.body(text, 200, { ...headers, "content-type": "application/json" });
  });

  app.post(RPC_PATH, async (c) => {
    const { owner: client, challenge } = authorizeBearer(c.req.header("authorization"), authorize);
    if (client === undefined)
      return respondRpcError(401, -32000, "Unauthorized: the bearer token of a client is needed", {
        "www-authenticate": challenge,
      });
    const count = open.get(client.name) ?? 0;
    if (count >= REQUESTS_EACH) return respondRpcError(429, -32000, "Too Many Requests: wait for some of yours");
    open.set(client.name, count + 1);
    const leave = (): void => void open.set(client.name, (open.get(client.name) ?? 1) - 1);
    try {
      const signal = AbortSignal.any([c.req.raw.signal, options.signal]);
      const answered = await answer(c, { client, url: getUrl(c), signal });
      if (!(answered instanceof Response)) return respondStream(answered, leave, signal);
      leave();
      return answered;
    } catch (thrown) {
      leave();
      throw thrown;
    }
  });

  async function answer(c: Context, request: A2aRequest): Promise<Response | EventSource> {
    const body = await readBody(c.req.raw);
    if (body instanceof Response) return body;
    const id = isRecord(body) ? (body.id ?? null) : null;
    const version = c.req.header("a2a-version") || "0.3";
    if (version !== VERSION) {
      const message = `A2A ${version.slice(0, 20)} is not supported; send A2A-Version: ${VERSION}`;
      return respondJson({ jsonrpc: "2.0", id, error: toRpcError(new VersionNotSupportedError(message)) });
    }
    if (!isWellFormed(body))
      return respondJson({
        jsonrpc: "2.0",
        id,
        error: toRpcError(new RequestMalformedError("the request is malformed")),
      });
    const user = { isAuthenticated: true, userName: request.client.name };
    const context = new ServerCallContext({ user, requestedVersion: VERSION, state: toContextState(request) });
    const answered = await transport.handle(body, context);
    if (!(Symbol.asyncIterator in answered)) return respondJson(answered);
    // An error before the first event is an ordinary answer.
    const events = answered[Symbol.asyncIterator]();
    try {
      const first = await events.next();
      return { id, first: first.done === true ? undefined : first.value, rest: events };
    } catch (thrown) {
      return respondJson({ jsonrpc: "2.0", id, error: toRpcError(thrown) });
    }
  }

  return app.onError((thrown) => {
    onProblem(`a request of a peer could not be answered: ${getErrorMessage(thrown)}`);
    return respondRpcError(500, -32603, "this could not be answered");
  });
}

const toRpcError = (thrown: unknown) => JsonRpcTransportHandler.mapToJSONRPCError(thrown);
const respondJson = (value: unknown): Response => Response.json(value, { headers: NO_STORE });

function respondRpcError(
  status: number,
  code: number,
  message: string,
  headers: Record<string, string> = {},
): Response {
  const body = { jsonrpc: "2.0", id: null, error: { code, message } };
  return Response.json(body, { status, headers: { ...NO_STORE, ...headers } });
}

async function readBody(request: Request): Promise<unknown> {
  try {
    return JSON.parse(await readTextBody(request, "application/json", BODY_BYTES));
  } catch (thrown) {
    if (thrown instanceof QmError)
      return respondRpcError(thrown.code === "too_large" ? 413 : 415, -32600, thrown.message);
    return respondRpcError(400, -32700, "the body is not JSON");
  }
}

/** The transport of the SDK reads fields without checking them. */
function isWellFormed(body: unknown): body is Record<string, unknown> {
  if (!isRecord(body) || isLargerThan(body, BODY_SHAPE)) return false;
  const { message } = isRecord(body.params) ? body.params : {};
  if (message === undefined) return true;
  if (!isRecord(message)) return false;
  return message.parts === undefined || (Array.isArray(message.parts) && message.parts.every(isRecord));
}

interface EventSource {
  readonly id: unknown;
  readonly first: unknown;
  readonly rest: AsyncIterator<unknown>;
}

function respondStream({ id, first, rest }: EventSource, leave: () => void, signal: AbortSignal): Response {
  const encoder = new TextEncoder();
  let heartbeat: NodeJS.Timeout | undefined;
  let isOpen = true;
  const end = (): void => {
    if (!isOpen) return;
    isOpen = false;
    clearInterval(heartbeat);
    leave();
  };
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      if (first !== undefined) controller.enqueue(encoder.encode(formatSSEEvent(first)));
      heartbeat = setInterval(() => controller.enqueue(encoder.encode(":\n\n")), HEARTBEAT_MS);
    },
    async pull(controller) {
      try {
        const { done, value } = await rest.next();
        if (done !== true) return controller.enqueue(encoder.encode(formatSSEEvent(value)));
      } catch (thrown) {
        if (!signal.aborted)
          controller.enqueue(encoder.encode(formatSSEErrorEvent({ jsonrpc: "2.0", id, error: toRpcError(thrown) })));
      }
      end();
      controller.close();
    },
    async cancel() {
      end();
      await rest.return?.();
    },
  });
  return new Response(body, { headers: { ...SSE_HEADERS, ...NO_STORE } });
}

export interface A2aEndpointOptions {
  /** The name and the description on the agent card. */
  readonly name: string;
  readonly description: string;
  readonly version: string;
  /** The agents that may call, each with its own token of at least 16 characters. */
  readonly clients: readonly (A2aClient & { readonly token: string })[];
  /** The address of the server as others reach it. Absent: as the request names it. */
  readonly publicUrl?: URL | undefined;
  /** Receives errors as text, without tokens and arguments. */
  readonly onProblem?: (problem: string) => void;
}

/**
 * A quartermaster as an agent: `routes` has its card and its methods. Host and origin are checked by the server in front.
 * `close` ends open requests; the tasks stay in the store.
 */
export async function createA2aEndpoint(
  { peers }: Pick<Quartermaster, "peers">,
  options: A2aEndpointOptions,
): Promise<{ readonly routes: Hono; close(): Promise<void> }> {
  const { name, description, version, clients, publicUrl, onProblem = () => {} } = options;
  const owners = new Map<string, A2aClient>();
  for (const { token, name: client, actor } of clients) {
    requireOwnToken(token, `the client ${client}`, owners.get(token) && `the client ${owners.get(token)?.name}`);
    owners.set(token, { name: client, actor });
  }
  const closing = new AbortController();
  const tasks = await peers.openTasks();
  tasks.start();
  const routes = createA2aApi({
    listExposed: peers.listExposed,
    tasks,
    card: { name, description, version },
    clients,
    authorize: createTokenAuthorizer(owners),
    publicUrl,
    newId: systemRuntime.newId,
    onProblem,
    signal: closing.signal,
  });
  return {
    routes,
    async close() {
      closing.abort();
      await tasks.close();
    },
  };
}

/** The endpoint of a workspace. A client whose token cannot be filled is reported and left out. */
export function openA2aEndpoint(
  { quartermaster, config, fill }: Workspace,
  options: Required<Pick<A2aEndpointOptions, "onProblem" | "publicUrl">>,
) {
  const { name, description, clients } = config.a2a;
  const usable = Object.entries(clients).flatMap(([client, { token, actor }]) => {
    try {
      return [{ name: client, actor, token: fill(token, `a2a.clients.${client}.token`) }];
    } catch (thrown) {
      options.onProblem(`the agent ${client} cannot call: ${getErrorMessage(thrown)}`);
      return [];
    }
  });
  return createA2aEndpoint(quartermaster, {
    ...options,
    name,
    description,
    version: readPackageInfo().version,
    clients: usable,
  });
}
