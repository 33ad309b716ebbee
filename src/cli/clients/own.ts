import { join } from "node:path";
import type { Config } from "../../config/schema.ts";
import { QmError } from "../../core/errors.ts";
import type { OwnAddresses } from "../../mcp/clients/ourselves.ts";
import type { Surroundings } from "../../mcp/clients/surroundings.ts";
import { packageFolder } from "../../package-facts.ts";
import type { Io } from "../io.ts";

/** The built program. */
export const ownBin: string = join(packageFolder(), "dist/bin/qm.js");

/** Where clients' files are looked for, as the process says. */
export function surroundingsOf({ cwd, env, platform }: Io): Surroundings {
  const home = platform === "win32" ? env.USERPROFILE || env.HOME : env.HOME;
  if (home) return { home, cwd, env, platform };
  throw new QmError("invalid_arguments", "the home folder is not known, so neither are clients' files", {
    hint: `Set ${platform === "win32" ? "USERPROFILE" : "HOME"}.`,
  });
}

/** The address of `qm serve`, as somebody on this machine calls it. */
export function gatewayUrl({ host, port }: Config["gateway"]): string {
  const name = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `http://${name.includes(":") ? `[${name}]` : name}:${port}/mcp`;
}

/** How an entry that is Quartermaster itself is told. Without a configuration, where it is by default. */
export function ownAddresses(gateway: Config["gateway"] | undefined): OwnAddresses {
  return { bin: ownBin, urls: [gateway === undefined ? "http://127.0.0.1:7420/mcp" : gatewayUrl(gateway)] };
}
