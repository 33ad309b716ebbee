import type { ActivationStore } from "../activation/activation-store.ts";
import type { ActionUseStore } from "../activation/usage-tracker.ts";
import type { ApprovalStore } from "../approval/approval-store.ts";
import type { TurnStore } from "../approval/turn-store.ts";
import type { AnchorStore } from "../distribution/anchors.ts";
import type { InfospaceStore } from "../infospace/infospace-store.ts";
import type { EventStore } from "../ledger/event-store.ts";
import type { ProblemStore } from "../mcp/hub/server-problems.ts";
import type { ProcessStore } from "../mcp/hub/server-processes.ts";
import type { RegistryStore } from "../mcp/install/registry-store.ts";
import type { ManifestStore } from "../mcp/manifests/manifest-store.ts";
import type { UsageStore } from "../policy/budget.ts";
import type { LockStore } from "../search/semantic/vector-build.ts";
import type { VectorStore } from "../search/semantic/vector-set.ts";
import { createSqlActionUseStore, createSqlActivationStore } from "./activation.ts";
import { createSqlAnchorStore } from "./anchors.ts";
import { createSqlApprovalStore } from "./approvals.ts";
import { openSqlite, type SqliteOptions } from "./drivers/sqlite.ts";
import { createSqlEventStore } from "./events.ts";
import { createSqlInfospaceStore } from "./infospace.ts";
import { createSqlLockStore } from "./locks.ts";
import { migrate } from "./migrations.ts";
import { createSqlRegistryStore } from "./server-registry.ts";
import { createSqlManifestStore, createSqlProblemStore, createSqlProcessStore } from "./servers.ts";
import type { SqlDriver } from "./sql.ts";
import { createSqlTurnStore } from "./suspended-turns.ts";
import { createSqlUsageStore } from "./usage.ts";
import { createSqlVectorStore } from "./vectors.ts";

/** Everything that is stored, in one database. */
export interface Store {
  readonly events: EventStore;
  readonly usage: UsageStore;
  readonly activation: ActivationStore;
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
  /** Waits for pending statements. */
  close(): Promise<void>;
}

export interface StoreOptions extends SqliteOptions {
  readonly now: () => Date;
}

/** Opens the store in the file at `path` (or `:memory:`). Creates or migrates it if needed. */
export async function openSqliteStore(path: string, { now, ...options }: StoreOptions): Promise<Store> {
  return openStore(await openSqlite(path, options), now);
}

/** Owns `db` from now on: closes it with the store, or at once if the migration fails. */
export async function openStore(db: SqlDriver, now: () => Date): Promise<Store> {
  try {
    await migrate(db);
  } catch (thrown) {
    await db.close();
    throw thrown;
  }
  return {
    events: createSqlEventStore(db),
    usage: createSqlUsageStore(db, now),
    activation: createSqlActivationStore(db, now),
    actionUse: createSqlActionUseStore(db),
    vectors: createSqlVectorStore(db, now),
    locks: createSqlLockStore(db),
    registry: createSqlRegistryStore(db),
    manifests: createSqlManifestStore(db),
    processes: createSqlProcessStore(db),
    problems: createSqlProblemStore(db),
    approvals: createSqlApprovalStore(db),
    anchors: createSqlAnchorStore(db, now),
    infospace: createSqlInfospaceStore(db, now),
    turns: createSqlTurnStore(db),
    close: db.close,
  };
}
