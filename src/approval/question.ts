import type { AskedQuestion, Dialogue } from "../core/dialogue.ts";
import { clip, isRecord, type JsonObject } from "../core/json.ts";
import { plain } from "../core/plain-text.ts";
import { type ApprovalAnswer, REASON_LIMIT, type ShownApproval } from "./approval.ts";

/** What does not fit is not asked this way: nobody agrees to what they were not shown. */
const SHOWN = 4_000;

/** Whether whoever made the call can be shown a form. From before there were kinds of questions: nothing said means forms. */
export function canBeAsked({ capabilities }: Dialogue): boolean {
  const { elicitation } = capabilities;
  return isRecord(elicitation) && (elicitation.form !== undefined || elicitation.url === undefined);
}

/** The question to the person at the client, in the words of MCP; undefined where it would not show everything. */
export function questionOf(approval: ShownApproval): AskedQuestion | undefined {
  const lines = [
    `May ${approval.action} run? ${approval.reason}`,
    ...(approval.preview === undefined ? [] : [`What it would do: ${approval.preview}`]),
    `Arguments: ${JSON.stringify(approval.args)}`,
  ];
  const message = plain(lines.join("\n"));
  if (message.length > SHOWN) return undefined;
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
