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

/** States of the fixture's own, signed, so that a gateway that hands on a wrong one is found out. */
export const states = createRequestStateCodec<{ readonly round: number }>({ key: randomBytes(32) });

/** Asks once, with a state that has to come back with the answers. */
export function askWithState(
  questions: InputRequests,
  ctx: ServerContext,
): Promise<CallToolResult | InputRequiredResult> {
  return askInRounds([questions], ctx);
}

/** Asks round after round; which one it is, only the state says. */
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
