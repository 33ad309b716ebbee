import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Variables } from "./driver.ts";
import { killMarked, MARK, marked } from "./processes.ts";
import { start } from "./started.ts";

/** A server behind a gateway. */
export type Upstream =
  | { readonly kind: "stdio"; readonly command: readonly string[] }
  | { readonly kind: "http"; readonly url: string };

/** One gateway's folder, and its configured servers. */
export interface Stand {
  readonly folder: string;
  readonly servers: Readonly<Record<string, Upstream>>;
  /** The servers that do not work. */
  readonly broken: readonly string[];
  /** Sets a separate home folder, so that the user's own is neither read nor changed. */
  readonly env: Variables;
}

/** Everything that one run creates, in one place, so that all of it can be removed. */
export interface Ground {
  /** The mark of all its processes. */
  readonly mark: string;
  readonly env: Variables;
  stand(name: string, servers: Stand["servers"], broken?: readonly string[]): Stand;
  upstream(kind: "stdio" | "exits" | "silent", name: string): Upstream;
  /** Starts a server that listens until `close()`. */
  remoteUpstream(name: string): Promise<Upstream>;
  /** Ends all processes of this run, and removes its folder. */
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
  // Gateways do not pass on all variables, so the mark is in the command line, too.
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
