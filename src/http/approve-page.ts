import { type ApprovalAnswer, REASON_LIMIT, type ShownApproval } from "../approval/approval.ts";
import type { Approvals } from "../approval/approvals.ts";
import { type ApprovalLink, readLink } from "../approval/link.ts";
import { maskedText } from "../approval/shown.ts";
import { errorCodes, messageOf, QmError } from "../core/errors.ts";
import { clip } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";
import { visibleJson, visibleText } from "../core/visible.ts";
import { bodyText } from "./body.ts";
import { type Html, html, page } from "./html.ts";

export interface ApprovePageParts {
  readonly approvals: Approvals;
  /** What links are signed with. */
  readonly key: Uint8Array;
  /** What a person may agree to now, whatever their link says. */
  readonly rolesOf: (approver: string) => readonly string[];
  readonly now: () => Date;
  /** Has an approved call run, where it can be run here. */
  readonly run: (id: string) => void;
  readonly onProblem: (problem: string) => void;
}

/** How long whoever agreed waits to be told how the call ended. */
const OUTCOME_MS = 2_000;

/** Looking changes nothing, because mail programs look at links before people do; only the form answers. */
export async function approvePage(parts: ApprovePageParts, request: Request): Promise<Response> {
  try {
    if (request.method === "GET") return await shown(parts, new URL(request.url).searchParams);
    if (request.method === "POST") return await answered(parts, request);
    return page(405, "This cannot be done here", html`<p>Open the link in a browser.</p>`, { allow: "GET, POST" });
  } catch (thrown) {
    return failed(thrown, parts.onProblem);
  }
}

async function shown(parts: ApprovePageParts, given: URLSearchParams): Promise<Response> {
  const { link, token } = linkOf(parts, given);
  const approval = await found(parts, link);
  if (approval.state !== "pending") return over(200, approval);
  return page(
    200,
    `May ${approval.action} run?`,
    html`${callOf(approval)}
<form method="post" action="approve">
<input type="hidden" name="t" value="${token}">
<p><label>Why, if you like <textarea name="reason" rows="2" maxlength="${String(REASON_LIMIT)}"></textarea></label></p>
<p>You answer as ${link.approver}. If you approve, exactly this call runs, once.</p>
<p><button name="decision" value="approve">Approve</button><button name="decision" value="deny">Deny</button></p>
</form>`,
  );
}

async function answered(parts: ApprovePageParts, request: Request): Promise<Response> {
  const given = new URLSearchParams(await bodyText(request, "application/x-www-form-urlencoded"));
  const { link } = linkOf(parts, given);
  const answer = answerOf(given);
  const before = await found(parts, link);
  const now = parts.rolesOf(link.approver);
  const approver = { id: link.approver, roles: link.roles.filter((role) => now.includes(role)), via: "link" };
  try {
    const approval = await parts.approvals.answer(link.approvalId, answer, approver);
    if (answer.decision === "denied") return page(200, "Denied", html`<p>It will not run.</p>${callOf(approval)}`);
    parts.run(approval.id);
    const became = becameOf(await outcomeOf(parts, link, request.signal));
    return page(200, "Approved", html`<p>${became}</p>${callOf(await found(parts, link))}`);
  } catch (thrown) {
    if (!(thrown instanceof QmError)) throw thrown;
    if (thrown.code === "conflict" || thrown.code === "approval_expired")
      return over(409, await found(parts, link), thrown.message);
    if (thrown.code === "denied")
      return page(403, "You may not answer this", html`<p>${thrown.message}</p>${callOf(before)}`);
    throw thrown;
  }
}

/** Throws `denied` for every link that is good for nothing, without telling why. */
function linkOf({ key, now }: ApprovePageParts, given: URLSearchParams): { link: ApprovalLink; token: string } {
  const [token = "", ...more] = given.getAll("t");
  const link = more.length === 0 ? readLink(key, token, now()) : undefined;
  if (link === undefined) throw badLink();
  return { link, token };
}

async function found({ approvals }: ApprovePageParts, { approvalId }: ApprovalLink): Promise<ShownApproval> {
  return approvals.get(approvalId).catch((thrown: unknown) => {
    throw thrown instanceof QmError && thrown.code === "not_found" ? badLink() : thrown;
  });
}

function badLink(): QmError {
  return new QmError("denied", "this link is not valid, or not any more", {
    hint: "Ask whoever sent it for a new one.",
  });
}

function answerOf(given: URLSearchParams): ApprovalAnswer {
  const decisions = given.getAll("decision");
  const why = clip((given.get("reason") ?? "").trim(), REASON_LIMIT);
  const reason = why === "" ? {} : { reason: why };
  if (decisions.length === 1 && decisions[0] === "approve") return { decision: "approved", ...reason };
  if (decisions.length === 1 && decisions[0] === "deny") return { decision: "denied", ...reason };
  throw new QmError("invalid_arguments", "nothing was answered", { hint: "Open the link again, and use its buttons." });
}

/** For whoever comes when there is nothing left to answer. */
function over(status: number, approval: ShownApproval, message?: string): Response {
  const { answer } = approval;
  if (answer === undefined || answer.decision === "expired")
    return page(status, "This cannot be answered any more", html`<p>${message ?? ""}</p>${callOf(approval)}`);
  const who = `${answer.by} was first and has ${answer.decision} it, at ${answer.at} (${answer.via}).`;
  return page(status, "This is answered already", html`<p>${who}</p>${callOf(approval)}`);
}

/** Undefined where it is not known: the answer has been taken all the same. */
async function outcomeOf({ approvals }: ApprovePageParts, { approvalId }: ApprovalLink, signal: AbortSignal) {
  return approvals.look(approvalId, { timeoutMs: OUTCOME_MS, signal }).catch(() => undefined);
}

function becameOf(outcome: Outcome | undefined): string {
  if (outcome === undefined || outcome.status === "waiting")
    return "It runs as soon as a process is there that can run it.";
  return outcome.status === "done" ? "It has run, and is done." : `It came to nothing: ${outcome.reason}`;
}

/** The exact call. Everything in it is from outside. */
function callOf(approval: ShownApproval): Html {
  const { action, args, preview, masked, warnings, reason, actor, session, user, person, tenant, level, answer } =
    approval;
  const who = Object.entries({ actor, session, user, person, tenant }).flatMap(([what, name]) =>
    name === undefined ? [] : `${what} ${name}`,
  );
  const rows: readonly (readonly [string, Html | undefined])[] = [
    ["Action", html`${action}`],
    ["Arguments", html`<pre>${visibleJson(args, 2)}</pre>`],
    ["What it would do", preview === undefined ? undefined : html`<pre>${visibleText(preview)}</pre>`],
    ["Careful", warnings.length === 0 ? undefined : html`It ${warnings.join(", and it ")}.`],
    ["Masked secrets", masked.length === 0 ? undefined : html`${maskedText(masked)}`],
    ["Why you are asked", html`${reason}`],
    ["Asked by", html`${who.join(", ")}`],
    ["Who must agree", html`${level}`],
    ["Asked at", html`${approval.requestedAt}`],
    ["Can be answered until", html`${approval.expiresAt}`],
    ["State", html`${approval.state}`],
    ["Answer", answer === undefined ? undefined : html`${answer.decision} by ${answer.by}`],
    ["Reason given", answer?.reason === undefined ? undefined : html`${answer.reason}`],
  ];
  return html`<dl>${rows.flatMap(([term, what]) => (what === undefined ? [] : html`<dt>${term}</dt><dd>${what}</dd>`))}</dl>`;
}

function failed(thrown: unknown, onProblem: (problem: string) => void): Response {
  if (thrown instanceof QmError)
    return page(
      errorCodes[thrown.code].http,
      "This did not work",
      html`<p>${thrown.message}.</p><p>${thrown.hint ?? ""}</p>`,
    );
  onProblem(`a request could not be answered: ${messageOf(thrown)}`);
  return page(500, "This did not work", html`<p>Something is wrong on our side.</p>`);
}
