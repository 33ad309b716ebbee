import { PassThrough, type Readable, type Writable } from "node:stream";
import {
  isJSONRPCNotification,
  isJSONRPCRequest,
  type JSONRPCMessage,
  parseJSONRPCMessage,
  type Transport,
} from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio as serveTransport } from "@modelcontextprotocol/server/stdio";
import { LazyAbortController } from "../../core/abortable.ts";
import { corkUntilNextTurn, onAbort } from "../../core/async.ts";
import { getErrorMessage } from "../../core/errors.ts";
import { isLargerThan } from "../../core/json.ts";
import { createLineReader } from "../../core/line-reader.ts";
import type { GatewayEra, GatewayLimits, StdioOptions } from "./gateway.ts";
import { MESSAGE_SHAPE } from "./http-endpoint.ts";
import { isValidEnvelope, MODERN_VERSION, type PlainCall, readPlainCall, toLegacyMessage } from "./plain-call.ts";
import { type ClientConnection, type ProfileEndpoint, readListenedUris } from "./profile-endpoint.ts";

type OpenConnection = { readonly era: GatewayEra; readonly connection: ClientConnection };

/** Serves the client at the other end of the pipes, in the era that it opens with. */
export async function serveStdio(
  endpoint: ProfileEndpoint,
  session: string,
  limits: GatewayLimits,
  onProblem: (problem: string) => void,
  { stdin, stdout, signal }: StdioOptions,
): Promise<void> {
  let current: OpenConnection | undefined;
  const subscriptions = createSubscriptionTracker(() => current?.connection);
  const output = new StdioServerTransport(new PassThrough(), stdout);
  const encode = (message: JSONRPCMessage) => (current?.era === "legacy" ? toLegacyMessage(message) : message);
  const calls = createPlainCalls(() => current, stdout, output);
  const receive = (message: JSONRPCMessage): void => {
    calls.cancel(message);
    subscriptions.onMessage(message);
  };
  const { transport, closed } = createGuardedTransport(stdin, limits.bodyBytes, output, calls.answer, receive, encode);
  const handle = serveTransport(
    ({ era }) => {
      // A client may probe in one era and then open in the other.
      current?.connection.close();
      const identity = { principal: `stdio:${session}`, account: "stdio" };
      const connection = endpoint.connect(era, "stdio", session, identity);
      current = { era, connection };
      return connection.server;
    },
    { transport, onerror: (error) => onProblem(getErrorMessage(error)) },
  );
  const stopListening = onAbort(signal, () => void handle.close().catch(() => {}));
  try {
    await closed;
  } finally {
    stopListening();
    await handle.close();
    calls.close();
    subscriptions.close();
    current?.connection.close();
  }
}

/** Answers a bad line with a JSON-RPC error and reads on. The SDK's transport ends at a line that is too long. */
function createGuardedTransport(
  stdin: Readable,
  lineBytes: number,
  output: StdioServerTransport,
  answer: (call: PlainCall) => boolean,
  onMessage: (message: JSONRPCMessage) => void,
  encode: (message: JSONRPCMessage) => JSONRPCMessage,
) {
  let resolveClosed = () => {};
  const closed = new Promise<void>((resolve) => {
    resolveClosed = resolve;
  });
  const refuse = (code: number, message: string, id: string | number | null = null) => {
    // JSON-RPC wants `null` for an unknown id. The SDK's type does not allow it.
    output.send({ jsonrpc: "2.0", id: id as never, error: { code, message } }).catch(() => {});
  };
  const lines = createLineReader({
    limit: lineBytes,
    onLine(line) {
      const value = parseLine(line.toString("utf8"));
      const isLarge = isLargerThan(value, MESSAGE_SHAPE);
      const call = isLarge ? undefined : readPlainCall(value);
      if (call !== undefined && answer(call)) return;
      const message = readMessage(value);
      if (typeof message === "number") return refuse(message, LINE_PROBLEMS[message]);
      if (!isLarge) {
        onMessage(message);
        transport.onmessage?.(message);
      } else if (isJSONRPCRequest(message))
        refuse(-32600, "Invalid Request: too deep, too many parts or too many fields", message.id);
    },
    // Answered at once, because the line may never end.
    onGivenUp: () => refuse(-32600, `Invalid Request: a line has at most ${lineBytes} bytes; this one was skipped`),
    onDropped() {},
  });
  const end = () => void output.close().catch(() => {});
  const report = (error: Error) => transport.onerror?.(error);
  const transport: Transport = {
    async start() {
      await output.start();
      if (stdin.readableEnded || stdin.destroyed) setImmediate(end);
      stdin.on("data", lines.push).on("error", report).on("end", end).on("close", end);
    },
    send: (message) => output.send(encode(message)),
    close: () => output.close(),
  };
  output.onerror = report;
  output.onclose = () => {
    stdin.off("data", lines.push).off("error", report).off("end", end).off("close", end);
    if (stdin.listenerCount("data") === 0) stdin.pause();
    transport.onclose?.();
    resolveClosed();
  };
  return { transport, closed };
}

const LINE_PROBLEMS = {
  [-32700]: "Parse error: the line is not JSON",
  [-32600]: "Invalid Request: the line is not one JSON-RPC message",
} as const;

/** Undefined: the line is not JSON. */
function parseLine(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** The message, or the code of its JSON-RPC error. */
function readMessage(value: unknown): JSONRPCMessage | keyof typeof LINE_PROBLEMS {
  if (value === undefined) return -32700;
  try {
    return parseJSONRPCMessage(value);
  } catch {
    return -32600;
  }
}

/** The plain calls of a client that have no response yet. */
function createPlainCalls(
  getCurrent: () => OpenConnection | undefined,
  stdout: Writable,
  output: StdioServerTransport,
) {
  const running = new Map<string | number, LazyAbortController>();

  async function run({ server }: ClientConnection, call: PlainCall): Promise<void> {
    const stop = new LazyAbortController();
    running.set(call.id, stop);
    const response = await server.answer(call, stop);
    if (stop.aborted) return;
    running.delete(call.id);
    corkUntilNextTurn(stdout);
    await output.send(response).catch(() => {});
  }

  const cancel = (id: string | number): void => {
    running.get(id)?.abort();
    running.delete(id);
  };

  return {
    /** Answers a call of the connection's era. False: the SDK must answer it, if with an error. */
    answer(call: PlainCall): boolean {
      const { era, connection } = getCurrent() ?? {};
      if (connection === undefined || running.has(call.id)) return false;
      const { envelope } = call;
      const version = connection.server.getNegotiatedProtocolVersion();
      const isOfEra =
        envelope === undefined ? era === "legacy" : version === MODERN_VERSION && isValidEnvelope(envelope);
      if (version === undefined || !isOfEra) return false;
      void run(connection, call);
      return true;
    },
    cancel(message: JSONRPCMessage): void {
      if (!isJSONRPCNotification(message) || message.method !== "notifications/cancelled") return;
      const id = message.params?.requestId;
      if (typeof id === "string" || typeof id === "number") cancel(id);
    },
    close(): void {
      for (const id of [...running.keys()]) cancel(id);
    },
  };
}

const STREAMS_LIMIT = 100;

/** Subscribes to the resources that a client of the modern era listens to, until it cancels the request. */
function createSubscriptionTracker(getConnection: () => ClientConnection | undefined) {
  const streams = new Map<string | number, () => void>();
  const end = (id: string | number) => {
    streams.get(id)?.();
    streams.delete(id);
  };
  const start = (id: string | number, uris: readonly string[]) => {
    const connection = getConnection();
    if (connection === undefined || streams.size >= STREAMS_LIMIT) return;
    end(id);
    streams.set(id, connection.listen(uris));
  };
  return {
    onMessage(message: JSONRPCMessage) {
      if (isJSONRPCRequest(message)) {
        const uris = readListenedUris(message);
        // This very message may open the connection, which is there after it was handled.
        if (uris.length > 0) setImmediate(() => start(message.id, uris));
      } else if (isJSONRPCNotification(message) && message.method === "notifications/cancelled") {
        const id = message.params?.requestId;
        if (typeof id === "string" || typeof id === "number") end(id);
      }
    },
    close() {
      for (const id of streams.keys()) end(id);
    },
  };
}
