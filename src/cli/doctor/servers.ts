import { messageOf } from "../../core/errors.ts";
import { matchesGlob } from "../../core/glob.ts";
import type { ServerSpec } from "../../mcp/server-spec.ts";
import type { Workspace } from "../../workspace.ts";
import { counted } from "../text.ts";
import { type Check, ok, warn } from "./check.ts";

/** What can be told of MCP servers and clients without starting any. */
export function checkServers(workspace: Workspace): readonly Check[] {
  return [...workspace.servers.list().flatMap((view) => checkServer(workspace, view)), ...checkProfiles(workspace)];
}

function checkServer(
  { fill }: Workspace,
  { spec, state, tools, withheld }: ReturnType<Workspace["servers"]["list"]>[number],
): readonly Check[] {
  const about = "server";
  const missing = missingOf(spec, fill);
  if (missing !== undefined) return [warn(about, `${spec.name}: ${missing}`, "Without it the server cannot start.")];
  if (withheld > 0)
    return [warn(about, `${spec.name}: ${counted(withheld, "definition")} withheld`, `qm servers review ${spec.name}`)];
  if (state === "configured")
    return [warn(about, `${spec.name}: its tools are not known yet`, `qm servers start ${spec.name}`)];
  return [ok(about, `${spec.name}: ${counted(tools, "tool")}, ${state}`)];
}

/** The first reference that leads nowhere. */
function missingOf({ launch }: ServerSpec, fill: Workspace["fill"]): string | undefined {
  const texts =
    launch.kind === "stdio"
      ? [launch.command, ...launch.args, ...Object.values(launch.env)]
      : [launch.url, ...Object.values(launch.headers)];
  try {
    for (const text of texts) fill(text, "a reference");
    return undefined;
  } catch (thrown) {
    return messageOf(thrown);
  }
}

function checkProfiles({ config, servers }: Workspace): readonly Check[] {
  const names = servers.list().map(({ spec }) => spec.name);
  return Object.entries(config.gateway.profiles).flatMap(([profile, { pass_through }]) =>
    pass_through
      .filter((pattern) => !names.some((name) => matchesGlob(pattern, name)))
      .map((pattern) =>
        warn("profile", `${profile}: no server fits ${JSON.stringify(pattern)}`, "Correct gateway.profiles."),
      ),
  );
}
