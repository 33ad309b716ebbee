import { setTimeout as pause } from "node:timers/promises";
import type { AuthProvider, FetchLike } from "@modelcontextprotocol/client";
import { QmError } from "../../core/errors.ts";
import { omitUndefined } from "../../core/json.ts";
import type { OAuthSettings } from "../server-spec.ts";
import { createBoundedFetch } from "./http-transport.ts";
import type { OAuthChallenge, OAuthRecord, OAuthStore } from "./oauth-store.ts";
import type { Sdk } from "./sdk-client.ts";
import { loginRequiredError } from "./server-errors.ts";

const MAX_RESPONSE_BYTES = 1024 * 1024;
const REQUEST_TIMEOUT_MS = 30_000;
const MAX_REDIRECTS = 5;

/**
 * A `fetch` for OAuth requests. A server may name any address as its authorization server, so every request and redirect
 * must use https or go to the server's own origin. The server's configured headers are not sent.
 */
export function createOAuthFetch(server: URL, signal?: AbortSignal): FetchLike {
  const bounded = createBoundedFetch(MAX_RESPONSE_BYTES);
  const requireSecure = (url: URL) => {
    const isNear = url.origin === server.origin || (isLoopback(url) && isLoopback(server));
    if (url.protocol !== "https:" && !isNear)
      throw new QmError("needs_login", `the login would use ${url.origin}, which is not https`);
  };
  return async (target, init) => {
    const signals = [AbortSignal.timeout(REQUEST_TIMEOUT_MS), signal, init?.signal].filter((one) => one != null);
    let url = new URL(target);
    for (let hop = 0; ; hop++) {
      requireSecure(url);
      const response = await bounded(url, { ...init, redirect: "manual", signal: AbortSignal.any(signals) });
      const next = readRedirect(response, url);
      // A POST holds codes and tokens, so it is never redirected.
      if (next === undefined || (init?.method ?? "GET") !== "GET") return response;
      if (hop === MAX_REDIRECTS) throw new QmError("needs_login", `${url.origin} redirects without end`);
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

export interface OAuthContext {
  readonly sdk: Sdk;
  readonly server: string;
  readonly url: URL;
  readonly settings: OAuthSettings;
  readonly records: OAuthStore;
}

interface StoredLogin extends AuthProvider {
  /** The error of a call that was refused for a missing scope. The next login asks for that scope. */
  stepUp(thrown: InstanceType<Sdk["InsufficientScopeError"]>): Promise<QmError>;
}

/** How long another process may take to store the tokens that it got with the same refresh token. */
const OTHER_REFRESH_MS = 3000;

/** Uses and refreshes the stored tokens, without a person. If these are refused, throws `needs_login`. */
export function createStoredLogin(context: OAuthContext): StoredLogin {
  const { sdk, server, url, records } = context;
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
      refreshing ??= renewTokens(context, used, challenge).finally(() => {
        refreshing = undefined;
      });
      await refreshing;
    },
    async stepUp({ requiredScope, resourceMetadataUrl }) {
      const { tokens, asked } = await records.read(server, url);
      const had = new Set(`${tokens?.scope ?? ""} ${asked ?? ""}`.split(/\s+/));
      const wanted = (requiredScope ?? "").split(/\s+/).filter((scope) => scope !== "");
      if (wanted.every((scope) => had.has(scope)))
        return new QmError("server_failed", `server ${server} requires a scope that the last login did not grant`, {
          hint: "Logging in again would not help: the account does not get this scope.",
        });
      const challenge = { scope: requiredScope, resourceMetadataUrl: resourceMetadataUrl?.href, stepUp: true };
      await records.change(server, url, (record) => ({ ...record, challenge }));
      return loginRequiredError(server, "needs a login that grants more scopes");
    },
  };
}

async function renewTokens(context: OAuthContext, used: string | undefined, challenge: OAuthChallenge): Promise<void> {
  const { server, url, records } = context;
  const record = await records.read(server, url);
  if (record.tokens !== undefined && record.tokens.access_token !== used) return;
  const fresh = await refreshTokens(context, record, challenge);
  if (fresh !== undefined) {
    // Another process may have stored newer tokens meanwhile.
    await records.change(server, url, (now) =>
      now.tokens?.access_token === used ? { ...now, tokens: fresh, challenge: undefined } : now,
    );
    return;
  }
  if (used !== undefined && (await waitForOtherRefresh(context, used))) return;
  await records.change(server, url, (now) => ({ ...now, challenge }));
  throw loginRequiredError(server);
}

/** Undefined if a person has to log in. Throws if the authorization server cannot be reached. */
async function refreshTokens(context: OAuthContext, record: OAuthRecord, challenge: OAuthChallenge) {
  const { sdk, url, settings } = context;
  const { tokens } = record;
  if (tokens?.refresh_token === undefined) return undefined;
  const fetchFn = createOAuthFetch(url);
  const address = challenge.resourceMetadataUrl;
  const resourceMetadataUrl = address === undefined ? undefined : new URL(address);
  const info = await sdk.discoverOAuthServerInfo(url, { ...omitUndefined({ resourceMetadataUrl }), fetchFn });
  const metadata = info.authorizationServerMetadata;
  const issuer = metadata?.issuer ?? String(info.authorizationServerUrl);
  const client = findOAuthClient(settings, record, issuer);
  if (tokens.issuer !== issuer || client === undefined) return undefined;
  const resource = info.resourceMetadata?.resource;
  try {
    const fresh = await sdk.refreshAuthorization(info.authorizationServerUrl, {
      clientInformation: client,
      refreshToken: tokens.refresh_token,
      ...omitUndefined({ metadata, resource: resource === undefined ? undefined : new URL(resource) }),
      fetchFn,
    });
    return { ...fresh, issuer };
  } catch (thrown) {
    if (thrown instanceof sdk.OAuthError && thrown.code !== sdk.OAuthErrorCode.ServerError) return undefined;
    // The response of a token endpoint may hold tokens, so it is not shown.
    const message = "the login could not be renewed: the authorization server gave an invalid response";
    throw new QmError("server_failed", message, { hint: "Try again later." });
  }
}

/** A refresh token works once. If another process used it first, its new tokens are stored soon. */
async function waitForOtherRefresh({ server, url, records }: OAuthContext, used: string): Promise<boolean> {
  for (let waited = 0; waited <= OTHER_REFRESH_MS; waited += 250) {
    const { tokens } = await records.read(server, url);
    if (tokens !== undefined && tokens.access_token !== used) return true;
    if (tokens?.refresh_token === undefined) return false;
    await pause(250);
  }
  return false;
}

export function findOAuthClient({ clientId, clientSecret }: OAuthSettings, { clients }: OAuthRecord, issuer: string) {
  if (clientId === undefined) return clients?.[issuer];
  // A client secret used with one issuer is never sent to another, even if the server names one.
  const known = Object.values(clients ?? {}).find(({ client_id }) => client_id === clientId);
  return { client_id: clientId, ...omitUndefined({ client_secret: clientSecret }), issuer: known?.issuer ?? issuer };
}
