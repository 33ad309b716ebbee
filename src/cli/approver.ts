import type { Config } from "../config/schema.ts";

/** Whoever can write to the store and the configuration is bound by neither, until somebody is named. */
const EVERY_ROLE = ["user", "approver", "operator", "admin"];

/** What the person at this machine may agree to. Where approvers are named, only those have roles. */
export function rolesOf({ approvals: { approvers } }: Config, name: string): readonly string[] {
  if (Object.keys(approvers).length === 0) return EVERY_ROLE;
  return Object.hasOwn(approvers, name) ? (approvers[name]?.roles ?? []) : [];
}
