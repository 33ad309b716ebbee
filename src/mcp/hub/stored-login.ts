import type { AuthProvider, FetchLike } from "@modelcontextprotocol/client";
import { QmError } from "../../core/errors.ts";
import type { OAuthSettings } from "../server-spec.ts";
import { createBoundedFetch } from "./http-transport.ts";
import type {
  OAuthChallenge,
  OAuthRecord,
  OAuthStore,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from "./oauth-store.ts";
import type { Sdk } from "./sdk-client.ts";
import { loginRequiredError } from "./server-errors.ts";

/** What an authorization server says is short, and comes soon. */
const MAX_RESPONSE_BYTES = 1024 * 1024;
const REQUEST_TIMEOUT_MS = 30_000;
const MAX_REDIRECTS = 5;

/**
 * Requests on the way to a login. A server may name any address as its authorization server: only https is asked, or
 * what is where the server itself is, and the same holds wherever an answer leads. Nothing that is configured for the server is sent along.
 */
export function createOAuthFetch(server: URL, signal?: AbortSignal): FetchLike {
  const bounded = createBoundedFetch(MAX_RESPONSE_BYTES);
  const requireSecure = (url: URL) => {
    const isNear = url.origin === server.origin || (isLoopback(url) && isLoopback(server));
    if (url.protocol !== "https:" && !isNear)
      throw new QmError("needs_login", `logging in would go over ${url.origin}, which is not https`);
  };
  return async (target, init) => {
    const signals = [AbortSignal.timeout(REQUEST_TIMEOUT_MS), signal, init?.signal].filter((one) => one != null);
    let url = new URL(target);
    for (let hop = 0; ; hop++) {
      requireSecure(url);
      const response = await bounded(url, { ...init, redirect: "manual", signal: AbortSignal.any(signals) });
      const next = readRedirect(response, url);
      // What is posted holds codes and tokens: it goes where it was to go, or nowhere.
      if (next === undefined || (init?.method ?? "GET") !== "GET") return response;
      if (hop === MAX_REDIRECTS)
        throw new QmError("needs_login", `${url.origin} leads from one address to another without end`);
      await response.body?.cancel();
      url = next;
    }
  };
}

function readRedirect({ status, headers }: Response, from: URL): URL | undefined {
  const location = [301, 302, 303, 307, 308].includes(status) ? headers.get("location") : null;
  return location !== null && URL.canParse(location, from.href) ? new URL(location, from) : undefined;
}

function isLoopback({ hostname }: URL): boolean {
  return /^(?:localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\])$/.test(hostname);
}

/** One server that may want a login, with its settings filled. */
export interface OAuthContext {
  readonly sdk: Sdk;
  readonly server: string;
  readonly url: URL;
  readonly settings: OAuthSettings;
  readonly records: OAuthStore;
}

interface StoredLogin extends AuthProvider {
  /** What becomes of a call that was refused for want of a scope. */
  stepUp(thrown: InstanceType<Sdk["InsufficientScopeError"]>): Promise<QmError>;
}

/** How long another process may take to write down the token that it got with the refresh token we had too. */
const OTHER_REFRESH_MS = 3000;

/**
 * Logging in as calls do it: with the tokens there are, refreshed without a word, and never with a person. Where those
 * do not do, the call ends with `needs_login`.
 */
export function createStoredLogin(party: OAuthContext): StoredLogin {
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
      refreshing ??= renewTokens(party, used, challenge).finally(() => {
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
      return loginRequiredError(server, "wants somebody to log in and allow more than before");
    },
  };
}

async function renewTokens(party: OAuthContext, used: string | undefined, challenge: OAuthChallenge): Promise<void> {
  const { server, url, records } = party;
  const record = await records.read(server, url);
  if (record.tokens !== undefined && record.tokens.access_token !== used) return;
  const fresh = await refreshTokens(party, record, challenge);
  if (fresh !== undefined) {
    // Whoever came first has the newer token.
    const isRenewed = ({ tokens }: OAuthRecord) => tokens?.access_token !== used;
    await records.change(server, url, (now) =>
      isRenewed(now) ? now : { ...now, tokens: fresh, challenge: undefined },
    );
    return;
  }
  if (used !== undefined && (await waitForOtherRefresh(party, used))) return;
  await records.change(server, url, (now) => ({ ...now, challenge }));
  throw loginRequiredError(server);
}

/** New tokens, or nothing where only a person can get some. Throws where the other side could not be asked. */
async function refreshTokens(
  { sdk, url, settings }: OAuthContext,
  record: OAuthRecord,
  { resourceMetadataUrl }: OAuthChallenge,
): Promise<StoredOAuthTokens | undefined> {
  const { tokens } = record;
  if (tokens?.refresh_token === undefined) return undefined;
  const fetchFn = createOAuthFetch(url);
  const info = await sdk.discoverOAuthServerInfo(url, {
    ...(resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl: new URL(resourceMetadataUrl) }),
    fetchFn,
  });
  const issuer = info.authorizationServerMetadata?.issuer ?? String(info.authorizationServerUrl);
  const client = findOAuthClient(settings, record, issuer);
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
async function waitForOtherRefresh({ server, url, records }: OAuthContext, used: string): Promise<boolean> {
  for (let waited = 0; waited <= OTHER_REFRESH_MS; waited += 250) {
    const { tokens } = await records.read(server, url);
    if (tokens !== undefined && tokens.access_token !== used) return true;
    if (tokens?.refresh_token === undefined) return false;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  return false;
}

/** The client that is configured, or the one that was registered with this issuer. */
export function findOAuthClient(
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
