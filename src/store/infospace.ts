import type { InfospaceStore } from "../infospace/infospace-store.ts";
import { collectionMethods } from "./infospace-collections.ts";
import { dropMethods } from "./infospace-drop.ts";
import { listMethods } from "./infospace-lists.ts";
import { memberMethods } from "./infospace-members.ts";
import { noteMethods } from "./infospace-notes.ts";
import type { Sql } from "./sql.ts";

/** Notes and collections in SQL. */
export function infospaceStore(db: Sql, now: () => Date): InfospaceStore {
  return {
    ...noteMethods(db, now),
    ...collectionMethods(db, now),
    ...memberMethods(db, now),
    ...dropMethods(db, now),
    ...listMethods(db, now),
  };
}
