import { randomUUID } from "node:crypto";
import { defineAction, type Provider } from "../../catalog/define-action.ts";
import type { Action, Effect } from "../../core/action.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { type JsonObject, omitUndefined } from "../../core/json.ts";
import { quoteName, SEPARATOR } from "../../core/names.ts";
import { authorize, type ReadCredential } from "./authorize.ts";
import { buildRequest } from "./build-request.ts";
import { type ApiOperation, type CompiledApi, parseCompiledApi } from "./compiled-api.ts";
import { readApiResponse } from "./read-response.ts";
import type { ApiResponse, SendRequest } from "./send-request.ts";

const RESPONSE_BYTES = 8 * 1024 * 1024;
const REDIRECT_LIMIT = 3;

export interface OperationOverride {
  readonly enabled?: boolean;
  readonly effect?: Effect;
  readonly approval?: boolean;
  readonly tags?: readonly string[];
}

export interface ApiSettings {
  readonly name: string;
  /** The pinned address. Credentials go nowhere else. */
  readonly server: string;
  /** Further addresses that operations of the document name. An operation with another one is left out. */
  readonly otherServers: readonly string[];
  readonly operations: Readonly<Record<string, OperationOverride>>;
  readonly timeoutMs: number;
  readonly readCredential: ReadCredential;
  /** The compiled file. Rejects if it is missing or was changed. */
  readonly load: () => Promise<string>;
}

export interface ApiProviderOptions {
  readonly apis: readonly ApiSettings[];
  readonly send: SendRequest;
  readonly onProblem: (problem: string) => void;
}

/** The operations of imported APIs. An API whose compiled file cannot be used is left out and reported. */
export function apiProvider({ apis, send, onProblem }: ApiProviderOptions): Provider {
  async function listActions(settings: ApiSettings): Promise<readonly Action[]> {
    try {
      const api = parseCompiledApi(await settings.load());
      return api.operations.flatMap((operation) => createOperationAction(settings, api, operation, send) ?? []);
    } catch (thrown) {
      onProblem(`the API ${settings.name} is left out: ${getErrorMessage(thrown)}`);
      return [];
    }
  }
  return {
    category: "api",
    capability: "Call the operations of web APIs.",
    list: async () => (await Promise.all(apis.map(listActions))).flat(),
  };
}

function createOperationAction(
  settings: ApiSettings,
  api: CompiledApi,
  operation: ApiOperation,
  send: SendRequest,
): Action | undefined {
  const { name, otherServers, operations, timeoutMs } = settings;
  const override = Object.hasOwn(operations, operation.entry) ? operations[operation.entry] : undefined;
  const server = operation.server ?? settings.server;
  if (override?.enabled === false || (server !== settings.server && !otherServers.includes(server))) return undefined;
  const { method } = operation;
  const isRead = method === "GET" || method === "HEAD" || method === "OPTIONS";
  const login = () => findLoginProblem(settings, api, operation);
  return defineAction("api", {
    entry: `${name}${SEPARATOR}${operation.entry}`,
    description: operation.description,
    effect: override?.effect ?? (isRead ? "read" : "external"),
    idempotent: isRead || method === "PUT" || method === "DELETE",
    tags: [
      ...new Set([
        ...operation.tags,
        `api:${name}`,
        ...(method === "DELETE" ? ["destructive"] : []),
        ...(override?.tags ?? []),
      ]),
    ],
    source: `api:${name}`,
    input: operation.schema,
    examples: operation.example === undefined ? [] : [{ args: operation.example }],
    timeoutMs,
    ...omitUndefined({ requiresApproval: override?.approval }),
    readiness: () => (login() === undefined ? "ready" : "needs_login"),
    readinessReason: login,
    run: (args, { signal }) => callOperation({ ...settings, server }, api, operation, args, send, signal),
  });
}

function findLoginProblem(
  { name, readCredential }: ApiSettings,
  api: CompiledApi,
  operation: ApiOperation,
): string | undefined {
  try {
    authorize(name, api, operation, readCredential);
    return undefined;
  } catch (thrown) {
    return getErrorMessage(thrown);
  }
}

async function callOperation(
  { name, server, timeoutMs, readCredential }: ApiSettings,
  api: CompiledApi,
  operation: ApiOperation,
  args: JsonObject,
  send: SendRequest,
  signal: AbortSignal,
): Promise<unknown> {
  const credentials = authorize(name, api, operation, readCredential);
  const built = buildRequest(operation, server, args, credentials, `qm-${randomUUID()}`);
  const limits = { maxBytes: RESPONSE_BYTES, maxRedirects: 0, timeoutMs, signal };
  let response = await send({ ...built, ...limits });
  for (let count = 0; isRedirect(response); count++) {
    const url = resolveRedirect(response, server);
    const isFollowed = url !== undefined && count < REDIRECT_LIMIT && /^(?:GET|HEAD)$/.test(built.method);
    if (!isFollowed && operation.redirects === true) break;
    if (!isFollowed) throw createRedirectError(name, response);
    response = await send({ ...built, url, ...limits });
  }
  return readApiResponse(response, { api: name, operation, server, args, credentials });
}

const isRedirect = ({ status, headers }: ApiResponse) =>
  [301, 302, 303, 307, 308].includes(status) && headers.location !== undefined;

/** Credentials must not leave the pinned address. Undefined: the redirect would. */
function resolveRedirect({ url, headers }: ApiResponse, server: string): string | undefined {
  const target = headers.location ?? "";
  const to = URL.canParse(target, url) ? new URL(target, url) : undefined;
  const base = new URL(server);
  const folder = `${base.pathname.replace(/\/+$/, "")}/`;
  return to?.origin === base.origin && to.pathname.startsWith(folder) ? to.href : undefined;
}

function createRedirectError(api: string, { url, headers }: ApiResponse): QmError {
  const target = headers.location ?? "";
  // The query may hold what only the other server should know.
  const where = URL.canParse(target, url) ? new URL(target, url).origin : "another address";
  return new QmError("action_failed", `${api} redirects to ${quoteName(where)}, which is not followed`, {
    hint: "An operator must import the API with the address that it redirects to.",
    details: { api },
  });
}
