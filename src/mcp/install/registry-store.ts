import type { JsonObject } from "../../core/json.ts";

/** What the copy of a registry keeps of one server: its latest version. */
export interface StoredServer {
  readonly name: string;
  readonly version: string;
  /** `active`, `deprecated`, or whatever else the registry says. Deleted ones are not kept. */
  readonly status: string;
  readonly title: string;
  readonly description: string;
  /** The registry's answer for it, as it came. */
  readonly entry: JsonObject;
}

/** What searching reads. */
export type StoredServerSummary = Omit<StoredServer, "entry">;

/** How far a copy has come. */
export interface RegistrySyncState {
  /** When the copy was last complete. Absent: never yet. */
  readonly syncedAt?: Date;
  /** When everything was last asked for, and not only what had changed. */
  readonly fullAt?: Date;
  /** What a later sync asks the registry for: everything that changed from then on, by the registry's clock. */
  readonly updatedSince?: string;
  /** Where a first sync that was broken off goes on. */
  readonly cursor?: string;
}

/** One page of a registry, as it is kept. */
export interface RegistryUpdate {
  readonly seenAt: Date;
  readonly servers: readonly StoredServer[];
  /** Names that are to be forgotten. */
  readonly gone: readonly string[];
  readonly mark: RegistrySyncState;
  /** Forget whatever was not seen since: everything was asked for, and this is the last page. */
  readonly forgetBefore?: Date;
}

/** Where the copies of registries outlive the process, by the registry's URL. Several processes may share it. */
export interface RegistryStore {
  getSyncState(registry: string): Promise<RegistrySyncState | undefined>;
  listServers(registry: string): Promise<readonly StoredServerSummary[]>;
  find(registry: string, name: string): Promise<StoredServer | undefined>;
  /** Takes in a page in one step. */
  write(registry: string, page: RegistryUpdate): Promise<void>;
}
