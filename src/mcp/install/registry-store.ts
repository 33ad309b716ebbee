import type { JsonObject } from "../../core/json.ts";

/** The latest version of a server, as stored in the local copy. */
export interface StoredServer {
  readonly name: string;
  readonly version: string;
  /** `active`, `deprecated` or another status of the registry. Deleted servers are not stored. */
  readonly status: string;
  readonly title: string;
  readonly description: string;
  /** The unchanged response of the registry. */
  readonly entry: JsonObject;
}

export type StoredServerSummary = Omit<StoredServer, "entry">;

/** The progress of a copy. */
export interface RegistrySyncState {
  /** When the copy was last complete. */
  readonly syncedAt?: Date;
  /** When the last full sync ran. */
  readonly fullAt?: Date;
  /** The registry's time from which the next sync asks for changes. */
  readonly updatedSince?: string;
  /** The cursor of an interrupted first sync. */
  readonly cursor?: string;
}

export interface RegistryUpdate {
  readonly seenAt: Date;
  readonly servers: readonly StoredServer[];
  /** Names to delete. */
  readonly gone: readonly string[];
  readonly mark: RegistrySyncState;
  /** Delete everything not seen since this time. Set on the last page of a full sync. */
  readonly forgetBefore?: Date;
}

/** Stores copies of registries by URL. Several processes may share it. */
export interface RegistryStore {
  getSyncState(registry: string): Promise<RegistrySyncState | undefined>;
  listServers(registry: string): Promise<readonly StoredServerSummary[]>;
  find(registry: string, name: string): Promise<StoredServer | undefined>;
  /** Stores a page in one transaction. */
  write(registry: string, page: RegistryUpdate): Promise<void>;
}
