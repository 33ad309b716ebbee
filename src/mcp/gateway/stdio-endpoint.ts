import { PassThrough, type Readable } from "node:stream";
import {
  isJSONRPCNotification,
  isJSONRPCRequest,
  type JSONRPCMessage,
  parseJSONRPCMessage,
  type Transport,
} from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio as serveOver } from "@modelcontextprotocol/server/stdio";
import { getErrorMessage } from "../../core/errors.ts";
import { isLargerThan } from "../../core/json.ts";
import { createLineReader } from "../../core/line-reader.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { ResourceSubscriber } from "./change-notifications.ts";
import type { GatewayEra, GatewayLimits, StdioOptions } from "./gateway.ts";
import { MESSAGE_SHAPE } from "./http-endpoint.ts";
import { toLegacyMessage } from "./legacy-sessions.ts";
import { type ClientConnection, type ProfileEndpoint, readListenedUris } from "./profile-endpoint.ts";

export interface StdioServerOptions {
  readonly endpoint: ProfileEndpoint;
  readonly runtime: Runtime;
  readonly limits: GatewayLimits;
  readonly onProblem: (problem: string) => void;
}

/** Serves the one client at the other end of the pipes, in the era that it opens with. */
export async function serveStdio(parts: StdioServerOptions, { stdin, stdout, signal }: StdioOptions): Promise<void> {
  const { endpoint: face, runtime, limits, onProblem } = parts;
  const session = runtime.newId();
  let present: { readonly era: GatewayEra; readonly connection: ClientConnection } | undefined;
  const tracker = createSubscriptionTracker(() => present?.connection);
  const { transport, closed } = createGuardedTransport(stdin, new StdioServerTransport(new PassThrough(), stdout), {
    lineBytes: limits.bodyBytes,
    arrived: tracker.arrived,
    leaving: (message) => (present?.era === "legacy" ? toLegacyMessage(message) : message),
  });
  const handle = serveOver(
    ({ era }) => {
      // A client that looked first and then opened the other way leaves a connection behind.
      present?.connection.close();
      const connection = face.connect({
        era,
        session,
        principal: `stdio:${session}`,
        account: "stdio",
        transport: "stdio",
      });
      present = { era, connection };
      return connection.server;
    },
    { transport, onerror: (error) => onProblem(getErrorMessage(error)) },
  );
  const stop = () => void handle.close().catch(() => {});
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    await closed;
  } finally {
    signal.removeEventListener("abort", stop);
    await handle.close();
    tracker.close();
    present?.connection.close();
  }
}

interface StdioGuardOptions {
  readonly lineBytes: number;
  arrived(message: JSONRPCMessage): void;
  leaving(message: JSONRPCMessage): JSONRPCMessage;
}

/**
 * Reads messages from stdin and writes them through `wire`, which reads nothing itself: it ends the service at a line
 * that is too long. Each line that is no message is answered with a JSON-RPC error, and the next one is read.
 */
function createGuardedTransport(
  stdin: Readable,
  wire: StdioServerTransport,
  { lineBytes, arrived, leaving }: StdioGuardOptions,
) {
  let done = () => {};
  const closed = new Promise<void>((resolve) => {
    done = resolve;
  });
  const refuse = (code: number, message: string, id: string | number | null = null) => {
    // JSON-RPC wants `null` where the id is unknown; the library's type does not know of that.
    wire.send({ jsonrpc: "2.0", id: id as never, error: { code, message } }).catch(() => {});
  };
  const lines = createLineReader({
    limit: lineBytes,
    onLine(line) {
      const message = parseLine(line.toString("utf8"));
      if (typeof message === "number") return refuse(message, LINE_PROBLEMS[message]);
      if (isLargerThan(message, MESSAGE_SHAPE)) {
        if (isJSONRPCRequest(message))
          refuse(-32600, "Invalid Request: too deep, too many parts or too many fields", message.id);
        return;
      }
      arrived(message);
      transport.onmessage?.(message);
    },
    // At once, because the line may never end.
    onGivenUp: () => refuse(-32600, `Invalid Request: a line has at most ${lineBytes} bytes; this one was skipped`),
    onDropped() {},
  });
  const end = () => void wire.close().catch(() => {});
  const report = (error: Error) => transport.onerror?.(error);
  const transport: Transport = {
    async start() {
      await wire.start();
      if (stdin.readableEnded || stdin.destroyed) setImmediate(end);
      stdin.on("data", lines.push).on("error", report).on("end", end).on("close", end);
    },
    send: (message) => wire.send(leaving(message)),
    close: () => wire.close(),
  };
  wire.onerror = report;
  wire.onclose = () => {
    stdin.off("data", lines.push).off("error", report).off("end", end).off("close", end);
    if (stdin.listenerCount("data") === 0) stdin.pause();
    transport.onclose?.();
    done();
  };
  return { transport, closed };
}

const LINE_PROBLEMS = {
  [-32700]: "Parse error: the line is not JSON",
  [-32600]: "Invalid Request: the line is not one JSON-RPC message",
} as const;

/** The message on a line, or the code of what is wrong with it. */
function parseLine(text: string): JSONRPCMessage | keyof typeof LINE_PROBLEMS {
  try {
    return parseJSONRPCMessage(JSON.parse(text));
  } catch (thrown) {
    return thrown instanceof SyntaxError ? -32700 : -32600;
  }
}

/** Follows the resources that a client of the modern era listens to, one follower a stream. */
function createSubscriptionTracker(connection: () => ClientConnection | undefined) {
  const streams = new Map<
    string | number,
    { readonly connection: ClientConnection; readonly follower: ResourceSubscriber }
  >();
  const signal = new AbortController().signal;
  const end = (id: string | number) => {
    const stream = streams.get(id);
    streams.delete(id);
    stream?.connection.profileSession.unsubscribeAll(stream.follower).catch(() => {});
  };
  return {
    arrived(message: JSONRPCMessage) {
      if (isJSONRPCRequest(message)) {
        const uris = readListenedUris(message);
        // The connection may be made by this very message, and is there when it was taken in.
        if (uris.length > 0) setImmediate(() => follow(message.id, uris));
      } else if (isJSONRPCNotification(message) && message.method === "notifications/cancelled") {
        const id = message.params?.requestId;
        if (typeof id === "string" || typeof id === "number") end(id);
      }
    },
    close() {
      for (const id of streams.keys()) end(id);
    },
  };

  function follow(id: string | number, uris: readonly string[]): void {
    const present = connection();
    if (present === undefined || streams.size >= STREAMS_LIMIT) return;
    end(id);
    const follower: ResourceSubscriber = { audience: present, notify: present.follower.notify };
    streams.set(id, { connection: present, follower });
    for (const uri of uris) present.profileSession.subscribe(uri, follower, { signal }).catch(() => {});
  }
}

const STREAMS_LIMIT = 100;
