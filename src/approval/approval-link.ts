import { createHmac, timingSafeEqual } from "node:crypto";

/** Lets one person answer one question, until then, without any other proof of who they are. */
export interface ApprovalLink {
  readonly approvalId: string;
  readonly approver: string;
  /** What the approver may agree to at most; what they may at the time of the answer can be less. */
  readonly roles: readonly string[];
  readonly expires: Date;
}

/** Keeps these apart from whatever else may come to be signed with the same key. */
const PURPOSE = "quartermaster approval link 1";

/** Longer than any honest one. */
const TOKEN_LIMIT = 4096;

/** The link as text that can stand in an address: whoever holds it can read it, and nobody can change it. */
export function signApprovalLink(key: Uint8Array, { approvalId, approver, roles, expires }: ApprovalLink): string {
  const payload = Buffer.from(JSON.stringify([approvalId, approver, roles, expires.getTime()])).toString("base64url");
  return `${payload}.${computeMac(key, payload)}`;
}

/** Undefined where it was not signed with this key, was changed, or is too old. Never throws, whatever it is given. */
export function readApprovalLink(key: Uint8Array, token: string, now: Date): ApprovalLink | undefined {
  if (token.length > TOKEN_LIMIT) return undefined;
  const [payload = "", mac = "", ...rest] = token.split(".");
  if (rest.length > 0 || !isEqual(mac, computeMac(key, payload))) return undefined;
  // Only what was signed here gets to this line.
  const [approvalId, approver, roles, expires] = JSON.parse(Buffer.from(payload, "base64url").toString()) as [
    string,
    string,
    readonly string[],
    number,
  ];
  return expires > now.getTime() ? { approvalId, approver, roles, expires: new Date(expires) } : undefined;
}

function computeMac(key: Uint8Array, payload: string): string {
  return createHmac("sha256", key)
    .update(JSON.stringify([PURPOSE, payload]))
    .digest("base64url");
}

/** In the same time, however much of it is right. */
function isEqual(given: string, expected: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(expected)];
  return one.length === other.length && timingSafeEqual(one, other);
}
