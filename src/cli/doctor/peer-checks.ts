import { formatCount } from "../../core/display-text.ts";
import { getErrorMessage } from "../../core/errors.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type DoctorCheck, ok, warn } from "./environment-checks.ts";
import { findTokenProblem, TOKEN_TODO } from "./token-checks.ts";

const CARD_MS = 3_000;

/** Asks each remote peer for its card, and checks the tokens of the agents that may call us. */
export async function checkPeers(workspace: Workspace): Promise<readonly DoctorCheck[]> {
  const { peers } = workspace.quartermaster;
  const remote = peers.list().filter(({ kind }) => kind === "remote");
  const checked = remote.map(async ({ name }): Promise<DoctorCheck> => {
    try {
      const { skills } = await peers.card(name, AbortSignal.timeout(CARD_MS));
      return ok("peer", `${name}: reachable, ${formatCount(skills.length, "skill")}`);
    } catch (thrown) {
      return warn("peer", `${name}: ${getErrorMessage(thrown)}`, `\`qm peers show ${name}\` tries again.`);
    }
  });
  return [...(await Promise.all(checked)), ...checkClients(workspace)];
}

function checkClients(workspace: Workspace): readonly DoctorCheck[] {
  const { enabled, clients } = workspace.config.a2a;
  const found = Object.entries(clients).flatMap(([name, { token }]) => {
    const problem = findTokenProblem(workspace, `a2a.clients.${name}.token`, token);
    return problem === undefined ? [] : [warn("a2a", `${name}: ${problem}`, TOKEN_TODO)];
  });
  if (!enabled) return found;
  const isEmpty = Object.keys(clients).length === 0;
  const exposed = Object.values(clients).flatMap(({ actor }) => workspace.quartermaster.peers.listExposed({ actor }));
  if (isEmpty) return [warn("a2a", "no agent can call: a2a.clients is empty", "Add one, or set a2a.enabled to false.")];
  if (exposed.length > 0) return found;
  const todo = "Set `exposed: true` on an actor, and let the actors of a2a.clients use agent.peer__<actor>.";
  return [...found, warn("a2a", "its clients see nothing that they can call", todo)];
}
