import type {
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from "@modelcontextprotocol/client";
import { isRecord } from "../../core/json.ts";
import type { SecretStore } from "../secret-store.ts";

/** What a server wants before it answers, as it said itself. */
export interface OAuthChallenge {
  readonly scope?: string | undefined;
  readonly resourceMetadataUrl?: string | undefined;
  /** More than what was granted is wanted, beside that. */
  readonly stepUp?: boolean | undefined;
}

/** What is kept of a login. */
export interface OAuthRecord {
  /** The server it is for: a token is never sent to another address that goes by the same name later. */
  readonly url: string;
  readonly tokens?: StoredOAuthTokens | undefined;
  /** The clients that were registered, by issuer: one issuer's are never shown to another. */
  readonly clients?: Readonly<Record<string, StoredOAuthClientInformation>> | undefined;
  /** Where the browser came back to; registered clients are bound to it. */
  readonly redirect?: string | undefined;
  readonly challenge?: OAuthChallenge | undefined;
  /** The scope that was asked for last. */
  readonly asked?: string | undefined;
}

export type { OAuthDiscoveryState, StoredOAuthClientInformation, StoredOAuthTokens };

export interface OAuthStore {
  read(server: string, url: URL): Promise<OAuthRecord>;
  /** Reads what is there now, whoever wrote it, and writes what becomes of it. One change at a time in this process. */
  change(server: string, url: URL, change: (record: OAuthRecord) => OAuthRecord): Promise<OAuthRecord>;
  drop(server: string): Promise<void>;
}

export function createOAuthStore(secrets: SecretStore): OAuthStore {
  const turns = new Map<string, Promise<unknown>>();
  const runExclusive = <T>(server: string, work: () => Promise<T>): Promise<T> => {
    const turn = (turns.get(server) ?? Promise.resolve()).then(work, work);
    turns.set(server, turn);
    return turn;
  };
  const read = async (server: string, url: URL): Promise<OAuthRecord> => {
    const record = parseRecord(await secrets.get(toSecretName(server)));
    return record?.url === url.href ? record : { url: url.href };
  };
  return {
    read,
    change: (server, url, change) =>
      runExclusive(server, async () => {
        const changed = change(await read(server, url));
        await secrets.set(toSecretName(server), JSON.stringify(changed));
        return changed;
      }),
    drop: (server) => runExclusive(server, async () => void (await secrets.delete(toSecretName(server)))),
  };
}

const toSecretName = (server: string) => `oauth.${server}`;

/** What cannot be read is as if nobody had logged in. */
function parseRecord(text: string | undefined): OAuthRecord | undefined {
  if (text === undefined) return undefined;
  try {
    const record: unknown = JSON.parse(text);
    return isRecord(record) && typeof record.url === "string" ? (record as unknown as OAuthRecord) : undefined;
  } catch {
    return undefined;
  }
}
