import type { InputRequest, InputRequests } from "@modelcontextprotocol/server";

/** A form with the given fields, all required. */
export function form(message: string, properties: Readonly<Record<string, object>>): InputRequest {
  const requestedSchema = { type: "object", properties, required: Object.keys(properties) };
  return { method: "elicitation/create", params: { message, requestedSchema } } as InputRequest;
}

export function sample(text: string, maxTokens: number): InputRequest {
  const messages = [{ role: "user", content: { type: "text", text } }];
  return { method: "sampling/createMessage", params: { messages, maxTokens } } as InputRequest;
}

export const roots: InputRequest = { method: "roots/list", params: {} };

/** Whether each question has an answer of any kind, so the tool need not ask again. */
export function allAnswered(
  questions: InputRequests,
  responses: Readonly<Record<string, unknown>> | undefined,
): boolean {
  return Object.keys(questions).every((key) => responses !== undefined && Object.hasOwn(responses, key));
}
