import { hash } from "node:crypto";
import { html as honoHtml, raw } from "hono/html";
import { type ApprovalAnswer, type Approvals, type ApprovalView, REASON_LIMIT } from "../approval/approval.ts";
import { type ApprovalLink, readApprovalLink } from "../approval/approval-link.ts";
import { formatMaskedSecrets } from "../approval/approval-view.ts";
import { type FilePortion, formatFilePart } from "../approval/file-portion.ts";
import { escapeUnsafe, formatCount, toVisibleJson, toVisibleText } from "../core/display-text.ts";
import { errorCodes, getErrorMessage, QmError } from "../core/errors.ts";
import { clip, omitUndefined } from "../core/json.ts";
import type { Outcome } from "../core/outcome.ts";
import { readTextBody } from "./http-messages.ts";

export interface ApprovalPageOptions {
  readonly approvals: Approvals;
  /** The key that links are signed with. */
  readonly key: Uint8Array;
  /** The roles that an approver has now. A link may name roles that were taken away since. */
  readonly listRoles: (approver: string) => readonly string[];
  readonly now: () => Date;
  /** Runs an approved call, if this process can. */
  readonly run: (id: string) => void;
  readonly onProblem: (problem: string) => void;
}

/** How much of the files a page shows. */
const PAGE_CHARACTERS = 100_000;
/** How long the page after an approval waits for the outcome of the call. */
const OUTCOME_MS = 2_000;

/** GET changes nothing, because mail programs open links before people do. Only the form answers. */
export async function serveApprovalPage(parts: ApprovalPageOptions, request: Request): Promise<Response> {
  try {
    if (request.method === "GET") return await showForm(parts, new URL(request.url).searchParams);
    if (request.method === "POST") return await submitAnswer(parts, request);
    const content = html`<p>Open the link in a browser.</p>`;
    return renderPage(405, "This cannot be done here", content, { allow: "GET, POST" });
  } catch (thrown) {
    return showError(thrown, parts.onProblem);
  }
}

async function showForm(parts: ApprovalPageOptions, fields: URLSearchParams): Promise<Response> {
  const { link, token } = readLinkToken(parts, fields);
  const approval = await findApproval(parts, link);
  if (approval.state !== "pending") return showClosed(200, approval);
  const after = fields.get("after") ?? undefined;
  const files = await parts.approvals.readFiles(approval.id, { after, characters: PAGE_CHARACTERS });
  // A person can approve on the last page alone, after everything was shown.
  const answers =
    files.next === undefined
      ? html`<button name="decision" value="approve">Approve</button><button name="decision" value="deny">Deny</button>`
      : html`<button name="decision" value="deny">Deny</button>`;
  return renderPage(
    200,
    `May ${approval.action} run?`,
    html`${renderCall(approval)}${renderFiles(files, token)}
<form method="post" action="approve">
<input type="hidden" name="t" value="${token}">
<p><label>Reason (optional) <textarea name="reason" rows="2" maxlength="${String(REASON_LIMIT)}"></textarea></label></p>
<p>You answer as ${link.approver}. If you approve, exactly this call runs, once.</p>
<p>${answers}</p>
</form>`,
  );
}

function renderFiles({ parts, next }: FilePortion, token: string): Html {
  const shown = parts.map((part) => {
    const [title = "", ...text] = formatFilePart(part);
    const secrets = part.masked.length === 0 ? [] : [`has masked secrets: ${formatMaskedSecrets(part.masked)}`];
    const careful = [...part.warnings, ...secrets].map((warning) => html`<p>Careful: it ${warning}.</p>`);
    return html`<h2>${title}</h2>${careful}<pre>${text.join("\n")}</pre>`;
  });
  if (next === undefined) return html`${shown}`;
  const query = new URLSearchParams({ t: token, after: next }).toString();
  return html`${shown}<p>More files follow. <a href="approve?${query}">Show the next page</a>. You can approve on the last one.</p>`;
}

async function submitAnswer(parts: ApprovalPageOptions, request: Request): Promise<Response> {
  const { approvals, listRoles, run } = parts;
  const fields = new URLSearchParams(await readTextBody(request, "application/x-www-form-urlencoded"));
  const { link } = readLinkToken(parts, fields);
  const answer = parseAnswerForm(fields);
  const before = await findApproval(parts, link);
  const current = listRoles(link.approver);
  const approver = { id: link.approver, roles: link.roles.filter((role) => current.includes(role)), via: "link" };
  try {
    const approval = await approvals.answer(link.approvalId, answer, approver);
    if (answer.decision === "denied")
      return renderPage(200, "Denied", html`<p>It will not run.</p>${renderCall(approval)}`);
    run(approval.id);
    // The answer counts, also if the outcome is not known.
    const waiting = { timeoutMs: OUTCOME_MS, signal: request.signal };
    const outcome = await approvals.look(link.approvalId, waiting).catch(() => undefined);
    const after = await findApproval(parts, link);
    return renderPage(200, "Approved", html`<p>${describeOutcome(outcome)}</p>${renderCall(after)}`);
  } catch (thrown) {
    const code = thrown instanceof QmError ? thrown.code : undefined;
    if (code === "conflict" || code === "approval_expired")
      return showClosed(409, await findApproval(parts, link), getErrorMessage(thrown));
    if (code !== "denied") throw thrown;
    return renderPage(403, "You may not answer this", html`<p>${getErrorMessage(thrown)}</p>${renderCall(before)}`);
  }
}

/** Throws `denied` for every invalid link, without saying why it is invalid. */
function readLinkToken({ key, now }: ApprovalPageOptions, fields: URLSearchParams) {
  const [token = "", ...more] = fields.getAll("t");
  const link = more.length === 0 ? readApprovalLink(key, token, now()) : undefined;
  if (link === undefined) throw createLinkError();
  return { link, token };
}

async function findApproval({ approvals }: ApprovalPageOptions, { approvalId }: ApprovalLink): Promise<ApprovalView> {
  return approvals.get(approvalId).catch((thrown: unknown) => {
    throw thrown instanceof QmError && thrown.code === "not_found" ? createLinkError() : thrown;
  });
}

const createLinkError = (): QmError =>
  new QmError("denied", "this link is not valid, or no longer valid", { hint: "Ask the sender for a new one." });

function parseAnswerForm(fields: URLSearchParams): ApprovalAnswer {
  const [given, ...more] = fields.getAll("decision");
  const hint = "Open the link again and use its buttons.";
  if ((given !== "approve" && given !== "deny") || more.length > 0)
    throw new QmError("invalid_arguments", "there is no decision", { hint });
  const reason = clip((fields.get("reason") ?? "").trim(), REASON_LIMIT) || undefined;
  return omitUndefined({ decision: given === "approve" ? "approved" : "denied", reason });
}

function showClosed(status: number, approval: ApprovalView, message = ""): Response {
  const { answer } = approval;
  if (answer === undefined || answer.decision === "expired")
    return renderPage(status, "This can no longer be answered", html`<p>${message}</p>${renderCall(approval)}`);
  const who = `${answer.by} was first and has ${answer.decision} it, at ${answer.at} (${answer.via}).`;
  return renderPage(status, "This was already answered", html`<p>${who}</p>${renderCall(approval)}`);
}

function describeOutcome(outcome: Outcome | undefined): string {
  if (outcome === undefined || outcome.status === "waiting")
    return "It runs as soon as a process is there that can run it.";
  return outcome.status === "done" ? "It has run, and is done." : `It failed: ${outcome.reason}`;
}

function renderCall(approval: ApprovalView): Html {
  const { action, args, preview, files, masked, warnings, reason, actor, session, user, person, tenant, answer } =
    approval;
  const caller = Object.entries(omitUndefined({ actor, session, user, person, tenant }));
  const rows: readonly (readonly [string, string | Html | undefined])[] = [
    ["Action", action],
    ["Arguments", html`<pre>${toVisibleJson(args, 2)}</pre>`],
    ["What it would do", preview === undefined ? undefined : html`<pre>${toVisibleText(preview)}</pre>`],
    ["Files", files === undefined ? undefined : formatCount(files.length, "file")],
    ["Careful", warnings.length === 0 ? undefined : `It ${warnings.join(", and it ")}.`],
    ["Masked secrets", masked.length === 0 ? undefined : formatMaskedSecrets(masked)],
    ["Why you are asked", reason],
    ["Asked by", caller.map(([kind, name]) => `${kind} ${name}`).join(", ")],
    ["Who must agree", approval.level],
    ["Asked at", approval.requestedAt],
    ["Can be answered until", approval.expiresAt],
    ["State", approval.state],
    ["Answer", answer === undefined ? undefined : `${answer.decision} by ${answer.by}`],
    ["Reason given", answer?.reason],
  ];
  const shown = rows.filter(([, value]) => value !== undefined);
  return html`<dl>${shown.map(([term, value = ""]) => html`<dt>${term}</dt><dd>${value}</dd>`)}</dl>`;
}

function showError(thrown: unknown, onProblem: (problem: string) => void): Response {
  const title = "This did not work";
  if (thrown instanceof QmError) {
    const content = html`<p>${thrown.message}.</p><p>${thrown.hint ?? ""}</p>`;
    return renderPage(errorCodes[thrown.code].http, title, content);
  }
  onProblem(`a request could not be answered: ${getErrorMessage(thrown)}`);
  return renderPage(500, title, html`<p>Something is wrong on our side.</p>`);
}

type Html = ReturnType<typeof raw>;

/** HTML in which every filled in string is text: it cannot add markup, and no character in it is invisible. */
function html(parts: TemplateStringsArray, ...values: readonly (string | Html | readonly Html[])[]): Html {
  // Escaped HTML is a String object, so that `typeof` tells it from text.
  return honoHtml(parts, ...values.map((value) => (typeof value === "string" ? escapeUnsafe(value) : value))) as Html;
}

const STYLE = `
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; }
h2 { font-size: 1rem; overflow-wrap: anywhere; }
dt { font-weight: 600; margin-top: .8rem; }
dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; }
pre { margin: 0; padding: .7rem; border: 1px solid; border-radius: 4px; overflow-wrap: anywhere; white-space: pre-wrap; }
textarea { display: block; font: inherit; width: 100%; box-sizing: border-box; padding: .4rem; margin: .3rem 0; }
button { font: inherit; padding: .5rem 1.5rem; margin-right: 1rem; }
`;

/** A page that loads nothing, runs nothing and is not cached. */
const PAGE_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": `default-src 'none'; style-src 'sha256-${hash("sha256", STYLE, "base64")}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'`,
  // With `no-referrer` a browser sends the form with the origin `null`, which is refused.
  "referrer-policy": "same-origin",
  "cache-control": "no-store",
  "x-frame-options": "DENY",
  "x-content-type-options": "nosniff",
};

function renderPage(status: number, title: string, content: Html, headers: Readonly<Record<string, string>> = {}) {
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>${raw(STYLE)}</style>
</head>
<body>
<h1>${title}</h1>
${content}
</body>
</html>
`;
  return new Response(String(page), { status, headers: { ...PAGE_HEADERS, ...headers } });
}
