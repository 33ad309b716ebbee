import { QmError } from "../../../core/errors.ts";
import { didYouMean } from "../../../core/nearest.ts";
import type { ServerSpec } from "../../../mcp/server-spec.ts";
import type { Servers } from "../../../mcp/servers/servers.ts";

/** The configured server of that name. Throws `not_found`. */
export function requireServer(servers: Pick<Servers, "list">, name: string): ServerSpec {
  const specs = servers.list().map(({ spec }) => spec);
  const found = specs.find((spec) => spec.name === name);
  if (found !== undefined) return found;
  const names = specs.map((spec) => spec.name);
  throw new QmError("not_found", `no server ${JSON.stringify(name)} is configured${didYouMean(name, names)}`, {
    hint: "`qm servers list` shows the servers there are.",
  });
}
