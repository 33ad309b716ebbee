import { errorCodes, messageOf, QmError } from "../core/errors.ts";
import { visibleJson } from "../core/visible.ts";

const NOT_KEPT = { "cache-control": "no-store", "x-content-type-options": "nosniff" };

/** JSON that shows on a terminal what is in it, also where nobody parses it. */
export function json(value: unknown): Response {
  return jsonText(visibleJson(value));
}

export function jsonText(text: string): Response {
  return new Response(text, { headers: { ...NOT_KEPT, "content-type": "application/json" } });
}

/** What went wrong, with the status of its code unless another one says more. */
export function problem(error: QmError, status?: number, headers: Readonly<Record<string, string>> = {}): Response {
  return Response.json(error.toProblem(), {
    status: status ?? errorCodes[error.code].http,
    headers: { ...NOT_KEPT, "content-type": "application/problem+json", ...headers },
  });
}

/** For what was thrown while answering. What is nobody's to know is told elsewhere. */
export function problemOf(thrown: unknown, onProblem: (problem: string) => void): Response {
  if (thrown instanceof QmError) return problem(thrown);
  onProblem(`a request could not be answered: ${messageOf(thrown)}`);
  return problem(new QmError("internal", "this could not be answered"));
}

export function wrongMethod(allowed: string): Response {
  const error = new QmError("invalid_arguments", "this method is not known here", { hint: `Use ${allowed}.` });
  return problem(error, 405, { allow: allowed });
}

export function unauthorized(hadToken: boolean): Response {
  const error = new QmError("denied", hadToken ? "this token is nobody's" : "an approver's token is needed", {
    hint: "Send Authorization: Bearer <token>, with a token of approvals.approvers.",
  });
  const challenge = `Bearer realm="quartermaster"${hadToken ? ', error="invalid_token"' : ""}`;
  return problem(error, 401, { "www-authenticate": challenge });
}
