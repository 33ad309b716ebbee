import { Mutex } from "../../core/async.ts";
import { isRecord } from "../../core/json.ts";
import type { SecretStore } from "../secret-store.ts";

export interface OAuthChallenge {
  readonly scope?: string | undefined;
  readonly resourceMetadataUrl?: string | undefined;
  /** The server wants `scope` in addition to the granted scopes. */
  readonly stepUp?: boolean | undefined;
}

export interface StoredTokens {
  readonly access_token: string;
  readonly token_type: string;
  readonly refresh_token?: string | undefined;
  readonly scope?: string | undefined;
  readonly issuer?: string | undefined;
}

export interface StoredClient {
  readonly client_id: string;
  readonly client_secret?: string | undefined;
  readonly issuer?: string | undefined;
}

export interface OAuthRecord {
  /** The server's address. Tokens are never sent to another address that gets the same name later. */
  readonly url: string;
  readonly tokens?: StoredTokens | undefined;
  /** Registered clients by issuer. A client is never used with another issuer. */
  readonly clients?: Readonly<Record<string, StoredClient>> | undefined;
  /** The callback URL that registered clients are bound to. */
  readonly redirect?: string | undefined;
  readonly challenge?: OAuthChallenge | undefined;
  readonly asked?: string | undefined;
}

export type OAuthStore = ReturnType<typeof createOAuthStore>;

export function createOAuthStore(secrets: SecretStore) {
  const mutexes = new Map<string, Mutex>();
  const runExclusive = <T>(server: string, work: () => Promise<T>): Promise<T> => {
    const mutex = mutexes.get(server) ?? new Mutex();
    mutexes.set(server, mutex);
    return mutex.run(work);
  };
  /** An unreadable record, or one for another URL, counts as no login. */
  const read = async (server: string, url: URL): Promise<OAuthRecord> => {
    const record = parseRecord(await secrets.get(toSecretName(server)));
    return record?.url === url.href ? record : { url: url.href };
  };
  return {
    read,
    /** Reads the stored record and writes the changed one. This process makes one change at a time. */
    change: (server: string, url: URL, change: (record: OAuthRecord) => OAuthRecord) =>
      runExclusive(server, async () => {
        const changed = change(await read(server, url));
        await secrets.set(toSecretName(server), JSON.stringify(changed));
        return changed;
      }),
    drop: (server: string) => runExclusive(server, async () => void (await secrets.delete(toSecretName(server)))),
  };
}

const toSecretName = (server: string) => `oauth.${server}`;

function parseRecord(text: string | undefined): OAuthRecord | undefined {
  try {
    const record: unknown = JSON.parse(text ?? "null");
    return isRecord(record) && typeof record.url === "string" ? (record as unknown as OAuthRecord) : undefined;
  } catch {
    return undefined;
  }
}
