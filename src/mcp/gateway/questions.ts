import { isSpecType } from "@modelcontextprotocol/server";
import type { AskedQuestion } from "../../core/dialogue.ts";
import { QmError } from "../../core/errors.ts";
import { isRecord, type JsonObject } from "../../core/json.ts";

export type Questions = Readonly<Record<string, AskedQuestion>>;
export type Answers = Readonly<Record<string, JsonObject>>;

const METHODS = ["elicitation/create", "sampling/createMessage", "roots/list"] as const;

/** A question's method, once it was checked to be one that can be asked. */
export type QuestionMethod = (typeof METHODS)[number];

/** A client without the capability is never asked. */
const MISSING_CAPABILITY = -32021;

/** Of what a client says it can do, what it can be asked. */
export function askable(capabilities: unknown): JsonObject {
  if (!isRecord(capabilities)) return {};
  const { elicitation, sampling, roots } = capabilities;
  const known = Object.entries({ elicitation, sampling, roots }).filter(([, value]) => isRecord(value));
  return Object.fromEntries(known) as JsonObject;
}

/** Throws where one of the questions is none, or the client did not say that it can answer it. */
export function requireAskable(questions: Questions, capabilities: JsonObject): void {
  for (const { method, params } of Object.values(questions)) {
    if (!METHODS.some((known) => known === method)) {
      throw new QmError(
        "action_failed",
        `a server asked the client for ${JSON.stringify(method)}, which is no question`,
        {
          details: { mcp_code: -32601 },
        },
      );
    }
    const required = requiredFor(method as QuestionMethod, params);
    if (!declares(capabilities, required)) throw cannotBeAsked(method, required);
  }
}

/** Whether it is an answer to that question; what it says is for whoever asked to judge. */
export function answersIt({ method }: AskedQuestion, response: unknown): response is JsonObject {
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

function requiredFor(method: QuestionMethod, params: JsonObject): JsonObject {
  if (method === "elicitation/create") return { elicitation: params.mode === "url" ? { url: {} } : { form: {} } };
  if (method === "roots/list") return { roots: {} };
  return { sampling: params.tools === undefined && params.toolChoice === undefined ? {} : { tools: {} } };
}

function declares(capabilities: JsonObject, required: JsonObject): boolean {
  return Object.entries(required).every(([name, parts]) => {
    const declared = capabilities[name];
    if (!isRecord(declared)) return false;
    // From before there were modes: nothing said means forms.
    if (name === "elicitation" && declared.form === undefined && declared.url === undefined) {
      return isRecord(parts) && "form" in parts;
    }
    return Object.keys(parts as JsonObject).every((part) => declared[part] !== undefined);
  });
}

function cannotBeAsked(method: string, required: JsonObject): QmError {
  return new QmError("action_failed", `the client cannot be asked: it did not declare what ${method} needs`, {
    hint: `It needs a client with the capability ${JSON.stringify(required)}.`,
    details: { mcp_code: MISSING_CAPABILITY, mcp_data: { requiredCapabilities: required } },
  });
}
