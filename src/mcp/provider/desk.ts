import { QmError } from "../../core/errors.ts";
import type { InstallPlan } from "../registry/install-plan.ts";
import type { PlanRequest } from "../registry/planner.ts";
import type { Registry } from "../registry/registry.ts";
import type { ServerSpec } from "../server-spec.ts";

export interface Installed {
  readonly server: string;
  readonly command: string;
  readonly version?: string;
  /** The actions it brought. */
  readonly actions: readonly string[];
  /** How many of its tools a person must look at before they can be used. */
  readonly withheld: number;
  /** It answers, and wants somebody to log in before it says what it offers. */
  readonly needsLogin?: true;
  readonly hint?: string;
}

export interface Dropped {
  readonly server: string;
  readonly secrets: readonly string[];
}

/** Where servers are found, added and taken away. Who may ask is decided before. */
export interface ServerDesk {
  specs(): readonly ServerSpec[];
  readonly registry: Pick<Registry, "search">;
  /** What installing would mean, exactly. Changes nothing. */
  plan(request: PlanRequest, signal?: AbortSignal): Promise<InstallPlan>;
  /**
   * Starts it once to see that it works, and only then writes it down; one that wants a login first is written down, too.
   * Throws `server_failed`; then nothing is written.
   */
  install(plan: InstallPlan, by: string, signal?: AbortSignal): Promise<Installed>;
  /** A server that is disabled can be taken away like any other. Throws `not_found`. */
  drop(server: string, by: string, options: { readonly clearSecrets: boolean }): Promise<Dropped>;
}

/** In the same words whether it is hidden or not there. */
export function noServer(server: string): QmError {
  return new QmError("not_found", `there is no MCP server ${JSON.stringify(server)}`, {
    hint: "mcp__list_servers lists the servers there are.",
  });
}
