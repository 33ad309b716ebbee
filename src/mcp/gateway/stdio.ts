import {
  isJSONRPCNotification,
  isJSONRPCRequest,
  type JSONRPCMessage,
  type Transport,
} from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio as serveOver } from "@modelcontextprotocol/server/stdio";
import { messageOf } from "../../core/errors.ts";
import { outgrows } from "../../core/json.ts";
import type { Runtime } from "../../core/runtime.ts";
import { type Connection, type Face, listenedUris } from "./face.ts";
import type { Era, GatewayLimits, StdioOptions } from "./gateway.ts";
import { MESSAGE_SHAPE } from "./http.ts";
import { withLegacyCode } from "./legacy-codes.ts";
import type { Follower } from "./subscriptions.ts";

export interface StdioParts {
  readonly face: Face;
  readonly runtime: Runtime;
  readonly limits: GatewayLimits;
  readonly onProblem: (problem: string) => void;
}

/** Serves the one client at the other end of the pipes, in the era that it opens with. */
export async function serveStdio(parts: StdioParts, { stdin, stdout, signal }: StdioOptions): Promise<void> {
  const { face, runtime, limits, onProblem } = parts;
  const session = runtime.newId();
  let present: { readonly era: Era; readonly connection: Connection } | undefined;
  const wire = new StdioServerTransport(stdin, stdout, { maxBufferSize: limits.bodyBytes });
  const heard = listening(() => present?.connection);
  const { transport, closed } = guarded(wire, {
    arrived: heard.arrived,
    leaving: (message) => (present?.era === "legacy" ? withLegacyCode(message) : message),
  });
  const handle = serveOver(
    ({ era }) => {
      // A client that looked first and then opened the other way leaves a connection behind.
      present?.connection.close();
      const connection = face.connect({ era, session, principal: `stdio:${session}`, transport: "stdio" });
      present = { era, connection };
      return connection.server;
    },
    { transport, onerror: (error) => onProblem(messageOf(error)) },
  );
  const stop = () => void handle.close().catch(() => {});
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    await closed;
  } finally {
    signal.removeEventListener("abort", stop);
    await handle.close();
    heard.close();
    present?.connection.close();
  }
}

interface Passing {
  arrived(message: JSONRPCMessage): void;
  leaving(message: JSONRPCMessage): JSONRPCMessage;
}

/** The pipes, with what is not fit to be looked into kept out, and word of when they are closed. */
function guarded(wire: StdioServerTransport, { arrived, leaving }: Passing) {
  let done = () => {};
  const closed = new Promise<void>((resolve) => {
    done = resolve;
  });
  const transport: Transport = {
    start: () => wire.start(),
    send: (message) => wire.send(leaving(message)),
    close: () => wire.close(),
  };
  wire.onmessage = (message) => {
    if (outgrows(message, MESSAGE_SHAPE)) {
      const error = { code: -32600, message: "Invalid Request: too deep, or too many parts" };
      if (isJSONRPCRequest(message)) wire.send({ jsonrpc: "2.0", id: message.id, error }).catch(() => {});
      return;
    }
    arrived(message);
    transport.onmessage?.(message);
  };
  wire.onerror = (error) => transport.onerror?.(error);
  wire.onclose = () => {
    transport.onclose?.();
    done();
  };
  return { transport, closed };
}

/** Follows the resources that a client of the modern era listens to, one follower a stream. */
function listening(connection: () => Connection | undefined) {
  const streams = new Map<string | number, { readonly connection: Connection; readonly follower: Follower }>();
  const signal = new AbortController().signal;
  const end = (id: string | number) => {
    const stream = streams.get(id);
    streams.delete(id);
    stream?.connection.desk.unfollow(stream.follower).catch(() => {});
  };
  return {
    arrived(message: JSONRPCMessage) {
      if (isJSONRPCRequest(message)) {
        const uris = listenedUris(message);
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
    const follower: Follower = { audience: present, tell: present.follower.tell };
    streams.set(id, { connection: present, follower });
    for (const uri of uris) present.desk.subscribe(uri, follower, { signal }).catch(() => {});
  }
}

const STREAMS_LIMIT = 100;
