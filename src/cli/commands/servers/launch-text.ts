import type { Launch } from "../../../mcp/server-spec.ts";
import { shellQuoted } from "../../text.ts";

/** How a server is reached, as a person would type it. References stay references. */
export function launchText(launch: Launch): string {
  return launch.kind === "http" ? launch.url : [launch.command, ...launch.args].map(shellQuoted).join(" ");
}
