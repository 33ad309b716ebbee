import type { EventStore } from "../ledger/event-store.ts";
import type { UsageStore } from "../policy/usage.ts";
import { openSqlite, type SqliteOptions } from "./drivers/sqlite.ts";
import { eventStore } from "./events.ts";
import { migrate } from "./migrations.ts";
import type { SqlDriver } from "./sql.ts";
import { usageStore } from "./usage.ts";

/** Everything that is kept, over one database. */
export interface Store {
  readonly events: EventStore;
  readonly usage: UsageStore;
  /** Waits for what was asked for before. */
  close(): Promise<void>;
}

export interface StoreOptions extends SqliteOptions {
  readonly now: () => Date;
}

/** Opens the store in the file at `path` (or `:memory:`), made or brought to this version when need be. */
export async function openSqliteStore(path: string, { now, ...options }: StoreOptions): Promise<Store> {
  return openStore(await openSqlite(path, options), now);
}

/** Takes over `db`: it is closed with the store, or at once when it cannot be used. */
export async function openStore(db: SqlDriver, now: () => Date): Promise<Store> {
  try {
    await migrate(db);
  } catch (thrown) {
    await db.close();
    throw thrown;
  }
  return { events: eventStore(db), usage: usageStore(db, now), close: db.close };
}
