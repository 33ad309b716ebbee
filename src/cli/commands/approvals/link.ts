import { isIP } from "node:net";
import type { ShownApproval } from "../../../approval/approval.ts";
import { signLink } from "../../../approval/link.ts";
import type { Config } from "../../../config/schema.ts";
import { durationMs } from "../../../core/duration.ts";
import { QmError } from "../../../core/errors.ts";
import { quoted } from "../../../core/names.ts";
import { linkKeyIn } from "../../../http/link-key.ts";
import { approveUrl, publicUrlOf } from "../../../http/public-url.ts";
import { servingAt } from "../../../http/serving.ts";
import { addressPathOf, linkKeyPathOf } from "../../../store-places.ts";
import { systemProcess, systemRuntime } from "../../../system-runtime.ts";
import type { Workspace } from "../../../workspace.ts";
import type { Context } from "../../context.ts";
import { personAt, requirePresence } from "../../person.ts";
import { oneLine } from "../../text.ts";
import { findApproval } from "./find.ts";
import { objection, rolesOfNamed, whoElse } from "./people.ts";
import { answerText } from "./words.ts";

export interface LinkOptions {
  readonly for: string;
  readonly expires: string;
}

const LONGEST_NAME = 128;

export async function link(context: Context, workspace: Workspace, given: string, options: LinkOptions): Promise<void> {
  const { out, io } = context;
  const { quartermaster, config, storePath } = workspace;
  const { for: approver } = options;
  const ms = durationMs(options.expires);
  if (ms === undefined)
    throw new QmError("invalid_arguments", `${quoted(options.expires)} is no time`, {
      hint: "Give --expires as in 30m, 8h or 2d.",
    });
  const roles = rolesFor(config, approver);
  const serving = await servingAt(addressPathOf(storePath), systemProcess);
  const place = publicUrlOf(config) ?? (serving === undefined ? configuredPlace(config) : placeOf(serving));
  const approval = await findApproval(quartermaster.approvals, given);
  if (approval.state !== "pending")
    throw new QmError("conflict", `it is answered already: ${answerText(approval)}`, {
      hint: `\`qm approvals show ${approval.id}\` shows what became of it.`,
    });
  requireAble(config, approval, approver);
  const person = await personAt(context, workspace);
  requirePresence(context, person, io.stderr);
  // Whoever makes a link for somebody else could answer as them.
  if (person.hasToken && person.id !== approver) requireAble(config, approval, person.id, "approved");
  const expires = new Date(Math.min(systemRuntime.now().getTime() + ms, Date.parse(approval.expiresAt)));
  const key = await linkKeyIn(linkKeyPathOf(storePath));
  const url = approveUrl(place, signLink(key, { approvalId: approval.id, approver, roles, expires }));
  if (out.isJson) out.json({ url, for: approver, expires });
  else {
    out.line(url);
    out.note(`Whoever opens it answers as ${approver}, until ${expires.toISOString()}.`);
  }
  const only = objection(config, approval, approver, "approved");
  if (only !== undefined) out.note(`qm: warning: ${oneLine(only)}; they can only say no`);
  if (serving === undefined) out.note("qm: warning: no `qm serve` runs now, and the link leads nowhere without it");
}

/** A link for somebody who can answer nothing would only disappoint them. */
function requireAble(
  config: Config,
  approval: ShownApproval,
  name: string,
  decision: "approved" | "denied" = "denied",
): void {
  const why = objection(config, approval, name, decision);
  if (why === undefined) return;
  throw new QmError("denied", why, {
    hint: whoElse(config, approval, "approved", (name) => `Give --for ${name}.`),
    details: { approval_id: approval.id },
  });
}

function rolesFor(config: Config, name: string): readonly string[] {
  if (name === "" || name.length > LONGEST_NAME)
    throw new QmError("invalid_arguments", `a name has 1 to ${LONGEST_NAME} characters`, {
      hint: "Give --for <name>.",
    });
  return rolesOfNamed(config, name);
}

/** Where `qm serve` would listen. */
function configuredPlace({ gateway: { host, port } }: Config): URL {
  if (port === 0)
    throw new QmError("invalid_config", "nobody knows beforehand where `qm serve` will listen: gateway.port is 0", {
      hint: "Set gateway.port, or approvals.public_url to where people reach it.",
    });
  return placeOf(new URL(`http://${isIP(host) === 6 ? `[${host}]` : host}:${port}`));
}

/** The same for somebody at this machine. */
function placeOf({ origin, hostname, port }: URL): URL {
  return new URL(hostname === "0.0.0.0" || hostname === "[::]" ? `http://127.0.0.1:${port}` : origin);
}
