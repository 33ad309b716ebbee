import type { AuthProvider } from "@modelcontextprotocol/client";
import { QmError } from "../../core/errors.ts";
import type { OAuthSettings } from "../server-spec.ts";
import { needsLogin } from "./failures.ts";
import { oauthFetch } from "./oauth-fetch.ts";
import type {
  Challenge,
  OAuthRecord,
  OAuthRecords,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from "./oauth-records.ts";
import type { Sdk } from "./sdk-client.ts";

/** One server that may want a login, with its settings filled. */
export interface OAuthParty {
  readonly sdk: Sdk;
  readonly server: string;
  readonly url: URL;
  readonly settings: OAuthSettings;
  readonly records: OAuthRecords;
}

export interface StoredLogin extends AuthProvider {
  /** What becomes of a call that was refused for want of a scope. */
  stepUp(thrown: InstanceType<Sdk["InsufficientScopeError"]>): Promise<QmError>;
}

/** How long another process may take to write down the token that it got with the refresh token we had too. */
const OTHERS_TURN_MS = 3000;

/**
 * Logging in as calls do it: with the tokens there are, refreshed without a word, and never with a person. Where those
 * do not do, the call ends with `needs_login`.
 */
export function storedLogin(party: OAuthParty): StoredLogin {
  const { sdk, server, url, records } = party;
  let used: string | undefined;
  let refreshing: Promise<void> | undefined;
  return {
    async token() {
      used = (await records.read(server, url)).tokens?.access_token;
      return used;
    },
    async onUnauthorized({ response }) {
      const { scope, resourceMetadataUrl } = sdk.extractWWWAuthenticateParams(response);
      const challenge = { scope, resourceMetadataUrl: resourceMetadataUrl?.href };
      refreshing ??= renewed(party, used, challenge).finally(() => {
        refreshing = undefined;
      });
      await refreshing;
    },
    async stepUp({ requiredScope, resourceMetadataUrl }) {
      const { tokens, asked } = await records.read(server, url);
      const had = new Set(`${tokens?.scope ?? ""} ${asked ?? ""}`.split(/\s+/));
      const wanted = (requiredScope ?? "").split(/\s+/).filter((scope) => scope !== "");
      if (wanted.every((scope) => had.has(scope)))
        return new QmError(
          "server_failed",
          `server ${server} refuses this for want of a scope that was asked for already`,
          {
            hint: "Logging in again would not help: whoever logged in is not granted it.",
          },
        );
      const challenge = { scope: requiredScope, resourceMetadataUrl: resourceMetadataUrl?.href, stepUp: true };
      await records.change(server, url, (record) => ({ ...record, challenge }));
      return needsLogin(server, "wants somebody to log in and allow more than before");
    },
  };
}

async function renewed(party: OAuthParty, used: string | undefined, challenge: Challenge): Promise<void> {
  const { server, url, records } = party;
  const record = await records.read(server, url);
  if (record.tokens !== undefined && record.tokens.access_token !== used) return;
  const fresh = await refreshed(party, record, challenge);
  if (fresh !== undefined) {
    // Whoever came first has the newer token.
    const keep = ({ tokens }: OAuthRecord) => tokens?.access_token !== used;
    await records.change(server, url, (now) => (keep(now) ? now : { ...now, tokens: fresh, challenge: undefined }));
    return;
  }
  if (used !== undefined && (await refreshedElsewhere(party, used))) return;
  await records.change(server, url, (now) => ({ ...now, challenge }));
  throw needsLogin(server);
}

/** New tokens, or nothing where only a person can get some. Throws where the other side could not be asked. */
async function refreshed(
  { sdk, url, settings }: OAuthParty,
  record: OAuthRecord,
  { resourceMetadataUrl }: Challenge,
): Promise<StoredOAuthTokens | undefined> {
  const { tokens } = record;
  if (tokens?.refresh_token === undefined) return undefined;
  const fetchFn = oauthFetch(url);
  const info = await sdk.discoverOAuthServerInfo(url, {
    ...(resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl: new URL(resourceMetadataUrl) }),
    fetchFn,
  });
  const issuer = info.authorizationServerMetadata?.issuer ?? String(info.authorizationServerUrl);
  const client = clientFor(settings, record, issuer);
  if (tokens.issuer !== issuer || client === undefined) return undefined;
  const resource = info.resourceMetadata?.resource;
  try {
    const fresh = await sdk.refreshAuthorization(info.authorizationServerUrl, {
      ...(info.authorizationServerMetadata === undefined ? {} : { metadata: info.authorizationServerMetadata }),
      clientInformation: client,
      refreshToken: tokens.refresh_token,
      ...(resource === undefined ? {} : { resource: new URL(resource) }),
      fetchFn,
    });
    return { ...fresh, issuer };
  } catch (thrown) {
    if (thrown instanceof sdk.OAuthError && thrown.code !== sdk.OAuthErrorCode.ServerError) return undefined;
    // The body of a token endpoint's answer is not for anybody to read.
    throw new QmError(
      "server_failed",
      "the login could not be renewed: the authorization server did not answer as it should",
      {
        hint: "Try again later.",
      },
    );
  }
}

/** A refresh token is good once: where another process was quicker, its token will be there in a moment. */
async function refreshedElsewhere({ server, url, records }: OAuthParty, used: string): Promise<boolean> {
  for (let waited = 0; waited <= OTHERS_TURN_MS; waited += 250) {
    const { tokens } = await records.read(server, url);
    if (tokens !== undefined && tokens.access_token !== used) return true;
    if (tokens?.refresh_token === undefined) return false;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  return false;
}

/** The client that is configured, or the one that was registered with this issuer. */
export function clientFor(
  { clientId, clientSecret }: OAuthSettings,
  { clients }: OAuthRecord,
  issuer: string,
): StoredOAuthClientInformation | undefined {
  if (clientId === undefined) return clients?.[issuer];
  // A secret that was shown to one issuer is not shown to another, whatever the server says now.
  const known = Object.values(clients ?? {}).find(({ client_id }) => client_id === clientId);
  return {
    client_id: clientId,
    ...(clientSecret === undefined ? {} : { client_secret: clientSecret }),
    issuer: known?.issuer ?? issuer,
  };
}
