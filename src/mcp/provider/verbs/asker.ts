import type { Caller } from "../../../core/caller.ts";

/** Who is behind a call, as far as anybody knows: the ledger says on whose word a server came or went. */
export function askerOf({ person, user, actor }: Caller): string {
  return person ?? user?.id ?? actor;
}
