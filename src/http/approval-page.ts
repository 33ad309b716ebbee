import { hash } from "node:crypto";
import type { Approvals } from "../approval/approval.ts";
import { type ApprovalAnswer, type ApprovalView, REASON_LIMIT } from "../approval/approval.ts";
import { type ApprovalLink, readApprovalLink } from "../approval/approval-link.ts";
import { formatMaskedSecrets } from "../approval/approval-view.ts";
import { escapeUnsafe, toVisibleJson, toVisibleText } from "../core/display-text.ts";
import { errorCodes, getErrorMessage, QmError } from "../core/errors.ts";
import { clip } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";
import { readTextBody } from "./http-messages.ts";

/** Text that is HTML already. Nothing else gets into a page unescaped. */
interface Html {
  readonly html: string;
}

type HtmlPart = string | Html | readonly Html[];

/** HTML with everything that is filled in written so that it can only be text. */
function html(parts: TemplateStringsArray, ...values: readonly HtmlPart[]): Html {
  return { html: String.raw({ raw: parts }, ...values.map(renderPart)) };
}

function renderPart(part: HtmlPart): string {
  if (typeof part === "string") return escapeHtml(escapeUnsafe(part));
  return "html" in part ? part.html : part.map((each) => each.html).join("");
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}

const STYLE = `
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; }
dt { font-weight: 600; margin-top: .8rem; }
dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; }
pre { margin: 0; padding: .7rem; border: 1px solid; border-radius: 4px; overflow-wrap: anywhere; white-space: pre-wrap; }
textarea { display: block; font: inherit; width: 100%; box-sizing: border-box; padding: .4rem; margin: .3rem 0; }
button { font: inherit; padding: .5rem 1.5rem; margin-right: 1rem; }
`;

const PAGE_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": `default-src 'none'; style-src 'sha256-${hash("sha256", STYLE, "base64")}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'`,
  // Not no-referrer: with that a browser sends the page's own form from nowhere, which is refused.
  "referrer-policy": "same-origin",
  "cache-control": "no-store",
  "x-frame-options": "DENY",
  "x-content-type-options": "nosniff",
};

/** A page that loads nothing, runs nothing and is kept nowhere. */
function renderPage(status: number, title: string, content: Html, headers: Readonly<Record<string, string>> = {}) {
  const text = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>${{ html: STYLE }}</style>
</head>
<body>
<h1>${title}</h1>
${content}
</body>
</html>
`;
  return new Response(text.html, { status, headers: { ...PAGE_HEADERS, ...headers } });
}

export interface ApprovalPageOptions {
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
export async function serveApprovalPage(parts: ApprovalPageOptions, request: Request): Promise<Response> {
  try {
    if (request.method === "GET") return await showForm(parts, new URL(request.url).searchParams);
    if (request.method === "POST") return await submitAnswer(parts, request);
    return renderPage(405, "This cannot be done here", html`<p>Open the link in a browser.</p>`, {
      allow: "GET, POST",
    });
  } catch (thrown) {
    return showError(thrown, parts.onProblem);
  }
}

async function showForm(parts: ApprovalPageOptions, given: URLSearchParams): Promise<Response> {
  const { link, token } = readLinkToken(parts, given);
  const approval = await findApproval(parts, link);
  if (approval.state !== "pending") return showClosed(200, approval);
  return renderPage(
    200,
    `May ${approval.action} run?`,
    html`${renderCall(approval)}
<form method="post" action="approve">
<input type="hidden" name="t" value="${token}">
<p><label>Why, if you like <textarea name="reason" rows="2" maxlength="${String(REASON_LIMIT)}"></textarea></label></p>
<p>You answer as ${link.approver}. If you approve, exactly this call runs, once.</p>
<p><button name="decision" value="approve">Approve</button><button name="decision" value="deny">Deny</button></p>
</form>`,
  );
}

async function submitAnswer(parts: ApprovalPageOptions, request: Request): Promise<Response> {
  const given = new URLSearchParams(await readTextBody(request, "application/x-www-form-urlencoded"));
  const { link } = readLinkToken(parts, given);
  const answer = parseAnswerForm(given);
  const before = await findApproval(parts, link);
  const now = parts.rolesOf(link.approver);
  const approver = { id: link.approver, roles: link.roles.filter((role) => now.includes(role)), via: "link" };
  try {
    const approval = await parts.approvals.answer(link.approvalId, answer, approver);
    if (answer.decision === "denied")
      return renderPage(200, "Denied", html`<p>It will not run.</p>${renderCall(approval)}`);
    parts.run(approval.id);
    const became = describeOutcome(await waitForOutcome(parts, link, request.signal));
    return renderPage(200, "Approved", html`<p>${became}</p>${renderCall(await findApproval(parts, link))}`);
  } catch (thrown) {
    if (!(thrown instanceof QmError)) throw thrown;
    if (thrown.code === "conflict" || thrown.code === "approval_expired")
      return showClosed(409, await findApproval(parts, link), thrown.message);
    if (thrown.code === "denied")
      return renderPage(403, "You may not answer this", html`<p>${thrown.message}</p>${renderCall(before)}`);
    throw thrown;
  }
}

/** Throws `denied` for every link that is good for nothing, without telling why. */
function readLinkToken(
  { key, now }: ApprovalPageOptions,
  given: URLSearchParams,
): { link: ApprovalLink; token: string } {
  const [token = "", ...more] = given.getAll("t");
  const link = more.length === 0 ? readApprovalLink(key, token, now()) : undefined;
  if (link === undefined) throw createLinkError();
  return { link, token };
}

async function findApproval({ approvals }: ApprovalPageOptions, { approvalId }: ApprovalLink): Promise<ApprovalView> {
  return approvals.get(approvalId).catch((thrown: unknown) => {
    throw thrown instanceof QmError && thrown.code === "not_found" ? createLinkError() : thrown;
  });
}

function createLinkError(): QmError {
  return new QmError("denied", "this link is not valid, or not any more", {
    hint: "Ask whoever sent it for a new one.",
  });
}

function parseAnswerForm(given: URLSearchParams): ApprovalAnswer {
  const decisions = given.getAll("decision");
  const why = clip((given.get("reason") ?? "").trim(), REASON_LIMIT);
  const reason = why === "" ? {} : { reason: why };
  if (decisions.length === 1 && decisions[0] === "approve") return { decision: "approved", ...reason };
  if (decisions.length === 1 && decisions[0] === "deny") return { decision: "denied", ...reason };
  throw new QmError("invalid_arguments", "nothing was answered", { hint: "Open the link again, and use its buttons." });
}

/** For whoever comes when there is nothing left to answer. */
function showClosed(status: number, approval: ApprovalView, message?: string): Response {
  const { answer } = approval;
  if (answer === undefined || answer.decision === "expired")
    return renderPage(status, "This cannot be answered any more", html`<p>${message ?? ""}</p>${renderCall(approval)}`);
  const who = `${answer.by} was first and has ${answer.decision} it, at ${answer.at} (${answer.via}).`;
  return renderPage(status, "This is answered already", html`<p>${who}</p>${renderCall(approval)}`);
}

/** Undefined where it is not known: the answer has been taken all the same. */
async function waitForOutcome({ approvals }: ApprovalPageOptions, { approvalId }: ApprovalLink, signal: AbortSignal) {
  return approvals.look(approvalId, { timeoutMs: OUTCOME_MS, signal }).catch(() => undefined);
}

function describeOutcome(outcome: Outcome | undefined): string {
  if (outcome === undefined || outcome.status === "waiting")
    return "It runs as soon as a process is there that can run it.";
  return outcome.status === "done" ? "It has run, and is done." : `It came to nothing: ${outcome.reason}`;
}

/** The exact call. Everything in it is from outside. */
function renderCall(approval: ApprovalView): Html {
  const { action, args, preview, masked, warnings, reason, actor, session, user, person, tenant, level, answer } =
    approval;
  const who = Object.entries({ actor, session, user, person, tenant }).flatMap(([what, name]) =>
    name === undefined ? [] : `${what} ${name}`,
  );
  const rows: readonly (readonly [string, Html | undefined])[] = [
    ["Action", html`${action}`],
    ["Arguments", html`<pre>${toVisibleJson(args, 2)}</pre>`],
    ["What it would do", preview === undefined ? undefined : html`<pre>${toVisibleText(preview)}</pre>`],
    ["Careful", warnings.length === 0 ? undefined : html`It ${warnings.join(", and it ")}.`],
    ["Masked secrets", masked.length === 0 ? undefined : html`${formatMaskedSecrets(masked)}`],
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

function showError(thrown: unknown, onProblem: (problem: string) => void): Response {
  if (thrown instanceof QmError)
    return renderPage(
      errorCodes[thrown.code].http,
      "This did not work",
      html`<p>${thrown.message}.</p><p>${thrown.hint ?? ""}</p>`,
    );
  onProblem(`a request could not be answered: ${getErrorMessage(thrown)}`);
  return renderPage(500, "This did not work", html`<p>Something is wrong on our side.</p>`);
}
