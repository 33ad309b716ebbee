import { randomBytes, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { QmError } from "../../core/errors.ts";

/** Where the browser comes back to, on this machine. */
export interface LoginCallback {
  readonly url: URL;
  /** What the authorization server sent along with the state that it was given. */
  answer(signal: AbortSignal | undefined): Promise<URLSearchParams>;
  close(): Promise<void>;
}

interface LoginCallbackOptions {
  /** Whatever comes without it is refused. */
  readonly state: string;
  /** Absent: that of the last time if it is free, else any. */
  readonly port: number | undefined;
  /** Absent: that of the last time, else one that nobody can guess. */
  readonly path: string | undefined;
  /** The callback's URL the last time. */
  readonly before: string | undefined;
}

export async function listenForCallback({ state, port, path, before }: LoginCallbackOptions): Promise<LoginCallback> {
  const last = before === undefined || !URL.canParse(before) ? undefined : new URL(before);
  const seen = createAnswerWaiter(state);
  const server = createServer((request, response) => {
    const asked = new URL(request.url ?? "/", url);
    const known = request.method === "GET" && asked.pathname === url.pathname;
    const accepted = known && seen.offer(asked.searchParams);
    response.writeHead(accepted ? 200 : known ? 400 : 404, {
      "content-type": "text/plain; charset=utf-8",
      "cache-control": "no-store",
      connection: "close",
    });
    response.end(accepted ? "Done. You can close this window.\n" : "This is not what was expected here.\n");
  });
  const taken = await listenOnPort(server, port ?? Number(last?.port ?? 0), port === undefined);
  const url = new URL(
    path ?? last?.pathname ?? `/callback/${randomBytes(16).toString("base64url")}`,
    "http://127.0.0.1",
  );
  url.port = String(taken);
  return {
    url,
    answer: seen.answer,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close").catch(() => undefined);
    },
  };
}

async function listenOnPort(server: Server, port: number, anyOther: boolean): Promise<number> {
  const attempt = async (wanted: number): Promise<number> => {
    server.listen(wanted, "127.0.0.1");
    await once(server, "listening");
    return (server.address() as AddressInfo).port;
  };
  try {
    return await attempt(port);
  } catch (thrown) {
    if (!anyOther)
      throw new QmError("conflict", `port ${port} on this machine is taken, so that the browser cannot come back`, {
        hint: "Free the port, or choose another as `oauth.callback_port`.",
        cause: thrown,
      });
    return attempt(0);
  }
}

/** The first answer with the right state; nothing is made of others. */
function createAnswerWaiter(expected: string) {
  let resolve: (answer: URLSearchParams) => void = () => undefined;
  const answered = new Promise<URLSearchParams>((done) => {
    resolve = done;
  });
  return {
    offer(answer: URLSearchParams): boolean {
      if (!isEqualSecret(answer.get("state") ?? "", expected)) return false;
      resolve(answer);
      return true;
    },
    answer(signal: AbortSignal | undefined): Promise<URLSearchParams> {
      return new Promise((done, reject) => {
        const onAbort = () => reject(new QmError("cancelled", "logging in was given up"));
        if (signal?.aborted) return onAbort();
        signal?.addEventListener("abort", onAbort, { once: true });
        void answered.then((answer) => {
          signal?.removeEventListener("abort", onAbort);
          done(answer);
        });
      });
    },
  };
}

function isEqualSecret(a: string, b: string): boolean {
  const [one, other] = [Buffer.from(a), Buffer.from(b)];
  return one.length === other.length && timingSafeEqual(one, other);
}
