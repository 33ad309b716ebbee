import { type AskedQuestion, flattenCaller } from "../core/caller.ts";
import { toVisibleJson, toVisibleLine, toVisibleText } from "../core/display-text.ts";
import { isRecord, type Json, type JsonObject } from "../core/json.ts";
import type { MaskedSecret, MaskedValue } from "../core/known-secret.ts";
import { type Approval, type ApprovalAnswer, type ApprovalView, REASON_LIMIT, toReason } from "./approval.ts";
import { type FilePortion, formatFilePart } from "./file-portion.ts";
import { listWarnings } from "./text-warnings.ts";

/** A longer question is not asked by form, because clients cut what they show. */
export const MESSAGE_LIMIT = 4_000;

export function toElicitation(
  approval: ApprovalView,
  { parts, next }: FilePortion,
): AskedQuestion | { readonly unfit: string } {
  const { action, reason, args, preview } = approval;
  const all = [approval, ...parts];
  if (all.some(({ masked }) => masked.length > 0)) return { unfit: "it holds secrets that are masked" };
  const lines = [`May ${toVisibleLine(action)} run? ${toVisibleLine(reason)}`, `Arguments: ${toVisibleJson(args)}`];
  // Indented, so that none of its lines can be taken for one of ours.
  if (preview !== undefined) lines.push("What it would do:", `  ${toVisibleText(preview).replaceAll("\n", "\n  ")}`);
  lines.push(...parts.flatMap(formatFilePart));
  const warnings = new Set(all.flatMap((each) => each.warnings));
  const message = [...lines, ...[...warnings].map((warning) => `Careful: it ${warning}`)].join("\n");
  if (message.length > MESSAGE_LIMIT || next !== undefined) return { unfit: "it is too long to be shown in full" };
  const description = "approve: exactly this call runs, once. deny: it does not run.";
  const decision = { type: "string", title: "Your decision", enum: ["approve", "deny"], description };
  const properties = { decision, reason: { type: "string", title: "Why", maxLength: REASON_LIMIT } };
  const requestedSchema = { type: "object", properties, required: ["decision"] };
  return { method: "elicitation/create", params: { mode: "form", message, requestedSchema } };
}

export function parseElicitationAnswer({ action, content }: JsonObject): ApprovalAnswer | undefined {
  if (action === "decline") return { decision: "denied" };
  if (action !== "accept" || !isRecord(content)) return undefined;
  const why = toReason(typeof content.reason === "string" ? content.reason : undefined);
  if (content.decision === "approve") return { decision: "approved", ...why };
  return content.decision === "deny" ? { decision: "denied", ...why } : undefined;
}

/** The approval for people: exactly what would run, except for known secrets that `mask` replaces by their names. */
export function toApprovalView(approval: Approval, mask: (value: Json) => MaskedValue): ApprovalView {
  const { args, outcome: _outcome, delivered: _, executor: _executor, caller, preview, ...rest } = approval;
  const { value, masked } = mask(preview === undefined ? [args] : [args, preview]);
  const [maskedArgs = null, maskedPreview] = value as readonly Json[];
  return {
    ...rest,
    args: maskedArgs,
    ...(preview === undefined ? {} : { preview: String(maskedPreview) }),
    masked,
    warnings: listWarnings([args, preview ?? null], value),
    ...flattenCaller(caller),
  };
}

/** `GITHUB_TOKEN (2 times)`: the masked secrets, so that no other text is taken for a mask. */
export const formatMaskedSecrets = (masked: readonly MaskedSecret[]): string =>
  masked.map(({ name, times }) => (times === 1 ? name : `${name} (${times} times)`)).join(", ");
