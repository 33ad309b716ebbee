import type { AskedQuestion, Dialogue } from "../core/dialogue.ts";
import { clip, isRecord, type JsonObject } from "../core/json.ts";
import { visible, visibleJson, visibleText } from "../core/visible.ts";
import { type ApprovalAnswer, REASON_LIMIT, type ShownApproval } from "./approval.ts";

/** A longer question is not asked this way: clients cut what they show. */
const LONGEST = 4_000;

/** Whether whoever made the call can be shown a form. From before there were kinds of questions: nothing said means forms. */
export function canBeAsked({ capabilities }: Dialogue): boolean {
  const { elicitation } = capabilities;
  return isRecord(elicitation) && (elicitation.form !== undefined || elicitation.url === undefined);
}

/** The question to the person at the client, in the words of MCP; or why it cannot be asked there. */
export function questionOf(approval: ShownApproval): AskedQuestion | { readonly unfit: string } {
  if (approval.masked.length > 0) return { unfit: "it holds secrets that are masked" };
  const lines = [
    `May ${visible(approval.action)} run? ${visible(approval.reason)}`,
    `Arguments: ${visibleJson(approval.args)}`,
    // Indented: no line of it can be taken for one of ours.
    ...(approval.preview === undefined
      ? []
      : [
          "What it would do:",
          ...visibleText(approval.preview)
            .split("\n")
            .map((line) => `  ${line}`),
        ]),
    ...approval.warnings.map((warning) => `Careful: it ${warning}`),
  ];
  const message = lines.join("\n");
  if (message.length > LONGEST) return { unfit: "it is too long to be shown in full" };
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
export function answerOf({ action, content }: JsonObject): ApprovalAnswer | undefined {
  if (action === "decline") return { decision: "denied" };
  if (action !== "accept" || !isRecord(content)) return undefined;
  const { decision, reason } = content;
  const why = typeof reason === "string" && reason.trim() !== "" ? { reason: clip(reason.trim(), REASON_LIMIT) } : {};
  if (decision === "approve") return { decision: "approved", ...why };
  return decision === "deny" ? { decision: "denied", ...why } : undefined;
}
