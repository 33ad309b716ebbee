import { type ApprovalAnswer, REASON_LIMIT, type ShownApproval } from "../approval/approval.ts";
import type { Approvals } from "../approval/approvals.ts";
import { yieldToEventLoop } from "../core/async.ts";
import { messageOf, QmError } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import { visibleJson } from "../core/visible.ts";
import { json, jsonText, problem, problemOf, unauthorized, wrongMethod } from "./answers.ts";
import { type ApprovePageParts, approvePage } from "./approve-page.ts";
import { bodyText } from "./body.ts";
import { changeStream } from "./change-stream.ts";
import { isReveal, listQuery, waitMs } from "./query.ts";

/** A person whom a channel knows by their token. */
export interface KnownApprover {
  readonly id: string;
  readonly roles: readonly string[];
}

export interface ApiOptions {
  readonly approvals: Approvals;
  /** Who says the token; undefined: nobody. See `authorizeBy`. */
  readonly authorize: (token: string) => KnownApprover | undefined;
  /** What signed links are read with. Absent: there are none, and no page for them. */
  readonly links?: Pick<ApprovePageParts, "key" | "rolesOf" | "now">;
  /** Told what went wrong. Holds no token and no argument. */
  readonly onProblem: (problem: string) => void;
  /** Aborted to end what is held open. */
  readonly signal: AbortSignal;
}

/** Answers a request, or says with `undefined` that nothing is there. Whoever calls has checked host and origin. */
export type Api = (request: Request) => Promise<Response | undefined>;

const ROOT = "/v1/approvals";

/** Calls that wait for a person, over HTTP. */
export function createApi({ approvals, authorize, links, onProblem, signal }: ApiOptions): Api {
  /** Whoever heard the answer runs the call, unless somebody else has claimed it first. */
  function run(id: string): void {
    approvals.run(id).catch((thrown: unknown) => onProblem(`an approved call was not run: ${messageOf(thrown)}`));
  }

  async function answered(request: Request, { pathname, searchParams }: URL): Promise<Response> {
    const token = /^Bearer +([^\s,]+)$/i.exec(request.headers.get("authorization") ?? "")?.[1];
    const who = token === undefined ? undefined : authorize(token);
    if (who === undefined) return unauthorized(token !== undefined);
    const place = placeOf(pathname);
    if (place === undefined) return problem(new QmError("not_found", "nothing is there", { hint: `Look at ${ROOT}.` }));
    const methods = place.what === "approval" ? ["GET", "POST"] : ["GET"];
    if (!methods.includes(request.method)) return wrongMethod(methods.join(", "));
    const until = AbortSignal.any([request.signal, signal]);
    switch (place.what) {
      case "list":
        return list(searchParams);
      case "events":
        return changeStream(approvals, until);
      case "outcome": {
        const waiting = { timeoutMs: waitMs(searchParams), signal: until };
        const { value: _value, ...outcome } = await approvals.look(place.id, waiting).catch((thrown: unknown) => {
          throw until.aborted ? new QmError("cancelled", "nobody waits any more") : thrown;
        });
        return json(outcome);
      }
      default:
        return json(
          await (request.method === "GET" ? show(place.id, who, searchParams) : answer(place.id, who, request)),
        );
    }
  }

  function show(id: string, who: KnownApprover, given: URLSearchParams): Promise<ShownApproval> {
    return isReveal(given) ? approvals.reveal(id, { ...who, via: "http" }) : approvals.get(id);
  }

  async function list(given: URLSearchParams): Promise<Response> {
    const { limit, ...query } = listQuery(given);
    const found = await approvals.list({ ...query, limit: limit + 1 });
    const items = found.slice(0, limit);
    const last = items.at(-1);
    const texts: string[] = [];
    for (const item of items) {
      texts.push(visibleJson(item));
      // Each may be long: others have their turn in between.
      await yieldToEventLoop();
    }
    const next = found.length > limit && last !== undefined ? `,"next":${visibleJson(last.id)}` : "";
    return jsonText(`{"items":[${texts.join(",")}]${next}}`);
  }

  async function answer(id: string, who: KnownApprover, request: Request): Promise<ShownApproval> {
    const given = answerOf(await bodyText(request, "application/json"));
    const approval = await approvals.answer(id, given, { ...who, via: "http" });
    if (given.decision === "approved") run(id);
    return approval;
  }

  return async (request) => {
    const url = new URL(request.url);
    if (url.pathname === "/approve" && links !== undefined)
      return approvePage({ approvals, ...links, run, onProblem }, request);
    if (url.pathname !== ROOT && !url.pathname.startsWith(`${ROOT}/`)) return undefined;
    return answered(request, url).catch((thrown: unknown) => problemOf(thrown, onProblem));
  };
}

type Place = { readonly what: "list" | "events" } | { readonly what: "approval" | "outcome"; readonly id: string };

/** What a path below the root stands for. */
function placeOf(pathname: string): Place | undefined {
  const [id = "", part, ...more] = pathname.slice(ROOT.length + 1).split("/");
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

const BODY = 'Send {"decision": "approve"} or {"decision": "deny"}, with a "reason" if you like.';

function answerOf(text: string): ApprovalAnswer {
  const { decision, reason, ...more } = recordOf(text);
  const [unknown] = Object.keys(more);
  if (unknown !== undefined) throw wrongBody("the body has a field that means nothing here");
  if (decision !== "approve" && decision !== "deny") throw wrongBody('"decision" must be "approve" or "deny"');
  if (reason !== undefined && (typeof reason !== "string" || reason.length > REASON_LIMIT))
    throw wrongBody(`"reason" must be text of at most ${REASON_LIMIT} characters`);
  return {
    decision: decision === "approve" ? "approved" : "denied",
    ...(reason === undefined ? {} : { reason }),
  };
}

function recordOf(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (isRecord(value)) return value;
  } catch {
    // Told below, like everything else that is no object.
  }
  throw wrongBody("the body is no JSON object");
}

function wrongBody(message: string): QmError {
  return new QmError("invalid_arguments", message, { hint: BODY });
}
