import type { ProcessStore, StartedProcess } from "./process-store.ts";

export interface RecordOptions {
  readonly store: ProcessStore;
  readonly server: string;
  readonly self: { readonly pid: number; readonly host: string };
  readonly startTimeOf: (pid: number) => Promise<string | undefined>;
}

/** Keeps note of the processes of a server while they run: hooks for a transport. */
export function processRecord({ store, server, self, startTimeOf }: RecordOptions) {
  const noted = new Map<number, StartedProcess>();
  return {
    async onStarted(pid: number): Promise<void> {
      const startedAt = await startTimeOf(pid);
      // It is gone already, or nobody could ever tell it from another.
      if (startedAt === undefined) return;
      const started = { server, pid, startedAt, ownerPid: self.pid, host: self.host };
      noted.set(pid, started);
      await store.add(started);
    },
    /** Once `onStarted` is through. */
    async onEnded(pid: number): Promise<void> {
      const started = noted.get(pid);
      noted.delete(pid);
      if (started !== undefined) await store.remove(started);
    },
  };
}
