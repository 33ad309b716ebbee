import { randomBytes } from "node:crypto";
import type { OAuthClientProvider } from "@modelcontextprotocol/client";
import { toOneLine } from "../../core/display-text.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { clip } from "../../core/json.ts";
import { listenForCallback } from "./login-callback.ts";
import type { OAuthChallenge, OAuthDiscoveryState } from "./oauth-store.ts";
import type { ValueRedactor } from "./redact-values.ts";
import { createOAuthFetch, findOAuthClient, type OAuthContext } from "./stored-login.ts";

interface LoginOptions extends OAuthContext {
  readonly clientName: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly hide: ValueRedactor;
  readonly show: (url: URL) => void | Promise<void>;
  readonly signal: AbortSignal | undefined;
}

/**
 * Logs in with an authorization code and PKCE: the browser goes to the URL that is shown, and comes back to a listener
 * on this machine. What was granted before is replaced only when this has succeeded.
 */
export async function performLogin(options: LoginOptions): Promise<void> {
  const { sdk, server, url, settings, records, signal } = options;
  signal?.throwIfAborted();
  const record = await records.read(server, url);
  const state = randomBytes(32).toString("base64url");
  const callback = await listenForCallback({
    state,
    port: settings.callbackPort,
    // Clients that are known beforehand are bound to an address that can be known beforehand.
    path: settings.clientId !== undefined || settings.clientMetadataUrl !== undefined ? "/callback" : undefined,
    before: record.redirect,
  });
  try {
    if (callback.url.href !== record.redirect)
      await records.change(server, url, (now) => ({ ...now, clients: undefined, redirect: callback.url.href }));
    const challenge = record.challenge ?? (await fetchChallenge(options));
    const scope = chooseScope(options, record.tokens?.scope ?? record.asked, challenge);
    const { provider, authorizationUrl } = createLoginProvider(options, callback.url, state);
    await sdk.auth(provider, {
      serverUrl: url,
      ...(challenge.resourceMetadataUrl === undefined
        ? {}
        : { resourceMetadataUrl: new URL(challenge.resourceMetadataUrl) }),
      ...(scope === undefined ? {} : { scope }),
      forceReauthorization: true,
      fetchFn: createOAuthFetch(url, signal),
    });
    const shown = authorizationUrl();
    if (shown === undefined || !/^https?:$/.test(shown.protocol))
      throw new QmError("needs_login", `server ${server} names no http or https page to log in at`);
    await options.show(shown);
    const answer = await callback.answer(signal);
    await new sdk.StreamableHTTPClientTransport(url, {
      authProvider: provider,
      fetch: createOAuthFetch(url, signal),
    }).finishAuth(answer);
    await records.change(server, url, (now) => ({
      ...now,
      challenge: undefined,
      asked: shown.searchParams.get("scope") ?? undefined,
    }));
  } catch (thrown) {
    throw toLoginError(options, thrown);
  } finally {
    await callback.close();
  }
}

/** What the server says to somebody who has not logged in. */
async function fetchChallenge({ sdk, url, headers, signal }: LoginOptions): Promise<OAuthChallenge> {
  const response = await fetch(url, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json", accept: "application/json, text/event-stream" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }),
    redirect: "manual",
    signal: signal ?? null,
  });
  await response.body?.cancel();
  if (response.status !== 401) return {};
  const { scope, resourceMetadataUrl } = sdk.extractWWWAuthenticateParams(response);
  return { scope, resourceMetadataUrl: resourceMetadataUrl?.href };
}

/** What is configured, and what is wanted beyond it; nothing means that the server's metadata decides. */
function chooseScope(
  { sdk, settings: { scopes } }: LoginOptions,
  granted: string | undefined,
  { scope, stepUp }: OAuthChallenge,
): string | undefined {
  const configured = scopes?.join(" ");
  if (stepUp === true) return sdk.computeScopeUnion(configured, granted, scope);
  return configured ?? scope;
}

function createLoginProvider(
  { server, url, settings, records, clientName }: LoginOptions,
  redirectUrl: URL,
  state: string,
): { readonly provider: OAuthClientProvider; readonly authorizationUrl: () => URL | undefined } {
  let authorizationUrl: URL | undefined;
  let verifier = "";
  let discovery: OAuthDiscoveryState | undefined;
  const provider: OAuthClientProvider = {
    redirectUrl,
    ...(settings.clientMetadataUrl === undefined ? {} : { clientMetadataUrl: settings.clientMetadataUrl }),
    clientMetadata: {
      client_name: clientName,
      redirect_uris: [redirectUrl.href],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      application_type: "native",
    },
    state: () => state,
    clientInformation: async (context) =>
      context === undefined ? undefined : findOAuthClient(settings, await records.read(server, url), context.issuer),
    // Nothing to fall back on: another person may be logging in this time.
    tokens: () => undefined,
    saveTokens: async (tokens, context) => {
      const issuer = context?.issuer;
      await records.change(server, url, (record) => ({
        ...record,
        tokens: { ...tokens, ...(issuer === undefined ? {} : { issuer }) },
        ...(settings.clientId === undefined || issuer === undefined
          ? {}
          : { clients: { ...record.clients, [issuer]: { client_id: settings.clientId, issuer } } }),
      }));
    },
    redirectToAuthorization: (to) => {
      authorizationUrl = to;
    },
    saveCodeVerifier: (code) => {
      verifier = code;
    },
    codeVerifier: () => verifier,
    saveDiscoveryState: (state) => {
      discovery = state;
    },
    discoveryState: () => discovery,
    invalidateCredentials: async (what) => {
      if (what === "client" || what === "all")
        await records.change(server, url, (record) => ({ ...record, clients: undefined }));
      if (what === "discovery" || what === "all") discovery = undefined;
    },
  };
  if (settings.clientId === undefined)
    provider.saveClientInformation = async (client, context) => {
      if (context === undefined) return;
      await records.change(server, url, (record) => ({
        ...record,
        clients: { ...record.clients, [context.issuer]: client },
      }));
    };
  return { provider, authorizationUrl: () => authorizationUrl };
}

function toLoginError({ sdk, server, signal, hide }: LoginOptions, thrown: unknown): QmError {
  if (thrown instanceof QmError) return thrown;
  if (signal?.aborted) return new QmError("cancelled", `logging in to ${server} was given up`);
  // The SDK's own sentences may quote the whole answer of an authorization server, tokens and all.
  const said = hide(getErrorMessage(thrown));
  const why =
    thrown instanceof sdk.OAuthError
      ? toOneLine(clip(`${thrown.code}: ${said.split(/[:{]/)[0] ?? ""}`, 200))
      : thrown instanceof sdk.OAuthClientFlowError || thrown instanceof TypeError
        ? toOneLine(clip(said, 300))
        : toOneLine(clip(said.split(/[{]/)[0] ?? "", 200));
  return new QmError("needs_login", `logging in to ${server} failed: ${why}`, {
    hint: "Try again; if the server knows this client by an id, set `oauth.client_id`.",
  });
}
