import { createHmac, timingSafeEqual } from "node:crypto";

/** Lets one person answer one question until it expires, without any other proof of identity. */
export interface ApprovalLink {
  readonly approvalId: string;
  readonly approver: string;
  /** The most the approver may do; their roles at the time of the answer may be fewer. */
  readonly roles: readonly string[];
  readonly expires: Date;
}

/** Keeps these signatures apart from others made with the same key. */
const PURPOSE = "quartermaster approval link 1";
const TOKEN_LIMIT = 4096;

/** A URL-safe token of the link, signed but not encrypted. */
export function signApprovalLink(key: Uint8Array, { approvalId, approver, roles, expires }: ApprovalLink): string {
  const payload = Buffer.from(JSON.stringify([approvalId, approver, roles, expires.getTime()])).toString("base64url");
  return `${payload}.${computeMac(key, payload)}`;
}

/** Returns undefined for a wrong signature or an expired link. Never throws. */
export function readApprovalLink(key: Uint8Array, token: string, now: Date): ApprovalLink | undefined {
  if (token.length > TOKEN_LIMIT) return undefined;
  const [payload = "", mac = "", ...rest] = token.split(".");
  if (rest.length > 0 || !isEqual(mac, computeMac(key, payload))) return undefined;
  type Payload = [approvalId: string, approver: string, roles: readonly string[], expires: number];
  const [approvalId, approver, roles, expires] = JSON.parse(Buffer.from(payload, "base64url").toString()) as Payload;
  return expires > now.getTime() ? { approvalId, approver, roles, expires: new Date(expires) } : undefined;
}

function computeMac(key: Uint8Array, payload: string): string {
  const signed = JSON.stringify([PURPOSE, payload]);
  return createHmac("sha256", key).update(signed).digest("base64url");
}

function isEqual(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
