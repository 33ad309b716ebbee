import { availableParallelism, cpus, totalmem } from "node:os";

/** What figures were taken on. */
export const machine = {
  node: process.version,
  processor: cpus()[0]?.model ?? "unknown",
  cores: availableParallelism(),
  memoryGiB: Math.round(totalmem() / 2 ** 30),
};
