import { setTimeout as pause } from "node:timers/promises";
import { connect } from "./driver.ts";
import { type Gateway, TEXT } from "./gateway.ts";
import { connectWhenUp, executorBinary, freePort } from "./peers.ts";
import type { Stand, Upstream } from "./stand.ts";
import { start } from "./started.ts";

const TOKEN = "bench";
/** Time to connect a server. The one that never answers is configured all the same. */
const CONNECT_MS = 4000;
const AT_ONCE = 4;

/** A client makes a call with a line of code. Every call opens its own connection to the server. */
export function executor(face: "stdio" | "HTTP"): Gateway {
  const variables = ({ folder, env }: Stand) => ({
    ...env,
    EXECUTOR_DATA_DIR: `${folder}/data`,
    EXECUTOR_SCOPE_DIR: folder,
  });
  const daemon = (stand: Stand, port: number) =>
    start(
      [executorBinary, "daemon", "run", "--foreground", "--hostname", "127.0.0.1"].concat(
        ["--port", String(port)],
        ["--auth-token", TOKEN],
      ),
      { cwd: stand.folder, env: variables(stand) },
    );
  return {
    name: `executor 1.5.9, ${face}`,
    kind: "executor",
    era: "legacy",
    slow: true,
    async prepare(stand) {
      const port = await freePort();
      const { stop, exited } = daemon(stand, port);
      const { client } = await connectWhenUp(httpAddress(port), exited);
      await client.close();
      const waiting = Object.entries(stand.servers);
      const worker = async (): Promise<void> => {
        for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await add(port, ...next);
      };
      await Promise.all(Array.from({ length: AT_ONCE }, worker));
      await stop();
      // It stores the address where it listens. Wait until that is gone, so that the next process does not find it.
      await pause(200);
    },
    async open(stand) {
      if (face === "stdio") {
        const command = [executorBinary, "mcp"];
        const address = { kind: "stdio", command, cwd: stand.folder, env: variables(stand) } as const;
        const { client, pid } = await connect(address);
        return { client, pid, close: () => client.close() };
      }
      const port = await freePort();
      const { pid, exited, stop } = daemon(stand, port);
      const { client } = await connectWhenUp(httpAddress(port), exited);
      return { client, pid, close: () => client.close().then(stop) };
    },
    call: (server) => ({
      name: "execute",
      arguments: { code: `return await tools.${server}.org.main.${server}_echo(${JSON.stringify({ text: TEXT })});` },
    }),
    shows: () => 2,
  };
}

const httpAddress = (port: number) => ({ kind: "http", url: `http://127.0.0.1:${port}/mcp`, token: TOKEN }) as const;

/** Its command line cannot do this. Its web page sends the same request. */
async function add(port: number, name: string, upstream: Upstream): Promise<void> {
  const [command, ...args] = upstream.kind === "stdio" ? upstream.command : [];
  const server =
    upstream.kind === "stdio"
      ? { transport: "stdio", name, slug: name, command, args }
      : { transport: "remote", name, slug: name, endpoint: upstream.url, remoteTransport: "streamable-http" };
  await post(port, "/api/mcp/servers", server);
  const connection = { owner: "org", name: "main", integration: name, template: "none", values: {} };
  await post(port, "/api/connections", connection, CONNECT_MS).catch(() => {});
}

async function post(port: number, path: string, body: object, limitMs = 30_000): Promise<void> {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${TOKEN}` },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(limitMs),
  });
  if (!answer.ok) throw new Error(`executor answered ${answer.status} to ${path}: ${await answer.text()}`);
}
