import { ProtocolError, type ServerContext } from "@modelcontextprotocol/server";
import type { AskedQuestion, Dialogue } from "../../core/dialogue.ts";
import { messageOf, QmError } from "../../core/errors.ts";
import type { JsonObject } from "../../core/json.ts";
import { type Answers, askable, type QuestionMethod, requireAskable } from "./questions.ts";
import { tellingOf } from "./telling.ts";

export interface PushedClient {
  /** The session it has: all its calls are of one owner. */
  readonly owner: string;
  readonly capabilities: unknown;
  /** As it was agreed on when the client came. */
  readonly protocolVersion: string;
  readonly questionMs: number;
  readonly newId: () => string;
}

/** A client of the legacy era is asked at once, on the stream of the request that the question belongs to. */
export function pushedDialogue(ctx: ServerContext, client: PushedClient): Dialogue {
  const capabilities = askable(client.capabilities);
  return {
    owner: client.owner,
    capabilities,
    ...tellingOf(ctx),
    async ask(questions) {
      requireAskable(questions, capabilities);
      const asked = Object.entries(questions).map(async ([key, question]) => [key, await push(ctx, client, question)]);
      return Object.fromEntries(await Promise.all(asked)) as Answers;
    },
  };
}

async function push(ctx: ServerContext, client: PushedClient, { method, params }: AskedQuestion): Promise<JsonObject> {
  const request = { method: method as QuestionMethod, params: fitting(params, client) };
  try {
    // Which of the three it is was checked; that its parameters are right is for the client to say.
    const answer = await ctx.mcpReq.send(request as never, { timeout: client.questionMs, signal: ctx.mcpReq.signal });
    return answer as JsonObject;
  } catch (thrown) {
    const details = thrown instanceof ProtocolError ? { mcp_code: thrown.code } : {};
    throw new QmError("action_failed", `the client did not answer ${method}: ${messageOf(thrown)}`, { details });
  }
}

/** Older clients do not know of modes, and those that do want an id with an address to open. */
function fitting(params: JsonObject, { protocolVersion, newId }: PushedClient): JsonObject {
  const { mode, ...rest } = params;
  if (mode === "url" && params.elicitationId === undefined) return { ...params, elicitationId: newId() };
  return mode === "form" && protocolVersion < "2025-11-25" ? rest : params;
}
