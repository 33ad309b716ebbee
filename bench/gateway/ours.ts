import { spawnSync } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect, type Era } from "./driver.ts";
import { type Gateway, TEXT } from "./gateway.ts";
import { RawClient } from "./raw.ts";
import type { Stand } from "./stand.ts";
import { start } from "./started.ts";

export type Surface = "universal" | "pass-through";

export interface OursOptions {
  readonly bin: string;
  readonly face: "mcp" | "serve";
  readonly surface: Surface;
  readonly era?: Era;
  /** Whether the tools of the servers are known before it is opened. */
  readonly known?: boolean;
  /** Whether the client is raw HTTP. */
  readonly isRaw?: boolean;
}

const TOKEN = "a-token-of-the-bench-and-of-nobody-else";

/** `qm mcp` or `qm serve` with defaults: every call is validated, decided and written to the ledger. */
export function ours({ bin, face, surface, era = "legacy", known = true, isRaw = false }: OursOptions): Gateway {
  const profile = surface === "universal" ? "default" : "passing";
  const variables = ({ env }: Stand) => ({ ...env, BENCH_TOKEN: TOKEN });
  return {
    name: `qm ${face}, ${surface}${era === "modern" ? ", 2026-07-28" : ""}${known ? "" : ", nothing known"}${isRaw ? ", raw client" : ""}`,
    era,
    isRaw,
    kind: `qm, ${surface}, ${known ? "known" : "nothing known"}`,
    knowsNothing: !known,
    async prepare(stand) {
      writeFileSync(join(stand.folder, "quartermaster.yaml"), JSON.stringify(configuration(stand, surface), null, 2));
      if (!known) return rmSync(join(stand.folder, ".quartermaster"), { recursive: true, force: true });
      const names = Object.keys(stand.servers).filter((name) => !stand.broken.includes(name));
      const { status, stdout, stderr } = spawnSync(process.execPath, [bin, "servers", "start", ...names], {
        cwd: stand.folder,
        env: variables(stand),
        encoding: "utf8",
      });
      if (status !== 0) throw new Error(`qm servers start failed: ${stdout}${stderr}`);
    },
    async open(stand) {
      const options = { cwd: stand.folder, env: variables(stand) };
      if (face === "mcp") {
        const command = [process.execPath, bin, "mcp", "--profile", profile];
        const { client, pid } = await connect({ kind: "stdio", command, ...options }, era);
        return { client, pid, close: () => client.close() };
      }
      const { pid, firstLine, stop } = start([process.execPath, bin, "serve", "--port", "0", "--json"], options);
      const { url, tokenPath } = JSON.parse(await firstLine) as { url: string; tokenPath: string };
      const token = surface === "universal" ? readFileSync(tokenPath, "utf8").trim() : TOKEN;
      const client = isRaw
        ? new RawClient(url, { authorization: `Bearer ${token}` })
        : await connectHttp(url, token, era);
      if (client instanceof RawClient) await client.initialize();
      return { client, pid, close: () => client.close().then(stop) };
    },
    call: (server) =>
      surface === "universal"
        ? {
            name: "invoke_action",
            arguments: { action_name: `mcp__${server}__${server}_echo`, args: { text: TEXT } },
          }
        : { name: `${server}_echo`, arguments: { text: TEXT } },
    shows: (tools) => (surface === "universal" ? 4 : tools),
  };
}

const connectHttp = async (url: string, token: string, era: Era) =>
  (await connect({ kind: "http", url, token }, era)).client;

function configuration({ servers }: Stand, surface: Surface): object {
  const passing = { token: `\${env:BENCH_TOKEN}`, pass_through: ["*"] };
  return {
    servers: Object.fromEntries(
      Object.entries(servers).map(([name, upstream]) => {
        if (upstream.kind === "http") return [name, { url: upstream.url }];
        const [command, ...args] = upstream.command;
        return [name, { command, args }];
      }),
    ),
    // With a profile that passes servers through, the gateway connects to servers it does not know yet.
    gateway: { profiles: surface === "universal" ? {} : { passing } },
  };
}
