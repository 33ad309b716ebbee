import { endGroup, type Kill, type Patience, processGroup } from "./process-group.ts";
import type { ProcessStore, StartedProcess } from "./process-store.ts";

export interface SweepFacts {
  readonly host: string;
  isAlive(pid: number): boolean;
  startTimeOf(pid: number): Promise<string | undefined>;
  readonly kill: Kill;
}

const PATIENCE: Patience = { termMs: 2_000, killMs: 2_000 };

/**
 * Ends what processes that are gone have left running on this machine, and answers what that was. A process is ended
 * only if its owner is dead and it is the very one that was recorded: a number alone may be another's by now.
 */
export async function sweepProcesses(
  store: ProcessStore,
  facts: SweepFacts,
  { patience = PATIENCE, platform = process.platform }: { patience?: Patience; platform?: NodeJS.Platform } = {},
): Promise<readonly StartedProcess[]> {
  const here = (await store.all()).filter(({ host }) => host === facts.host);
  const swept = await Promise.all(
    here.map(async (started) => {
      const isThere = (await facts.startTimeOf(started.pid)) === started.startedAt;
      if (isThere && facts.isAlive(started.ownerPid)) return undefined;
      // What could not be ended stays on record for the next time.
      if (isThere && !(await endGroup(processGroup(started.pid, facts.kill, platform), patience))) return undefined;
      await store.remove(started);
      return isThere ? started : undefined;
    }),
  );
  return swept.filter((started) => started !== undefined);
}
