import type { InfospaceStore } from "../infospace/infospace-store.ts";
import type { Quota } from "../infospace/quota.ts";
import { collectionMethods } from "./infospace-collections.ts";
import { dropMethods } from "./infospace-drop.ts";
import { listMethods } from "./infospace-lists.ts";
import { memberMethods } from "./infospace-members.ts";
import { noteMethods } from "./infospace-notes.ts";
import { sourceMethods } from "./infospace-sources.ts";
import { useMethods } from "./infospace-use.ts";
import type { Sql } from "./sql.ts";

/** Notes and collections in SQL. Without a quota nothing is refused; what is used is counted all the same. */
export function infospaceStore(db: Sql, now: () => Date, quota?: Quota): InfospaceStore {
  return {
    ...noteMethods(db, now, quota),
    ...collectionMethods(db, now, quota),
    ...memberMethods(db, now, quota),
    ...dropMethods(db, now),
    ...listMethods(db, now),
    ...sourceMethods(db, now),
    ...useMethods(db),
    limitedTo: (next) => infospaceStore(db, now, next),
  };
}
