import { availableParallelism, cpus, totalmem } from "node:os";

/** The machine that the figures were measured on. */
export const machine = {
  node: process.version,
  processor: cpus()[0]?.model ?? "unknown",
  cores: availableParallelism(),
  memoryGiB: Math.round(totalmem() / 2 ** 30),
};
