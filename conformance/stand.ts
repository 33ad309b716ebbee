import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openGateway } from "../src/mcp/gateway/create-gateway.ts";
import { openWorkspace } from "../src/workspace/workspace.ts";

/** The gateway with the fixture server behind it, at an address without a token, because the suite cannot send one. */
export interface Stand {
  readonly url: string;
  close(): Promise<void>;
}

const TOKEN = "conformance-token";

/** A complete workspace in its own folder, set up like a user's. */
export async function openStand(fixtureServer: readonly string[]): Promise<Stand> {
  const folder = mkdtempSync(join(tmpdir(), "qm-conformance-stand-"));
  let target = "";
  const door = tokenAddingDoor(TOKEN, () => target);
  await new Promise<void>((resolve) => door.listen(0, "127.0.0.1", resolve));
  const { port } = door.address() as AddressInfo;
  writeFileSync(join(folder, "quartermaster.yaml"), JSON.stringify(configuration(port, fixtureServer)));

  const problems = (problem: string) => {
    if (process.env.CONFORMANCE_PROBLEMS !== undefined) console.error(problem);
  };
  const env = { ...process.env, CONFORMANCE_TOKEN: TOKEN };
  const workspace = await openWorkspace({ cwd: folder, env, onProblem: problems });
  await workspace.servers.hub.connect("fixture");
  const gateway = openGateway(workspace, problems);
  target = (await gateway.listen({ port: 0 })).url;

  return {
    url: `http://127.0.0.1:${port}/mcp`,
    async close() {
      await gateway.close();
      await workspace.close();
      await new Promise<void>((resolve) => {
        door.close(() => resolve());
        door.closeAllConnections();
      });
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function configuration(port: number, fixtureServer: readonly string[]): object {
  return {
    providers: { file: { enabled: false } },
    servers: {
      fixture: {
        command: process.execPath,
        args: fixtureServer,
        protocol: "modern",
        idle_timeout_ms: 0,
        // The fixture changes its own tools, because the suite expects to be notified.
        pin: false,
      },
    },
    gateway: {
      allowed_origins: [`http://127.0.0.1:${port}`, `http://localhost:${port}`],
      profiles: { identity: { token: `\${env:CONFORMANCE_TOKEN}`, pass_through: ["fixture"] } },
    },
  };
}

/** Forwards every request unchanged, including Host and Origin, and adds a token. */
function tokenAddingDoor(token: string, target: () => string): Server {
  return createServer((incoming, outgoing) => {
    const { hostname, port } = new URL(target());
    const { method, url: path, headers } = incoming;
    const onward = request(
      { hostname, port, path, method, headers: { ...headers, authorization: `Bearer ${token}` } },
      (answer) => {
        outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.on("error", () => outgoing.destroy()).pipe(outgoing);
      },
    );
    onward.on("error", () => outgoing.destroy());
    outgoing.on("close", () => onward.destroy());
    incoming.pipe(onward);
  });
}
