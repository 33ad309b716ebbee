import type { Config } from "../config/schema.ts";
import { authorizeBy } from "../core/authorize-by.ts";
import { messageOf } from "../core/errors.ts";
import { linkKeyPathOf } from "../store-places.ts";
import { systemRuntime } from "../system-runtime.ts";
import type { Workspace } from "../workspace.ts";
import { type Api, type ApiOptions, createApi, type KnownApprover } from "./api.ts";
import { approverTokens, rolesOf } from "./approvers.ts";
import { linkKeyIn } from "./link-key.ts";

/** The API in front of a workspace, as its configuration says; a change of its approvers is taken over at once. */
export async function openApi(
  workspace: Workspace,
  { onProblem, signal }: Pick<ApiOptions, "onProblem" | "signal">,
): Promise<Api> {
  const knownBy = (config: Config) => authorizeBy(approverTokens(config, { fill: workspace.fill, onProblem }));
  let config = workspace.config;
  let known = knownBy(config);

  function authorize(token: string): KnownApprover | undefined {
    if (config !== workspace.config) {
      config = workspace.config;
      known = () => undefined;
      try {
        known = knownBy(config);
      } catch (thrown) {
        onProblem(`nobody can answer over HTTP: ${messageOf(thrown)}`);
      }
    }
    return known(token);
  }

  return createApi({
    approvals: workspace.quartermaster.approvals,
    authorize,
    links: {
      key: await linkKeyIn(linkKeyPathOf(workspace.storePath)),
      rolesOf: (name) => rolesOf(workspace.config, name),
      now: systemRuntime.now,
    },
    onProblem,
    signal,
  });
}
