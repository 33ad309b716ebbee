import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Variables } from "./driver.ts";
import { killMarked, MARK, marked } from "./processes.ts";
import { start } from "./started.ts";

/** A server that a gateway stands in front of. */
export type Upstream =
  | { readonly kind: "stdio"; readonly command: readonly string[] }
  | { readonly kind: "http"; readonly url: string };

/** One gateway's folder, and the servers that it is configured with. */
export interface Stand {
  readonly folder: string;
  readonly servers: Readonly<Record<string, Upstream>>;
  /** Those of them that do not work. */
  readonly broken: readonly string[];
  /** Its own home, so that nobody reads or leaves anything in that of whoever runs this. */
  readonly env: Variables;
}

/** Everything that is made for one run, in one place, so that nothing of it is left behind. */
export interface Ground {
  /** What all its processes bear. */
  readonly mark: string;
  readonly env: Variables;
  stand(name: string, servers: Stand["servers"], broken?: readonly string[]): Stand;
  upstream(kind: "stdio" | "exits" | "silent", name: string): Upstream;
  /** One that listens until the end. */
  remoteUpstream(name: string): Promise<Upstream>;
  /** Ends whatever of this run still runs, and removes its folder. */
  close(): void;
}

const SCRIPT = fileURLToPath(new URL("upstream.mjs", import.meta.url));

export function newGround(): Ground {
  const folder = mkdtempSync(join(tmpdir(), "qm-bench-gateway-"));
  const mark = basename(folder);
  const env = {
    ...(process.env as Variables),
    HOME: folder,
    XDG_CONFIG_HOME: "",
    XDG_DATA_HOME: "",
    XDG_STATE_HOME: "",
    [MARK]: mark,
  };
  // Gateways do not hand all their variables down, so it is in the command line, too.
  const command = (kind: string, name: string) => [process.execPath, SCRIPT, kind, "--name", name, "--mark", mark];
  return {
    mark,
    env,
    stand(name, servers, broken = []) {
      const home = join(folder, name.replaceAll(/[^a-z0-9]+/gi, "-"));
      mkdirSync(home, { recursive: true });
      return { folder: home, servers, broken, env: { ...env, HOME: home } };
    },
    upstream: (kind, name) => ({ kind: "stdio", command: command(kind, name) }),
    async remoteUpstream(name) {
      const { firstLine } = start(command("http", name), { cwd: folder, env });
      return { kind: "http", url: await firstLine };
    },
    close() {
      for (const pid of marked(mark)) killMarked(pid, mark);
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
