import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Variables } from "./driver.ts";
import { killAll, leftOf, treeOf } from "./processes.ts";
import { type Started, start } from "./started.ts";

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
  readonly mark: string;
  readonly env: Variables;
  stand(name: string, servers: Stand["servers"], broken?: readonly string[]): Stand;
  /** `mark` is how it is found among the processes, where that of the whole run does not do. */
  upstream(kind: "stdio" | "exits" | "silent", name: string, mark?: string): Upstream;
  /** One that listens until the end. */
  remoteUpstream(name: string): Promise<Upstream>;
  start(command: readonly string[], options: { readonly cwd: string; readonly env: Variables }): Started;
  /** A process that somebody else has started for us. */
  adopt(pid: number): void;
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
  };
  const pids = new Set<number>();
  const command = (kind: string, name: string, its = mark) => [
    process.execPath,
    SCRIPT,
    kind,
    "--name",
    name,
    "--mark",
    its,
  ];
  const ground: Ground = {
    mark,
    env,
    stand(name, servers, broken = []) {
      const home = join(folder, name.replaceAll(/[^a-z0-9]+/gi, "-"));
      mkdirSync(home, { recursive: true });
      return { folder: home, servers, broken, env: { ...env, HOME: home } };
    },
    upstream: (kind, name, mark) => ({ kind: "stdio", command: command(kind, name, mark) }),
    async remoteUpstream(name) {
      const { firstLine } = ground.start(command("http", name), { cwd: folder, env });
      return { kind: "http", url: await firstLine };
    },
    start(command, options) {
      const started = start(command, options);
      pids.add(started.pid);
      return started;
    },
    adopt: (pid) => void pids.add(pid),
    close() {
      killAll([...pids].flatMap((pid) => treeOf(pid).pids.filter((each) => each !== process.pid)));
      killAll(leftOf([], mark));
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
  return ground;
}
