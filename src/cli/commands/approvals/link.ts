import { isIP } from "node:net";
import { signLink } from "../../../approval/link.ts";
import type { Config } from "../../../config/schema.ts";
import { durationMs } from "../../../core/duration.ts";
import { QmError } from "../../../core/errors.ts";
import { quoted } from "../../../core/names.ts";
import { didYouMean } from "../../../core/nearest.ts";
import { rolesOf } from "../../../http/approvers.ts";
import { linkKeyIn } from "../../../http/link-key.ts";
import { approveUrl, publicUrlOf } from "../../../http/public-url.ts";
import { linkKeyPathOf } from "../../../store-places.ts";
import { systemRuntime } from "../../../system-runtime.ts";
import type { Workspace } from "../../../workspace.ts";
import type { Context } from "../../context.ts";
import { findApproval } from "./find.ts";
import { answerText } from "./words.ts";

export interface LinkOptions {
  readonly for: string;
  readonly expires: string;
}

const LONGEST_NAME = 128;

export async function link(
  { out }: Context,
  { quartermaster, config, storePath }: Workspace,
  given: string,
  options: LinkOptions,
): Promise<void> {
  const { for: approver } = options;
  const ms = durationMs(options.expires);
  if (ms === undefined)
    throw new QmError("invalid_arguments", `${quoted(options.expires)} is no time`, {
      hint: "Give --expires as in 30m, 8h or 2d.",
    });
  const roles = rolesFor(config, approver);
  const place = publicUrlOf(config) ?? listeningAt(config);
  const approval = await findApproval(quartermaster.approvals, given);
  if (approval.state !== "pending")
    throw new QmError("conflict", `it is answered already: ${answerText(approval)}`, {
      hint: `\`qm approvals show ${approval.id}\` shows what became of it.`,
    });
  const expires = new Date(Math.min(systemRuntime.now().getTime() + ms, Date.parse(approval.expiresAt)));
  const key = await linkKeyIn(linkKeyPathOf(storePath));
  const url = approveUrl(place, signLink(key, { approvalId: approval.id, approver, roles, expires }));
  if (out.isJson) return out.json({ url, for: approver, expires });
  out.line(url);
  out.note(`Whoever opens it answers as ${approver}, until ${expires.toISOString()}. \`qm serve\` must be running.`);
}

function rolesFor(config: Config, name: string): readonly string[] {
  if (name === "" || name.length > LONGEST_NAME)
    throw new QmError("invalid_arguments", `a name has 1 to ${LONGEST_NAME} characters`, {
      hint: "Give --for <name>.",
    });
  const roles = rolesOf(config, name);
  if (roles.length > 0) return roles;
  const names = Object.keys(config.approvals.approvers);
  throw new QmError("invalid_arguments", `${quoted(name)} is no approver${didYouMean(name, names)}`, {
    hint: `approvals.approvers has: ${names.join(", ")}.`,
  });
}

/** Where `qm serve` listens, for somebody at this machine. */
function listeningAt({ gateway: { host, port } }: Config): URL {
  if (port === 0)
    throw new QmError("invalid_config", "nobody knows beforehand where `qm serve` will listen: gateway.port is 0", {
      hint: "Set gateway.port, or approvals.public_url to where people reach it.",
    });
  const here = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return new URL(`http://${isIP(here) === 6 ? `[${here}]` : here}:${port}`);
}
