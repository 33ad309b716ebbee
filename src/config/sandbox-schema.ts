import { z } from "zod";
import { flag, integer, list, type Options, REFERENCE_FORMS, referenceText } from "./schema-values.ts";

const PLACES = `Relative to the folder of the configuration file. May hold ${REFERENCE_FORMS}.`;

const sandbox = z.strictObject({
  network: flag(false, "Whether the program can use the network, and with it every service of this machine."),
  read: list(
    referenceText("a path"),
    `Files and folders that the program can read, besides the system's programs and libraries. ${PLACES}`,
  ),
  write: list(referenceText("a path"), `Files and folders that the program can read and change. ${PLACES}`),
  memoryMb: integer(16, 1_048_576).default(1_024).describe("The memory of each process, in MiB."),
  processes: integer(1, 32_768).default(128).describe("How many processes and threads may run at the same time."),
  cpuSeconds: integer(1, 86_400)
    .optional()
    .describe("The processor time of each process, in seconds. Absent: no limit."),
  fileMb: integer(1, 1_048_576)
    .default(64)
    .describe("The size of one file, and of all files in the private `/tmp`, in MiB."),
});

/** One schema for every program that can run in a sandbox. */
export const sandboxSchema = sandbox.prefault({}).describe("What the programs can reach and use.");
export const optionalSandboxSchema = sandbox.optional();
export type SandboxConfig = Options<z.output<typeof sandbox>>;
