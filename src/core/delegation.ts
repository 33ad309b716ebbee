import type { Caller } from "./caller.ts";
import { QmError } from "./errors.ts";
import { isRecord } from "./json.ts";

/** The category of other agents and actors as actions. */
export const PEER_CATEGORY = "agent.peer";

/** The surface of calls that other agents make. */
export const PEER_VIA = "a2a";

/** The user of calls that are made for another agent, also by the actors that it calls. */
export const toPeerUser = (client: string) => ({ id: `peer:${client}` });
export const isForPeer = ({ user }: Pick<Caller, "user">): boolean => user?.id.startsWith("peer:") === true;

/** The number of hops in the metadata of an A2A message. */
export const HOPS_KEY = "quartermaster.hops";

/** Throws `denied` if work was handed on too often to reach this caller. */
export function checkHops({ hops = 0 }: Pick<Caller, "hops">, limit: number): void {
  if (hops <= limit) return;
  throw new QmError("denied", `the work would be handed on ${hops} times, and the limit is ${limit}`, {
    hint: "Do it yourself, or answer with what you have.",
  });
}

/** The caller of work that is handed on to another actor: one hop further, and in no turn yet. */
export function handOn({ turn: _, ...caller }: Caller, actor: string): Caller {
  return { ...caller, actor, hops: (caller.hops ?? 0) + 1 };
}

/** The hops of work that the caller hands on. Throws `denied`. */
export function countHop({ hops = 0 }: Pick<Caller, "hops">, limit: number): number {
  checkHops({ hops: hops + 1 }, limit);
  return hops + 1;
}

/** The hops of a message from another process, whose number is only a claim: the message itself is one. */
export function readHops(metadata: unknown): number {
  const claimed = isRecord(metadata) ? metadata[HOPS_KEY] : undefined;
  return typeof claimed === "number" && Number.isSafeInteger(claimed) ? Math.max(1, claimed) : 1;
}
