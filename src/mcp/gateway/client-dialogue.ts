import { isSpecType, type LoggingLevel, ProtocolError, type ServerContext } from "@modelcontextprotocol/server";
import { type AskedQuestion, canShowForm, type Dialogue } from "../../core/caller.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { isRecord, type JsonObject } from "../../core/json.ts";

export type ClientQuestions = Readonly<Record<string, AskedQuestion>>;
export type ClientAnswers = Readonly<Record<string, JsonObject>>;

const QUESTION_METHODS = ["elicitation/create", "sampling/createMessage", "roots/list"] as const;

/** A question's method, once it was checked to be one that can be asked. */
type QuestionMethod = (typeof QUESTION_METHODS)[number];

/** A client without the capability is never asked. */
const MISSING_CAPABILITY = -32021;

/** Of what a client says it can do, what it can be asked. */
export function pickAskableCapabilities(capabilities: unknown): JsonObject {
  if (!isRecord(capabilities)) return {};
  const { elicitation, sampling, roots } = capabilities;
  const known = Object.entries({ elicitation, sampling, roots }).filter(([, value]) => isRecord(value));
  return Object.fromEntries(known) as JsonObject;
}

/** Throws where one of the questions is none, or the client did not say that it can answer it. */
export function requireAskableQuestions(questions: ClientQuestions, capabilities: JsonObject): void {
  for (const { method, params } of Object.values(questions)) {
    if (!QUESTION_METHODS.some((known) => known === method)) {
      throw new QmError(
        "action_failed",
        `a server asked the client for ${JSON.stringify(method)}, which is no question`,
        {
          details: { mcp_code: -32601 },
        },
      );
    }
    const required = getRequiredCapability(method as QuestionMethod, params);
    if (!hasCapability(capabilities, required)) throw createCannotAskError(method, required);
  }
}

/** Whether it is an answer to that question; what it says is for whoever asked to judge. */
export function isAnswer({ method }: AskedQuestion, response: unknown): response is JsonObject {
  switch (method as QuestionMethod) {
    case "elicitation/create":
      return isSpecType.ElicitResult(response);
    case "sampling/createMessage":
      return isSpecType.CreateMessageResult(response) || isSpecType.CreateMessageResultWithTools(response);
    case "roots/list":
      return isSpecType.ListRootsResult(response);
    default:
      return false;
  }
}

function getRequiredCapability(method: QuestionMethod, params: JsonObject): JsonObject {
  if (method === "elicitation/create") return { elicitation: params.mode === "url" ? { url: {} } : { form: {} } };
  if (method === "roots/list") return { roots: {} };
  return { sampling: params.tools === undefined && params.toolChoice === undefined ? {} : { tools: {} } };
}

function hasCapability(capabilities: JsonObject, required: JsonObject): boolean {
  return Object.entries(required).every(([name, parts]) => {
    const declared = capabilities[name];
    if (!isRecord(declared)) return false;
    if (name === "elicitation" && isRecord(parts) && "form" in parts) return canShowForm(capabilities);
    return Object.keys(parts as JsonObject).every((part) => declared[part] !== undefined);
  });
}

function createCannotAskError(method: string, required: JsonObject): QmError {
  return new QmError("action_failed", `the client cannot be asked: it did not declare what ${method} needs`, {
    hint: `It needs a client with the capability ${JSON.stringify(required)}.`,
    details: { mcp_code: MISSING_CAPABILITY, mcp_data: { requiredCapabilities: required } },
  });
}

/** What one request lets its client be told until it is answered. */
export type ClientNotifier = Pick<Dialogue, "progress" | "log">;

const LOGGING_LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] as const;

/** Progress goes to whoever gave a token for it; log lines to whoever asked for lines of that level. */
export function createClientNotifier({ mcpReq }: ServerContext): ClientNotifier {
  const progressToken = mcpReq._meta?.progressToken;
  return {
    progress(update) {
      if (progressToken === undefined) return;
      ignoreFailure(mcpReq.notify({ method: "notifications/progress", params: { ...update, progressToken } }));
    },
    log({ level, data, logger }) {
      ignoreFailure(mcpReq.log(toLoggingLevel(level), data, logger));
    },
  };
}

function toLoggingLevel(level: string): LoggingLevel {
  return LOGGING_LEVELS.find((known) => known === level) ?? "info";
}

/** Nobody waits for it, and a client that has gone does not miss it. */
function ignoreFailure(sending: Promise<void>): void {
  sending.catch(() => {});
}

interface PushDialogueOptions {
  /** The session it has: all its calls are of one owner. */
  readonly owner: string;
  readonly capabilities: unknown;
  /** As it was agreed on when the client came. */
  readonly protocolVersion: string;
  readonly questionMs: number;
  readonly newId: () => string;
}

/** A client of the legacy era is asked at once, on the stream of the request that the question belongs to. */
export function createPushDialogue(ctx: ServerContext, client: PushDialogueOptions): Dialogue {
  const capabilities = pickAskableCapabilities(client.capabilities);
  return {
    owner: client.owner,
    capabilities,
    ...createClientNotifier(ctx),
    async ask(questions) {
      requireAskableQuestions(questions, capabilities);
      const asked = Object.entries(questions).map(async ([key, question]) => [
        key,
        await pushQuestion(ctx, client, question),
      ]);
      return Object.fromEntries(await Promise.all(asked)) as ClientAnswers;
    },
  };
}

async function pushQuestion(
  ctx: ServerContext,
  client: PushDialogueOptions,
  { method, params }: AskedQuestion,
): Promise<JsonObject> {
  const request = { method: method as QuestionMethod, params: adaptParams(params, client) };
  try {
    // Which of the three it is was checked; that its parameters are right is for the client to say.
    const answer = await ctx.mcpReq.send(request as never, { timeout: client.questionMs, signal: ctx.mcpReq.signal });
    return answer as JsonObject;
  } catch (thrown) {
    const details = thrown instanceof ProtocolError ? { mcp_code: thrown.code } : {};
    throw new QmError("action_failed", `the client did not answer ${method}: ${getErrorMessage(thrown)}`, { details });
  }
}

/** Older clients do not know of modes, and those that do want an id with an address to open. */
function adaptParams(params: JsonObject, { protocolVersion, newId }: PushDialogueOptions): JsonObject {
  const { mode, ...rest } = params;
  if (mode === "url" && params.elicitationId === undefined) return { ...params, elicitationId: newId() };
  return mode === "form" && protocolVersion < "2025-11-25" ? rest : params;
}
