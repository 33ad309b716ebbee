import { Hono } from "hono";
import { systemRuntime } from "../app/system-runtime.ts";
import { type ApprovalAnswer, type Approvals, type Approver, REASON_LIMIT } from "../approval/approval.ts";
import { onAbort, yieldToEventLoop } from "../core/async.ts";
import { toVisibleJson } from "../core/display-text.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { getOwn, isRecord, omitUndefined } from "../core/json.ts";
import { authorizeBearer, createTokenAuthorizer } from "../core/token-authorizer.ts";
import { getLinkKeyPath } from "../workspace/state-paths.ts";
import type { Workspace } from "../workspace/workspace.ts";
import { loadOrCreateLinkKey } from "./approval-links.ts";
import { type ApprovalPageOptions, serveApprovalPage } from "./approval-page.ts";
import { getApproverRoles, readApproverTokens } from "./approvers.ts";
import {
  isReveal,
  parseFilesQuery,
  parseListQuery,
  parseWaitMs,
  problem,
  readTextBody,
  respondError,
  respondJson,
  respondJsonText,
} from "./http-messages.ts";

/** A person who is known by their token. */
export type ApproverIdentity = { readonly id: string; readonly roles: readonly string[] };

interface ApprovalsApiOptions {
  readonly approvals: Approvals;
  /** Finds the approver of a token, as `createTokenAuthorizer` does. Undefined: the token is not known. */
  readonly authorize: (token: string) => ApproverIdentity | undefined;
  /** Absent: there are no signed links, and no page for them. */
  readonly links?: Pick<ApprovalPageOptions, "key" | "listRoles" | "now">;
  /** Receives errors as text, without tokens and arguments. */
  readonly onProblem: (problem: string) => void;
  /** Ends open streams and waiting requests when it is aborted. */
  readonly signal: AbortSignal;
}

interface ApiRequest {
  readonly request: Request;
  /** The approval in the path, where the route has one. */
  readonly id: string;
  readonly query: URLSearchParams;
  readonly approver: Approver;
  /** Aborted when the client hangs up, or the API ends. */
  readonly signal: AbortSignal;
}

type Handlers = Readonly<Record<string, (request: ApiRequest) => Response | Promise<Response>>>;
const APPROVALS_PATH = "/v1/approvals";

/** Routes to list, show and answer approvals. The listener in front of them checks host and origin. */
export function createApprovalsApi({ approvals, authorize, links, onProblem, signal }: ApprovalsApiOptions): Hono {
  const app = new Hono();

  /** Runs an approved call, unless another process claims it first. */
  function run(id: string): void {
    approvals.run(id).catch((thrown: unknown) => onProblem(`an approved call was not run: ${getErrorMessage(thrown)}`));
  }

  /** The token is checked before the path and the method. Hono routes HEAD like GET, so the method is looked up here. */
  function route(path: string, handlers: Handlers): void {
    app.all(`${APPROVALS_PATH}${path}`, async (c) => {
      const { token, owner, challenge } = authorizeBearer(c.req.header("authorization"), authorize);
      if (owner === undefined) return respondUnauthorized(token !== undefined, challenge);
      const allowed = Object.keys(handlers).join(", ");
      if (allowed === "")
        return problem(new QmError("not_found", "nothing is there", { hint: `Look at ${APPROVALS_PATH}.` }));
      const request = {
        request: c.req.raw,
        id: c.req.param("id") ?? "",
        query: new URL(c.req.url).searchParams,
        approver: { ...owner, via: "http" },
        signal: AbortSignal.any([c.req.raw.signal, signal]),
      };
      return getOwn(handlers, c.req.method)?.(request) ?? respondMethodNotAllowed(allowed);
    });
  }

  if (links !== undefined)
    app.all("/approve", (c) => serveApprovalPage({ approvals, ...links, run, onProblem }, c.req.raw));
  route("", { GET: list });
  route("/", { GET: list });
  route("/events", { GET: (request) => streamApprovalChanges(approvals, request.signal) });
  route("/:id/outcome", {
    async GET({ id, query, signal: until }) {
      const looking = approvals.look(id, { timeoutMs: parseWaitMs(query), signal: until });
      const { value: _value, ...outcome } = await looking.catch((thrown: unknown) => {
        throw until.aborted ? new QmError("cancelled", "the client no longer waits") : thrown;
      });
      return respondJson(outcome);
    },
  });
  route("/:id/files", {
    GET: async ({ id, query }) => respondJson(await approvals.readFiles(id, parseFilesQuery(query))),
  });
  route("/:id", {
    async GET({ id, query, approver }) {
      return respondJson(await (isReveal(query) ? approvals.reveal(id, approver) : approvals.get(id)));
    },
    async POST({ id, request, approver }) {
      const answer = parseAnswerBody(await readTextBody(request, "application/json"));
      const approval = await approvals.answer(id, answer, approver);
      if (answer.decision === "approved") run(id);
      return respondJson(approval);
    },
  });
  route("/*", {});
  return app.onError((thrown) => respondError(thrown, onProblem));

  async function list({ query }: ApiRequest): Promise<Response> {
    const { limit, ...filter } = parseListQuery(query);
    const found = await approvals.list({ ...filter, limit: limit + 1 });
    const items = found.slice(0, limit);
    const last = items.at(-1);
    const texts: string[] = [];
    for (const item of items) {
      texts.push(toVisibleJson(item));
      // An approval may be long, so other requests run in between.
      await yieldToEventLoop();
    }
    const next = found.length > limit && last !== undefined ? `,"next":${toVisibleJson(last.id)}` : "";
    return respondJsonText(`{"items":[${texts.join(",")}]${next}}`);
  }
}

function respondMethodNotAllowed(allowed: string): Response {
  const error = new QmError("invalid_arguments", "this method is not known here", { hint: `Use ${allowed}.` });
  return problem(error, 405, { allow: allowed });
}

function respondUnauthorized(hadToken: boolean, challenge: string): Response {
  const error = new QmError("denied", hadToken ? "this token is not known" : "an approver's token is needed", {
    hint: "Send Authorization: Bearer <token>, with a token of approvals.approvers.",
  });
  return problem(error, 401, { "www-authenticate": challenge });
}

/** A proxy closes a connection that is silent for a minute. */
const HEARTBEAT_MS = 20_000;

/** A reader that is this many changes behind loses its connection. It reconnects and reads the list again. */
const QUEUE_LIMIT = 1_000;

/** Sends every change of an approval as an event, until the signal is aborted or the client hangs up. */
function streamApprovalChanges(approvals: Pick<Approvals, "onChange">, signal: AbortSignal): Response {
  const encoder = new TextEncoder();
  let stop = (): void => {};
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const send = (text: string): void => {
          if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(text));
          else end();
        };
        const end = (): void => {
          stop();
          controller.close();
        };
        const stopWatching = approvals.onChange((approval) =>
          send(`event: approval\nid: ${approval.id}.${approval.state}\ndata: ${toVisibleJson(approval)}\n\n`),
        );
        const heartbeat = setInterval(() => send(":\n\n"), HEARTBEAT_MS);
        let stopListening = (): void => {};
        stop = () => {
          stopWatching();
          clearInterval(heartbeat);
          stopListening();
        };
        send("retry: 2000\n\n");
        stopListening = onAbort(signal, end);
      },
      cancel: () => stop(),
    },
    new CountQueuingStrategy({ highWaterMark: QUEUE_LIMIT }),
  );
  return new Response(body, {
    headers: { "content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no" },
  });
}

function parseAnswerBody(text: string): ApprovalAnswer {
  const { decision, reason, ...more } = parseJsonObject(text);
  if (Object.keys(more).length > 0) throw createBodyError("the body has an unknown field");
  if (decision !== "approve" && decision !== "deny") throw createBodyError('"decision" must be "approve" or "deny"');
  if (reason !== undefined && (typeof reason !== "string" || reason.length > REASON_LIMIT))
    throw createBodyError(`"reason" must be text of at most ${REASON_LIMIT} characters`);
  return omitUndefined({ decision: decision === "approve" ? "approved" : "denied", reason });
}

function parseJsonObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (isRecord(value)) return value;
  } catch {
    // Malformed JSON gets the same error as JSON that is no object.
  }
  throw createBodyError("the body is not a JSON object");
}

function createBodyError(message: string): QmError {
  const hint = 'Send {"decision": "approve"} or {"decision": "deny"}, with a "reason" if you like.';
  return new QmError("invalid_arguments", message, { hint });
}

/** The API of a workspace. It takes over changed approvers at the next request. */
export async function openApprovalsApi(
  workspace: Workspace,
  options: Pick<ApprovalsApiOptions, "onProblem" | "signal">,
) {
  const { onProblem, signal } = options;
  const createAuthorizer = () =>
    createTokenAuthorizer(readApproverTokens(workspace.config, { fill: workspace.fill, onProblem }));
  let { config } = workspace;
  let findApprover = createAuthorizer();

  function authorize(token: string): ApproverIdentity | undefined {
    if (config !== workspace.config) {
      ({ config } = workspace);
      findApprover = () => undefined;
      try {
        findApprover = createAuthorizer();
      } catch (thrown) {
        onProblem(`no approver can answer over HTTP: ${getErrorMessage(thrown)}`);
      }
    }
    return findApprover(token);
  }

  const key = await loadOrCreateLinkKey(getLinkKeyPath(workspace.storePath));
  const listRoles = (name: string) => getApproverRoles(workspace.config, name);
  const { approvals } = workspace.quartermaster;
  const links = { key, listRoles, now: systemRuntime.now };
  return createApprovalsApi({ approvals, authorize, links, onProblem, signal });
}
