import { randomBytes } from "node:crypto";
import {
  type CallToolResult,
  createRequestStateCodec,
  type InputRequests,
  type InputRequiredResult,
  inputRequired,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { allAnswered } from "./fixture-questions.ts";

/** The fixture's own states. They are signed, to detect a gateway that passes on a wrong one. */
export const states = createRequestStateCodec<{ readonly round: number }>({ key: randomBytes(32) });

/** Asks once, with a state that must come back with the answers. */
export function askWithState(
  questions: InputRequests,
  ctx: ServerContext,
): Promise<CallToolResult | InputRequiredResult> {
  return askInRounds([questions], ctx);
}

/** Asks in several rounds. Only the state contains the round. */
export async function askInRounds(
  rounds: readonly InputRequests[],
  { mcpReq }: ServerContext,
): Promise<CallToolResult | InputRequiredResult> {
  const asked = (mcpReq.requestState() as { readonly round: number } | undefined)?.round ?? -1;
  const answered = asked >= 0 && allAnswered(rounds[asked] ?? {}, mcpReq.inputResponses);
  const round = answered ? asked + 1 : Math.max(asked, 0);
  const questions = rounds[round];
  if (questions === undefined) return { content: [{ type: "text", text: "state-ok" }] };
  return inputRequired({ inputRequests: questions, requestState: await states.mint({ round }) });
}
