import type { ActionUseStore } from "../activation/action-use.ts";
import type { ShelfStore } from "../activation/shelf-store.ts";
import type { ApprovalStore } from "../approval/approval-store.ts";
import type { AnchorStore } from "../distribution/anchor-store.ts";
import type { InfospaceStore } from "../infospace/infospace-store.ts";
import type { EventStore } from "../ledger/event-store.ts";
import type { ProblemStore } from "../mcp/hub/problem-store.ts";
import type { ProcessStore } from "../mcp/hub/process-store.ts";
import type { ManifestStore } from "../mcp/manifest/manifest-store.ts";
import type { RegistryStore } from "../mcp/registry/registry-store.ts";
import type { UsageStore } from "../policy/usage.ts";
import type { LockStore } from "../search/semantic/build-lock.ts";
import type { VectorStore } from "../search/semantic/vector-store.ts";
import type { TurnStore } from "../turn/turn-store.ts";
import { actionUseStore } from "./action-use.ts";
import { anchorStore } from "./anchors.ts";
import { approvalStore } from "./approvals.ts";
import { openSqlite, type SqliteOptions } from "./drivers/sqlite.ts";
import { eventStore } from "./events.ts";
import { infospaceStore } from "./infospace.ts";
import { lockStore } from "./locks.ts";
import { manifestStore } from "./manifests.ts";
import { migrate } from "./migrations.ts";
import { problemStore } from "./problems.ts";
import { processStore } from "./processes.ts";
import { registryStore } from "./registry.ts";
import { shelfStore } from "./shelves.ts";
import type { SqlDriver } from "./sql.ts";
import { turnStore } from "./suspended-turns.ts";
import { usageStore } from "./usage.ts";
import { vectorStore } from "./vectors.ts";

/** Everything that is kept, over one database. */
export interface Store {
  readonly events: EventStore;
  readonly usage: UsageStore;
  readonly shelves: ShelfStore;
  readonly actionUse: ActionUseStore;
  readonly vectors: VectorStore;
  readonly locks: LockStore;
  readonly registry: RegistryStore;
  readonly manifests: ManifestStore;
  readonly processes: ProcessStore;
  readonly problems: ProblemStore;
  readonly approvals: ApprovalStore;
  readonly anchors: AnchorStore;
  readonly infospace: InfospaceStore;
  readonly turns: TurnStore;
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
  return {
    events: eventStore(db),
    usage: usageStore(db, now),
    shelves: shelfStore(db, now),
    actionUse: actionUseStore(db),
    vectors: vectorStore(db, now),
    locks: lockStore(db),
    registry: registryStore(db),
    manifests: manifestStore(db),
    processes: processStore(db),
    problems: problemStore(db),
    approvals: approvalStore(db),
    anchors: anchorStore(db, now),
    infospace: infospaceStore(db, now),
    turns: turnStore(db),
    close: db.close,
  };
}
