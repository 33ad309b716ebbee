import type { CallProcess } from "../ledger/event-store.ts";
import { createSqlActionUseStore, createSqlActivationStore } from "./activation.ts";
import { createSqlAnchorStore } from "./anchors.ts";
import { createSqlApprovalStore } from "./approvals.ts";
import { openSqlite, type SqliteOptions } from "./drivers/sqlite.ts";
import { createSqlEventStore } from "./events.ts";
import { createSqlInfospaceStore } from "./infospace.ts";
import { createSqlMemoryStore } from "./memory.ts";
import { createSqlMethodRunStore } from "./method-runs.ts";
import { migrate } from "./migrations.ts";
import { createSqlPeerTaskStore } from "./peer-tasks.ts";
import { createSqlRagStore } from "./rag.ts";
import { createSqlRegistryStore } from "./server-registry.ts";
import { createSqlManifestStore, createSqlProblemStore, createSqlProcessStore } from "./servers.ts";
import { createSqlSessionStore } from "./sessions.ts";
import { createSqlSkillPinStore } from "./skill-pins.ts";
import type { SqlDriver } from "./sql.ts";
import { createSqlTurnStore } from "./suspended-turns.ts";
import { createSqlUsageStore } from "./usage.ts";
import { createSqlLockStore, createSqlVectorStore } from "./vectors.ts";

/** Everything that is stored, in one database. */
export type Store = Readonly<Awaited<ReturnType<typeof openStore>>>;

export interface StoreOptions extends SqliteOptions {
  readonly now: () => Date;
  /** This process, if it runs calls. */
  readonly self?: CallProcess;
}

/** Opens the store in the file at `path` (or `:memory:`). Creates or migrates it if needed. */
export const openSqliteStore = async (path: string, { now, self, ...options }: StoreOptions): Promise<Store> =>
  openStore(await openSqlite(path, options), now, self);

/** Owns `db` from now on: closes it with the store, or at once if the migration fails. */
export async function openStore(db: SqlDriver, now: () => Date, self?: CallProcess) {
  await migrate(db).catch(async (thrown) => {
    await db.close();
    throw thrown;
  });
  return {
    events: createSqlEventStore(db, self),
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
    sessions: createSqlSessionStore(db),
    skillPins: createSqlSkillPinStore(db),
    memory: createSqlMemoryStore(db),
    methodRuns: createSqlMethodRunStore(db),
    peerTasks: createSqlPeerTaskStore(db),
    rag: createSqlRagStore(db, now),
    close: db.close,
  };
}
