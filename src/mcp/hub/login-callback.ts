import { randomBytes, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { QmError } from "../../core/errors.ts";

interface LoginCallbackOptions {
  /** A redirect without this state is refused. */
  readonly state: string;
  /** Absent: the last port if it is free, else any. */
  readonly port: number | undefined;
  /** Absent: the last path, else a random one. */
  readonly path: string | undefined;
  readonly lastUrl: string | undefined;
}

/** Waits for the browser's redirect. `answer` resolves with the query of the first one that has the right state. */
export async function listenForCallback({ state, port, path, lastUrl }: LoginCallbackOptions) {
  const last = lastUrl === undefined || !URL.canParse(lastUrl) ? undefined : new URL(lastUrl);
  let resolve: (answer: URLSearchParams) => void = () => undefined;
  const answer = new Promise<URLSearchParams>((done) => {
    resolve = done;
  });
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", url);
    const isKnown = request.method === "GET" && pathname === url.pathname;
    const isAccepted = isKnown && isEqualSecret(searchParams.get("state") ?? "", state);
    if (isAccepted) resolve(searchParams);
    response.writeHead(isAccepted ? 200 : isKnown ? 400 : 404, {
      "content-type": "text/plain; charset=utf-8",
      "cache-control": "no-store",
      connection: "close",
    });
    response.end(isAccepted ? "Done. You can close this window.\n" : "This request was not expected here.\n");
  });
  const takenPort = await listenOnPort(server, port ?? Number(last?.port ?? 0), port === undefined);
  const pathname = path ?? last?.pathname ?? `/callback/${randomBytes(16).toString("base64url")}`;
  const url = new URL(pathname, "http://127.0.0.1");
  url.port = String(takenPort);
  return {
    url,
    answer,
    async close(): Promise<void> {
      server.closeAllConnections();
      server.close();
      await once(server, "close").catch(() => undefined);
    },
  };
}

async function listenOnPort(server: Server, port: number, mayTakeOther: boolean): Promise<number> {
  try {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  } catch (cause) {
    if (mayTakeOther) return listenOnPort(server, 0, false);
    const message = `port ${port} on this machine is taken, but the login's redirect needs it`;
    const hint = "Free the port, or choose another as `oauth.callback_port`.";
    throw new QmError("conflict", message, { hint, cause });
  }
}

function isEqualSecret(a: string, b: string): boolean {
  const [one, other] = [Buffer.from(a), Buffer.from(b)];
  return one.length === other.length && timingSafeEqual(one, other);
}
