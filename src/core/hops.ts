import type { Caller } from "./caller.ts";
import { QmError } from "./errors.ts";
import { isRecord } from "./json.ts";

/** The number of hops in the metadata of an A2A message. */
export const HOPS_KEY = "quartermaster.hops";

/** The hops of work that the caller hands on. Throws `denied` if it was handed on too often before. */
export function countHop({ hops = 0 }: Pick<Caller, "hops">, limit: number): number {
  if (hops < limit) return hops + 1;
  throw new QmError("denied", `the work was handed on ${hops} times before, and ${limit} is the limit`, {
    hint: "Do it yourself, or answer with what you have.",
  });
}

/** The hops of a message from another process, whose number is only a claim: the message itself is one. */
export function readHops(metadata: unknown): number {
  const claimed = isRecord(metadata) ? metadata[HOPS_KEY] : undefined;
  return typeof claimed === "number" && Number.isSafeInteger(claimed) ? Math.max(1, claimed) : 1;
}
