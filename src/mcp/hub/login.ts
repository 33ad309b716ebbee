import { randomBytes } from "node:crypto";
import type { OAuthClientProvider, OAuthDiscoveryState } from "@modelcontextprotocol/client";
import { raceAbort } from "../../core/async.ts";
import { toOneLine } from "../../core/display-text.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { clip, omitUndefined } from "../../core/json.ts";
import { listenForCallback } from "./login-callback.ts";
import type { OAuthChallenge } from "./oauth-store.ts";
import type { ValueRedactor } from "./redact-values.ts";
import { createOAuthFetch, findOAuthClient, type OAuthContext } from "./stored-login.ts";

interface LoginOptions extends OAuthContext {
  readonly clientName: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly hide: ValueRedactor;
  readonly show: (url: URL) => void | Promise<void>;
  readonly signal: AbortSignal | undefined;
}

/** Logs in with an authorization code and PKCE. Existing tokens are replaced only after success. */
export async function performLogin(options: LoginOptions): Promise<void> {
  const { sdk, server, url, settings, records, signal } = options;
  signal?.throwIfAborted();
  const record = await records.read(server, url);
  const state = randomBytes(32).toString("base64url");
  const callback = await listenForCallback({
    state,
    port: settings.callbackPort,
    // A preregistered client is bound to an address that is known in advance.
    path: settings.clientId !== undefined || settings.clientMetadataUrl !== undefined ? "/callback" : undefined,
    lastUrl: record.redirect,
  });
  try {
    if (callback.url.href !== record.redirect)
      await records.change(server, url, (now) => ({ ...now, clients: undefined, redirect: callback.url.href }));
    const challenge = record.challenge ?? (await fetchChallenge(options));
    const scope = chooseScope(options, record.tokens?.scope ?? record.asked, challenge);
    const { provider, getAuthorizationUrl } = createLoginProvider(options, callback.url, state);
    const metadataUrl = challenge.resourceMetadataUrl;
    const fetchFn = createOAuthFetch(url, signal);
    await sdk.auth(provider, {
      serverUrl: url,
      ...omitUndefined({ resourceMetadataUrl: metadataUrl === undefined ? undefined : new URL(metadataUrl), scope }),
      forceReauthorization: true,
      fetchFn,
    });
    const page = getAuthorizationUrl();
    if (page === undefined || !/^https?:$/.test(page.protocol))
      throw new QmError("needs_login", `server ${server} names no http or https page to log in at`);
    await options.show(page);
    const answer = await raceAbort(callback.answer, signal);
    await new sdk.StreamableHTTPClientTransport(url, { authProvider: provider, fetch: fetchFn }).finishAuth(answer);
    const asked = page.searchParams.get("scope") ?? undefined;
    await records.change(server, url, (now) => ({ ...now, challenge: undefined, asked }));
  } catch (thrown) {
    throw toLoginError(options, thrown);
  } finally {
    await callback.close();
  }
}

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

/** Undefined: the server's metadata decides. */
function chooseScope({ sdk, settings }: LoginOptions, granted: string | undefined, { scope, stepUp }: OAuthChallenge) {
  const configured = settings.scopes?.join(" ");
  return stepUp === true ? sdk.computeScopeUnion(configured, granted, scope) : (configured ?? scope);
}

function createLoginProvider(options: LoginOptions, redirectUrl: URL, state: string) {
  const { server, url, settings, records, clientName } = options;
  const { clientId, clientMetadataUrl } = settings;
  let authorizationUrl: URL | undefined;
  let verifier = "";
  let discovery: OAuthDiscoveryState | undefined;
  const provider: OAuthClientProvider = {
    redirectUrl,
    ...omitUndefined({ clientMetadataUrl }),
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
    // Existing tokens are not used: another person may be logging in.
    tokens: () => undefined,
    async saveTokens(tokens, context) {
      const issuer = context?.issuer;
      await records.change(server, url, (record) => ({
        ...record,
        tokens: { ...tokens, ...omitUndefined({ issuer }) },
        ...(clientId === undefined || issuer === undefined
          ? {}
          : { clients: { ...record.clients, [issuer]: { client_id: clientId, issuer } } }),
      }));
    },
    redirectToAuthorization(to) {
      authorizationUrl = to;
    },
    saveCodeVerifier(code) {
      verifier = code;
    },
    codeVerifier: () => verifier,
    saveDiscoveryState(found) {
      discovery = found;
    },
    discoveryState: () => discovery,
    async invalidateCredentials(what) {
      if (what === "client" || what === "all")
        await records.change(server, url, (record) => ({ ...record, clients: undefined }));
      if (what === "discovery" || what === "all") discovery = undefined;
    },
  };
  if (clientId === undefined)
    provider.saveClientInformation = async (client, context) => {
      if (context === undefined) return;
      const { issuer } = context;
      await records.change(server, url, (record) => ({ ...record, clients: { ...record.clients, [issuer]: client } }));
    };
  return { provider, getAuthorizationUrl: () => authorizationUrl };
}

function toLoginError({ sdk, server, signal, hide }: LoginOptions, thrown: unknown): QmError {
  if (thrown instanceof QmError) return thrown;
  if (signal?.aborted) return new QmError("cancelled", `the login to ${server} was cancelled`);
  // The SDK's messages may quote the whole response of an authorization server, including tokens.
  const text = hide(getErrorMessage(thrown));
  const isOurs = thrown instanceof sdk.OAuthClientFlowError || thrown instanceof TypeError;
  let why = isOurs ? clip(text, 300) : clip(text.split(/[{]/)[0] ?? "", 200);
  if (thrown instanceof sdk.OAuthError) why = clip(`${thrown.code}: ${text.split(/[:{]/)[0] ?? ""}`, 200);
  const hint = "Try again. If the server expects a registered client, set `oauth.client_id`.";
  return new QmError("needs_login", `the login to ${server} failed: ${toOneLine(why)}`, { hint });
}
