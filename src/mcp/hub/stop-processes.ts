import { endGroup, type Patience, processGroup } from "./process-group.ts";
import type { ProcessStore, StartedProcess } from "./process-store.ts";
import type { SweepFacts } from "./sweep.ts";

const PATIENCE: Patience = { termMs: 5_000, killMs: 2_000 };

/**
 * Ends the processes of some servers on this machine, or of all where none is named, whoever started them. Whoever did
 * finds them gone, and starts them again with the next call.
 */
export async function stopProcesses(
  servers: readonly string[],
  store: ProcessStore,
  facts: SweepFacts,
  platform: NodeJS.Platform = process.platform,
): Promise<readonly StartedProcess[]> {
  const running = (await store.all()).filter(
    ({ host, server }) => host === facts.host && (servers.length === 0 || servers.includes(server)),
  );
  const stopped = await Promise.all(
    running.map(async (started) => {
      const isThere = (await facts.startTimeOf(started.pid)) === started.startedAt;
      if (isThere && !(await endGroup(processGroup(started.pid, facts.kill, platform), PATIENCE))) return undefined;
      await store.remove(started);
      return isThere ? started : undefined;
    }),
  );
  return stopped.filter((started) => started !== undefined);
}
