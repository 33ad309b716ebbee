import { systemRuntime } from "../app/system-runtime.ts";
import type { Approvals } from "../approval/approval.ts";
import { type ApprovalAnswer, type ApprovalView, REASON_LIMIT } from "../approval/approval.ts";
import type { Config } from "../config/schema.ts";
import { yieldToEventLoop } from "../core/async.ts";
import { toVisibleJson } from "../core/display-text.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import { createTokenAuthorizer } from "../core/token-authorizer.ts";
import { getLinkKeyPath } from "../workspace/state-paths.ts";
import type { Workspace } from "../workspace/workspace.ts";
import { loadOrCreateLinkKey } from "./approval-links.ts";
import { type ApprovalPageOptions, serveApprovalPage } from "./approval-page.ts";
import { getApproverRoles, readApproverTokens } from "./approvers.ts";
import {
  isReveal,
  parseListQuery,
  parseWaitMs,
  problem,
  readTextBody,
  respondError,
  respondJson,
  respondJsonText,
  respondMethodNotAllowed,
  respondUnauthorized,
} from "./http-messages.ts";

/** A proxy that hears nothing for a minute hangs up. */
const HEARTBEAT_MS = 20_000;

/** Changes that a reader may be behind; then it is hung up on, and comes back to look at the list. */
const QUEUE_LIMIT = 1_000;

const EVENT_STREAM_HEADERS = {
  "content-type": "text/event-stream",
  "cache-control": "no-store",
  "x-accel-buffering": "no",
};

/** Every change of an approval as an event of a stream, until somebody hangs up. */
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
        const stopListening = approvals.onChange((approval) =>
          send(`event: approval\nid: ${approval.id}.${approval.state}\ndata: ${toVisibleJson(approval)}\n\n`),
        );
        const heartbeat = setInterval(() => send(":\n\n"), HEARTBEAT_MS);
        stop = () => {
          stopListening();
          clearInterval(heartbeat);
          signal.removeEventListener("abort", end);
        };
        send("retry: 2000\n\n");
        if (signal.aborted) end();
        else signal.addEventListener("abort", end);
      },
      cancel: () => stop(),
    },
    new CountQueuingStrategy({ highWaterMark: QUEUE_LIMIT }),
  );
  return new Response(body, { headers: EVENT_STREAM_HEADERS });
}

/** A person whom a channel knows by their token. */
export interface ApproverIdentity {
  readonly id: string;
  readonly roles: readonly string[];
}

interface ApprovalsApiOptions {
  readonly approvals: Approvals;
  /** Who says the token; undefined: nobody. See `authorizeBy`. */
  readonly authorize: (token: string) => ApproverIdentity | undefined;
  /** What signed links are read with. Absent: there are none, and no page for them. */
  readonly links?: Pick<ApprovalPageOptions, "key" | "rolesOf" | "now">;
  /** Told what went wrong. Holds no token and no argument. */
  readonly onProblem: (problem: string) => void;
  /** Aborted to end what is held open. */
  readonly signal: AbortSignal;
}

/** Answers a request, or says with `undefined` that nothing is there. Whoever calls has checked host and origin. */
type ApprovalsApi = (request: Request) => Promise<Response | undefined>;

const APPROVALS_PATH = "/v1/approvals";

/** Calls that wait for a person, over HTTP. */
export function createApprovalsApi({
  approvals,
  authorize,
  links,
  onProblem,
  signal,
}: ApprovalsApiOptions): ApprovalsApi {
  /** Whoever heard the answer runs the call, unless somebody else has claimed it first. */
  function run(id: string): void {
    approvals.run(id).catch((thrown: unknown) => onProblem(`an approved call was not run: ${getErrorMessage(thrown)}`));
  }

  async function handleRequest(request: Request, { pathname, searchParams }: URL): Promise<Response> {
    const token = /^Bearer +([^\s,]+)$/i.exec(request.headers.get("authorization") ?? "")?.[1];
    const who = token === undefined ? undefined : authorize(token);
    if (who === undefined) return respondUnauthorized(token !== undefined);
    const route = parseRoute(pathname);
    if (route === undefined)
      return problem(new QmError("not_found", "nothing is there", { hint: `Look at ${APPROVALS_PATH}.` }));
    const methods = route.what === "approval" ? ["GET", "POST"] : ["GET"];
    if (!methods.includes(request.method)) return respondMethodNotAllowed(methods.join(", "));
    const until = AbortSignal.any([request.signal, signal]);
    switch (route.what) {
      case "list":
        return list(searchParams);
      case "events":
        return streamApprovalChanges(approvals, until);
      case "outcome": {
        const waiting = { timeoutMs: parseWaitMs(searchParams), signal: until };
        const { value: _value, ...outcome } = await approvals.look(route.id, waiting).catch((thrown: unknown) => {
          throw until.aborted ? new QmError("cancelled", "nobody waits any more") : thrown;
        });
        return respondJson(outcome);
      }
      default:
        return respondJson(
          await (request.method === "GET" ? show(route.id, who, searchParams) : answer(route.id, who, request)),
        );
    }
  }

  function show(id: string, who: ApproverIdentity, given: URLSearchParams): Promise<ApprovalView> {
    return isReveal(given) ? approvals.reveal(id, { ...who, via: "http" }) : approvals.get(id);
  }

  async function list(given: URLSearchParams): Promise<Response> {
    const { limit, ...query } = parseListQuery(given);
    const found = await approvals.list({ ...query, limit: limit + 1 });
    const items = found.slice(0, limit);
    const last = items.at(-1);
    const texts: string[] = [];
    for (const item of items) {
      texts.push(toVisibleJson(item));
      // Each may be long: others have their turn in between.
      await yieldToEventLoop();
    }
    const next = found.length > limit && last !== undefined ? `,"next":${toVisibleJson(last.id)}` : "";
    return respondJsonText(`{"items":[${texts.join(",")}]${next}}`);
  }

  async function answer(id: string, who: ApproverIdentity, request: Request): Promise<ApprovalView> {
    const given = parseAnswerBody(await readTextBody(request, "application/json"));
    const approval = await approvals.answer(id, given, { ...who, via: "http" });
    if (given.decision === "approved") run(id);
    return approval;
  }

  return async (request) => {
    const url = new URL(request.url);
    if (url.pathname === "/approve" && links !== undefined)
      return serveApprovalPage({ approvals, ...links, run, onProblem }, request);
    if (url.pathname !== APPROVALS_PATH && !url.pathname.startsWith(`${APPROVALS_PATH}/`)) return undefined;
    return handleRequest(request, url).catch((thrown: unknown) => respondError(thrown, onProblem));
  };
}

type ApiRoute = { readonly what: "list" | "events" } | { readonly what: "approval" | "outcome"; readonly id: string };

/** What a path below the root stands for. */
function parseRoute(pathname: string): ApiRoute | undefined {
  const [id = "", part, ...more] = pathname.slice(APPROVALS_PATH.length + 1).split("/");
  if (more.length > 0) return undefined;
  if (part === undefined && id === "") return { what: "list" };
  if (part === undefined && id === "events") return { what: "events" };
  if (part !== undefined && part !== "outcome") return undefined;
  try {
    return { what: part === undefined ? "approval" : "outcome", id: decodeURIComponent(id) };
  } catch {
    return undefined;
  }
}

const BODY_HINT = 'Send {"decision": "approve"} or {"decision": "deny"}, with a "reason" if you like.';

function parseAnswerBody(text: string): ApprovalAnswer {
  const { decision, reason, ...more } = parseJsonObject(text);
  const [unknown] = Object.keys(more);
  if (unknown !== undefined) throw createBodyError("the body has a field that means nothing here");
  if (decision !== "approve" && decision !== "deny") throw createBodyError('"decision" must be "approve" or "deny"');
  if (reason !== undefined && (typeof reason !== "string" || reason.length > REASON_LIMIT))
    throw createBodyError(`"reason" must be text of at most ${REASON_LIMIT} characters`);
  return {
    decision: decision === "approve" ? "approved" : "denied",
    ...(reason === undefined ? {} : { reason }),
  };
}

function parseJsonObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (isRecord(value)) return value;
  } catch {
    // Told below, like everything else that is no object.
  }
  throw createBodyError("the body is no JSON object");
}

function createBodyError(message: string): QmError {
  return new QmError("invalid_arguments", message, { hint: BODY_HINT });
}

/** The API in front of a workspace, as its configuration says; a change of its approvers is taken over at once. */
export async function openApprovalsApi(
  workspace: Workspace,
  { onProblem, signal }: Pick<ApprovalsApiOptions, "onProblem" | "signal">,
): Promise<ApprovalsApi> {
  const createAuthorizer = (config: Config) =>
    createTokenAuthorizer(readApproverTokens(config, { fill: workspace.fill, onProblem }));
  let config = workspace.config;
  let known = createAuthorizer(config);

  function authorize(token: string): ApproverIdentity | undefined {
    if (config !== workspace.config) {
      config = workspace.config;
      known = () => undefined;
      try {
        known = createAuthorizer(config);
      } catch (thrown) {
        onProblem(`nobody can answer over HTTP: ${getErrorMessage(thrown)}`);
      }
    }
    return known(token);
  }

  return createApprovalsApi({
    approvals: workspace.quartermaster.approvals,
    authorize,
    links: {
      key: await loadOrCreateLinkKey(getLinkKeyPath(workspace.storePath)),
      rolesOf: (name) => getApproverRoles(workspace.config, name),
      now: systemRuntime.now,
    },
    onProblem,
    signal,
  });
}
