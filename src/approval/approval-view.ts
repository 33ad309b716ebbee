import type { AskedQuestion, Dialogue } from "../core/caller.ts";
import { listCharacterWarnings, toVisibleJson, toVisibleLine, toVisibleText } from "../core/display-text.ts";
import { clip, isRecord, type Json, type JsonObject } from "../core/json.ts";
import type { MaskedSecret, MaskedValue } from "../core/known-secret.ts";
import { type Approval, type ApprovalAnswer, type ApprovalView, REASON_LIMIT } from "./approval.ts";

/** A longer question is not asked this way: clients cut what they show. */
const MESSAGE_LIMIT = 4_000;

/** Whether whoever made the call can be shown a form. From before there were kinds of questions: nothing said means forms. */
export function canElicit({ capabilities }: Dialogue): boolean {
  const { elicitation } = capabilities;
  return isRecord(elicitation) && (elicitation.form !== undefined || elicitation.url === undefined);
}

/** The question to the person at the client, in the words of MCP; or why it cannot be asked there. */
export function toElicitation(approval: ApprovalView): AskedQuestion | { readonly unfit: string } {
  if (approval.masked.length > 0) return { unfit: "it holds secrets that are masked" };
  const lines = [
    `May ${toVisibleLine(approval.action)} run? ${toVisibleLine(approval.reason)}`,
    `Arguments: ${toVisibleJson(approval.args)}`,
    // Indented: no line of it can be taken for one of ours.
    ...(approval.preview === undefined
      ? []
      : [
          "What it would do:",
          ...toVisibleText(approval.preview)
            .split("\n")
            .map((line) => `  ${line}`),
        ]),
    ...approval.warnings.map((warning) => `Careful: it ${warning}`),
  ];
  const message = lines.join("\n");
  if (message.length > MESSAGE_LIMIT) return { unfit: "it is too long to be shown in full" };
  return {
    method: "elicitation/create",
    params: {
      mode: "form",
      message,
      requestedSchema: {
        type: "object",
        properties: {
          decision: {
            type: "string",
            title: "Your decision",
            enum: ["approve", "deny"],
            description: "approve: exactly this call runs, once. deny: it does not run.",
          },
          reason: { type: "string", title: "Why", maxLength: REASON_LIMIT },
        },
        required: ["decision"],
      },
    },
  };
}

/** What the person said; undefined where they put the question away without saying. */
export function parseElicitationAnswer({ action, content }: JsonObject): ApprovalAnswer | undefined {
  if (action === "decline") return { decision: "denied" };
  if (action !== "accept" || !isRecord(content)) return undefined;
  const { decision, reason } = content;
  const why = typeof reason === "string" && reason.trim() !== "" ? { reason: clip(reason.trim(), REASON_LIMIT) } : {};
  if (decision === "approve") return { decision: "approved", ...why };
  return decision === "deny" ? { decision: "denied", ...why } : undefined;
}

/** An approval as people are shown it: exactly what would run, but for known secrets that `mask` hides by name. */
export function toApprovalView(approval: Approval, mask: (value: Json) => MaskedValue): ApprovalView {
  const { args, outcome: _outcome, delivered: _, executor: _executor, caller, preview, ...rest } = approval;
  const { actor, session, turn, tenant, user, person } = caller;
  const { value, masked } = mask(preview === undefined ? [args] : [args, preview]);
  const [shownArgs = null, shownPreview] = value as readonly Json[];
  return {
    ...rest,
    args: shownArgs,
    ...(preview === undefined ? {} : { preview: String(shownPreview) }),
    masked,
    warnings: listWarnings([args, preview ?? null], value),
    actor,
    session,
    ...(turn === undefined ? {} : { turn }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(user === undefined ? {} : { user: user.id }),
    ...(person === undefined ? {} : { person }),
  };
}

/** `GITHUB_TOKEN (2 times)`, for people: what is masked, so that nothing else is taken for a mask. */
export function formatMaskedSecrets(masked: readonly MaskedSecret[]): string {
  return masked.map(({ name, times }) => (times === 1 ? name : `${name} (${times} times)`)).join(", ");
}

/** A caller may write what looks like a mask, to have somebody believe that a harmless secret stands there. */
const LIKE_A_MASK = /\[\s*(?:secret|redacted)\b/i;

function listWarnings(exact: Json, shown: Json): readonly string[] {
  return [
    ...listCharacterWarnings(collectText(shown)),
    ...(LIKE_A_MASK.test(collectText(exact)) ? ["contains text that looks like a masked secret and is none"] : []),
  ];
}

/** Every text in a value, keys included, as it is and not as JSON would escape it. */
function collectText(value: Json): string {
  const texts: string[] = [];
  const collect = (part: Json): void => {
    if (typeof part === "string") texts.push(part);
    else if (Array.isArray(part)) for (const each of part) collect(each);
    else if (isRecord(part))
      for (const key of Object.keys(part)) {
        texts.push(key);
        collect(part[key] as Json);
      }
  };
  collect(value);
  return texts.join("\n");
}
