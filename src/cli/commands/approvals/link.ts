import { isIP } from "node:net";
import { systemProcess, systemRuntime } from "../../../app/system-runtime.ts";
import type { ApprovalView } from "../../../approval/approval.ts";
import { signApprovalLink } from "../../../approval/approval-link.ts";
import type { Config } from "../../../config/schema.ts";
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
import type { CommandContext } from "../../context.ts";
import { toOneLine } from "../../terminal-text.ts";
import { formatApprovalAnswer } from "./approval-text.ts";
import { findApproval, findConfiguredObjection, requireConfiguredRoles, suggestApprovers } from "./lookup.ts";

export interface LinkOptions {
  readonly for: string;
  readonly expires: string;
}

const LONGEST_NAME = 128;

export async function runApprovalsLink(
  context: CommandContext,
  workspace: Workspace,
  given: string,
  options: LinkOptions,
): Promise<void> {
  const { out, io } = context;
  const { quartermaster, config, storePath } = workspace;
  const { for: approver } = options;
  const ms = parseDuration(options.expires);
  if (ms === undefined)
    throw new QmError("invalid_arguments", `${quoteName(options.expires)} is no time`, {
      hint: "Give --expires as in 30m, 8h or 2d.",
    });
  const roles = requireNamedRoles(config, approver);
  const serving = await findAnnouncedServer(getAddressPath(storePath), systemProcess);
  const place = getPublicUrl(config) ?? (serving === undefined ? getConfiguredUrl(config) : toLocalUrl(serving));
  const approval = await findApproval(quartermaster.approvals, given);
  if (approval.state !== "pending")
    throw new QmError("conflict", `it is answered already: ${formatApprovalAnswer(approval)}`, {
      hint: `\`qm approvals show ${approval.id}\` shows what became of it.`,
    });
  requireAbleApprover(config, approval, approver);
  const person = await identifyApprover(context, workspace);
  requirePresence(context, person, io.stderr);
  // Whoever makes a link for somebody else could answer as them.
  if (person.hasToken && person.id !== approver) requireAbleApprover(config, approval, person.id, "approved");
  const expires = new Date(Math.min(systemRuntime.now().getTime() + ms, Date.parse(approval.expiresAt)));
  const key = await loadOrCreateLinkKey(getLinkKeyPath(storePath));
  const url = buildApprovalUrl(place, signApprovalLink(key, { approvalId: approval.id, approver, roles, expires }));
  if (out.isJson) out.json({ url, for: approver, expires });
  else {
    out.line(url);
    out.note(`Whoever opens it answers as ${approver}, until ${expires.toISOString()}.`);
  }
  const only = findConfiguredObjection(config, approval, approver, "approved");
  if (only !== undefined) out.note(`qm: warning: ${toOneLine(only)}; they can only say no`);
  if (serving === undefined) out.note("qm: warning: no `qm serve` runs now, and the link leads nowhere without it");
}

/** A link for somebody who can answer nothing would only disappoint them. */
function requireAbleApprover(
  config: Config,
  approval: ApprovalView,
  name: string,
  decision: "approved" | "denied" = "denied",
): void {
  const why = findConfiguredObjection(config, approval, name, decision);
  if (why === undefined) return;
  throw new QmError("denied", why, {
    hint: suggestApprovers(config, approval, "approved", (name) => `Give --for ${name}.`),
    details: { approval_id: approval.id },
  });
}

function requireNamedRoles(config: Config, name: string): readonly string[] {
  if (name === "" || name.length > LONGEST_NAME)
    throw new QmError("invalid_arguments", `a name has 1 to ${LONGEST_NAME} characters`, {
      hint: "Give --for <name>.",
    });
  return requireConfiguredRoles(config, name);
}

/** Where `qm serve` would listen. */
function getConfiguredUrl({ gateway: { host, port } }: Config): URL {
  if (port === 0)
    throw new QmError("invalid_config", "nobody knows beforehand where `qm serve` will listen: gateway.port is 0", {
      hint: "Set gateway.port, or approvals.public_url to where people reach it.",
    });
  return toLocalUrl(new URL(`http://${isIP(host) === 6 ? `[${host}]` : host}:${port}`));
}

/** The same for somebody at this machine. */
function toLocalUrl({ origin, hostname, port }: URL): URL {
  return new URL(hostname === "0.0.0.0" || hostname === "[::]" ? `http://127.0.0.1:${port}` : origin);
}
