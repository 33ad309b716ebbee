import type { Offer, OfferedTool } from "./offer.ts";

/** What a server offered, as it is kept: search and description read this, and no process is started for them. */
export interface Manifest {
  readonly server: string;
  /** `fingerprintOf` the spec it was learned from. */
  readonly fingerprint: string;
  readonly offer: Offer;
  readonly learnedAt: Date;
}

/** - `accepted`: it may be used. - `withheld`: a person must look at it first. */
export type PinState = "accepted" | "withheld";

/** One tool's definition that was seen, and what became of it. */
export interface Pin {
  readonly server: string;
  readonly tool: string;
  /** Of the definition, as `definitionHash` makes it. */
  readonly hash: string;
  readonly definition: OfferedTool;
  readonly state: PinState;
  /** Why it is withheld: `changed`, `new`, or the signs of poisoning that were found. */
  readonly reasons: readonly string[];
  readonly seenAt: Date;
  /** Who accepted it; absent where it was accepted by being there first. */
  readonly by?: string;
}

/** Where manifests and pins outlive the process. Several processes may share it. */
export interface ManifestStore {
  manifests(): Promise<readonly Manifest[]>;
  putManifest(manifest: Manifest): Promise<void>;
  /** All of a server, accepted ones and withheld ones. A tool may have one of each. */
  pins(): Promise<readonly Pin[]>;
  /**
   * Adds what was seen in one step: two processes that see a server for the first time must not both be first. A pin that
   * is there (same server, tool, hash) stays as it is, so that nobody undoes a person's decision. Answers all of the
   * server's pins as they are then.
   */
  addPins(server: string, seen: readonly Pin[]): Promise<readonly Pin[]>;
  /** Makes the withheld definition with that hash the accepted one; whatever was accepted before is removed. */
  acceptPin(server: string, tool: string, hash: string, by: string): Promise<boolean>;
  /** Removes a withheld definition without accepting it. */
  dropPin(server: string, tool: string, hash: string): Promise<boolean>;
  /** Forgets everything of a server. */
  forget(server: string): Promise<void>;
}
