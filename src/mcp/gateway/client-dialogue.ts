import { isSpecType, ProtocolError, type ServerContext } from "@modelcontextprotocol/server";
import { type Abortable, toAbortSignal } from "../../core/abortable.ts";
import { type AskedQuestion, canShowForm, type Dialogue } from "../../core/caller.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { getOwn, isRecord, type JsonObject } from "../../core/json.ts";

/** What handlers need of the context of a request. The SDK's has it, and so has that of a plain call. */
export interface RequestContext {
  readonly mcpReq: Pick<
    ServerContext["mcpReq"],
    "id" | "_meta" | "envelope" | "send" | "notify" | "log" | "requestState" | "inputResponses"
  > & { readonly signal: Abortable };
}

export type ClientQuestions = Readonly<Record<string, AskedQuestion>>;
export type ClientAnswers = Readonly<Record<string, JsonObject>>;

interface PushDialogueOptions {
  /** The client's session. It owns all calls of the session. */
  readonly owner: string;
  readonly capabilities: unknown;
  readonly protocolVersion: string;
  readonly questionMs: number;
  readonly newId: () => string;
}

/** Asks a client of the legacy era at once, on the stream of the request that the question belongs to. */
export function createPushDialogue(ctx: RequestContext, client: PushDialogueOptions): Dialogue {
  const capabilities = pickAskableCapabilities(client.capabilities);
  return {
    owner: client.owner,
    capabilities,
    ...createClientNotifier(ctx),
    async ask(questions) {
      requireAskableQuestions(questions, capabilities);
      const answers = await Promise.all(Object.values(questions).map((asked) => pushQuestion(ctx, client, asked)));
      return Object.fromEntries(Object.keys(questions).map((key, at) => [key, answers[at]])) as ClientAnswers;
    },
  };
}

async function pushQuestion(
  { mcpReq }: RequestContext,
  client: PushDialogueOptions,
  { method, params }: AskedQuestion,
) {
  const { protocolVersion, questionMs, newId } = client;
  const { mode, ...withoutMode } = params;
  let adapted = params;
  // Newer clients want an id with a URL to open. Older ones do not know modes.
  if (mode === "url" && params.elicitationId === undefined) adapted = { ...params, elicitationId: newId() };
  else if (mode === "form" && protocolVersion < "2025-11-25") adapted = withoutMode;
  try {
    // The method was checked. The client checks the parameters.
    const request = { method, params: adapted } as never;
    return (await mcpReq.send(request, { timeout: questionMs, signal: toAbortSignal(mcpReq.signal) })) as JsonObject;
  } catch (thrown) {
    const details = thrown instanceof ProtocolError ? { mcp_code: thrown.code } : {};
    throw new QmError("action_failed", `the client did not answer ${method}: ${getErrorMessage(thrown)}`, { details });
  }
}

/** Sends progress and log lines to the client while a request runs. */
export type ClientNotifier = Pick<Dialogue, "progress" | "log">;

/** Progress is sent only with a progress token, log lines only of the level that the client asked for. */
export function createClientNotifier({ mcpReq }: RequestContext): ClientNotifier {
  const progressToken = mcpReq._meta?.progressToken;
  // A client that has gone misses nothing.
  const ignoreFailure = () => {};
  return {
    progress(update) {
      if (progressToken === undefined) return;
      mcpReq.notify({ method: "notifications/progress", params: { ...update, progressToken } }).catch(ignoreFailure);
    },
    log({ level, data, logger }) {
      mcpReq.log(isSpecType.LoggingLevel(level) ? level : "info", data, logger).catch(ignoreFailure);
    },
  };
}

/** The capabilities that allow the client to be asked something. */
export function pickAskableCapabilities(capabilities: unknown): JsonObject {
  if (!isRecord(capabilities)) return {};
  const { elicitation, sampling, roots } = capabilities;
  return {
    ...(isRecord(elicitation) && { elicitation }),
    ...(isRecord(sampling) && { sampling }),
    ...(isRecord(roots) && { roots }),
  } as JsonObject;
}

/** Throws for an unknown question, and for one that the client did not declare that it can answer. */
export function requireAskableQuestions(questions: ClientQuestions, capabilities: JsonObject): void {
  for (const { method, params } of Object.values(questions)) {
    const required = getOwn(QUESTIONS, method)?.needs(params);
    if (required === undefined)
      throw new QmError("action_failed", `a server sent the client an unknown question: ${JSON.stringify(method)}`, {
        details: { mcp_code: -32601 },
      });
    if (!hasCapability(capabilities, required))
      throw new QmError("action_failed", `the client cannot be asked: it did not declare what ${method} needs`, {
        hint: `It needs a client with the capability ${JSON.stringify(required)}.`,
        details: { mcp_code: -32021, mcp_data: { requiredCapabilities: required } },
      });
  }
}

function hasCapability(capabilities: JsonObject, required: JsonObject): boolean {
  return Object.entries(required).every(([name, parts]) => {
    const declared = capabilities[name];
    if (!isRecord(declared)) return false;
    if (name === "elicitation" && isRecord(parts) && "form" in parts) return canShowForm(capabilities);
    return Object.keys(parts as JsonObject).every((part) => declared[part] !== undefined);
  });
}

/** Whether the response has the form of an answer. The code that asked checks its content. */
export const isAnswer = ({ method }: AskedQuestion, response: unknown): response is JsonObject =>
  getOwn(QUESTIONS, method)?.isAnswer(response) ?? false;

/** The questions for clients: the capability that each needs, and the form of its answer. */
const QUESTIONS: Readonly<
  Record<string, { needs(params: JsonObject): JsonObject; isAnswer(response: unknown): boolean }>
> = {
  "elicitation/create": {
    needs: ({ mode }) => ({ elicitation: mode === "url" ? { url: {} } : { form: {} } }),
    isAnswer: (response) => isSpecType.ElicitResult(response),
  },
  "sampling/createMessage": {
    needs: ({ tools, toolChoice }) => ({
      sampling: tools === undefined && toolChoice === undefined ? {} : { tools: {} },
    }),
    isAnswer: (response) =>
      isSpecType.CreateMessageResult(response) || isSpecType.CreateMessageResultWithTools(response),
  },
  "roots/list": { needs: () => ({ roots: {} }), isAnswer: (response) => isSpecType.ListRootsResult(response) },
};
