import { isIP } from "node:net";
import { systemProcess, systemRuntime } from "../../../app/system-runtime.ts";
import type { ApprovalView } from "../../../approval/approval.ts";
import { signApprovalLink } from "../../../approval/approval-link.ts";
import type { Config } from "../../../config/schema.ts";
import { toOneLine } from "../../../core/display-text.ts";
import { QmError } from "../../../core/errors.ts";
import { quoteName } from "../../../core/names.ts";
import { parseDuration } from "../../../core/runtime.ts";
import {
  buildApprovalUrl,
  findAnnouncedServer,
  getPublicUrl,
  loadOrCreateLinkKey,
} from "../../../http/approval-links.ts";
import { getAddressPath, getLinkKeyPath } from "../../../workspace/state-paths.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { identifyApprover, requirePresence } from "../../approver.ts";
import type { Context } from "../../context.ts";
import { createUsageError } from "../../exit-codes.ts";
import { formatApprovalAnswer } from "./approval-text.ts";
import { findApproval, findConfiguredObjection, requireConfiguredRoles, suggestApprovers } from "./lookup.ts";

type LinkOptions = { readonly for: string; readonly expires: string };
const MAX_NAME_LENGTH = 128;

export async function runApprovalsLink(context: Context, workspace: Workspace, idText: string, options: LinkOptions) {
  const { out, io } = context;
  const { for: approver, expires: lifetime } = options;
  const { quartermaster, config, storePath } = workspace;
  const ms = parseDuration(lifetime);
  if (ms === undefined)
    throw createUsageError(`${quoteName(lifetime)} is not a duration`, "Give --expires like 30m, 8h or 2d.");
  if (approver === "" || approver.length > MAX_NAME_LENGTH)
    throw createUsageError(`a name has 1 to ${MAX_NAME_LENGTH} characters`, "Give --for <name>.");
  const roles = requireConfiguredRoles(config, approver);
  const server = await findAnnouncedServer(getAddressPath(storePath), systemProcess);
  const base = getPublicUrl(config) ?? (server === undefined ? getConfiguredUrl(config) : toLocalUrl(server));
  const approval = await findApproval(quartermaster.approvals, idText);
  if (approval.state !== "pending")
    throw new QmError("conflict", `it is already answered: ${formatApprovalAnswer(approval)}`, {
      hint: `\`qm approvals show ${approval.id}\` shows the outcome.`,
    });
  requireRights(config, approval, approver, "denied");
  const person = await identifyApprover(context, workspace);
  requirePresence(context, person, io.stderr);
  // With a link for another person, the creator of the link could answer as them.
  if (person.hasToken && person.id !== approver) requireRights(config, approval, person.id, "approved");
  const expires = new Date(Math.min(systemRuntime.now().getTime() + ms, Date.parse(approval.expiresAt)));
  const key = await loadOrCreateLinkKey(getLinkKeyPath(storePath));
  const url = buildApprovalUrl(base, signApprovalLink(key, { approvalId: approval.id, approver, roles, expires }));
  out.answer({ url, for: approver, expires }, url);
  if (!out.isJson) out.note(`Anyone who opens it answers as ${approver}, until ${expires.toISOString()}.`);
  const objection = findConfiguredObjection(config, approval, approver, "approved");
  if (objection !== undefined) out.note(`qm: warning: ${toOneLine(objection)}; they can only deny`);
  if (server === undefined) out.note("qm: warning: `qm serve` is not running; the link works only while it runs");
}

function requireRights(config: Config, approval: ApprovalView, name: string, decision: "approved" | "denied"): void {
  const objection = findConfiguredObjection(config, approval, name, decision);
  if (objection === undefined) return;
  const hint = suggestApprovers(config, approval, "approved", (other) => `Give --for ${other}.`);
  throw new QmError("denied", objection, { hint, details: { approval_id: approval.id } });
}

function getConfiguredUrl({ gateway: { host, port } }: Config): URL {
  if (port === 0)
    throw new QmError("invalid_config", "the address of `qm serve` is not known before it runs: gateway.port is 0", {
      hint: "Set gateway.port, or approvals.public_url to the address that people use.",
    });
  return toLocalUrl(new URL(`http://${isIP(host) === 6 ? `[${host}]` : host}:${port}`));
}

/** Replaces a wildcard address by the loopback address. */
function toLocalUrl({ origin, hostname, port }: URL): URL {
  return new URL(hostname === "0.0.0.0" || hostname === "[::]" ? `http://127.0.0.1:${port}` : origin);
}
