import type { JsonSchema } from "./action.ts";
import type { Json } from "./json.ts";

/** One request to a language model. Plain data, so that an unfinished conversation can be stored and continued. */
export interface ModelRequest {
  readonly system?: string;
  readonly messages: readonly ModelMessage[];
  readonly tools?: readonly ModelTool[];
  /** Default: `auto`. `required`: the model must call a tool. `tool`: it must call this one. */
  readonly toolChoice?: "auto" | "required" | "none" | { readonly tool: string };
  /** Asks for JSON that fits the schema. Not every model obeys, so check the answer. */
  readonly outputSchema?: JsonSchema;
  readonly maxOutputTokens?: number;
  readonly temperature?: number;
}

export type ModelMessage =
  | { readonly role: "user"; readonly text: string }
  | ModelAnswerMessage
  | { readonly role: "tool"; readonly results: readonly ModelToolResult[] };

/** An answer as part of the conversation. `raw`: the parts as the provider needs them back, for example signed reasoning. */
export interface ModelAnswerMessage {
  readonly role: "assistant";
  readonly text: string;
  readonly toolCalls: readonly ModelToolCall[];
  readonly raw?: Json;
}

export interface ModelTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
}

/** `args` is as the model wrote it: not validated. */
export type ModelToolCall = { readonly id: string; readonly name: string; readonly args: unknown };
export type ModelToolResult = { readonly id: string; readonly name: string; readonly text: string };

export interface ModelAnswer {
  readonly message: ModelAnswerMessage;
  /** `length`: the answer was cut at its limit of tokens. */
  readonly finish: "stop" | "length" | "tool-calls" | "content-filter" | "error" | "other";
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** How often the request was sent. Absent: once. */
  readonly attempts?: number;
}

/** The price of a million tokens, in the currency of the budgets. */
export type ModelPrice = { readonly input: number; readonly output: number };

/** Gets the text of an answer, piece by piece, while the model writes it. */
export type TextListener = (piece: string) => void;

/** A language model. `generate` rejects with a `QmError`, and when the signal aborts. */
export interface Model {
  /** As the ledger and the price list name it. */
  readonly name: string;
  /** Absent: unknown, so it cannot be used under a budget for costs. */
  readonly price?: ModelPrice;
  /** Says why it cannot be used now, such as a missing key. Absent: it can. */
  findProblem?(): string | undefined;
  /** With `onText`, the answer is streamed if the model can do that. The returned answer is whole in any case. */
  generate(request: ModelRequest, signal: AbortSignal, onText?: TextListener): Promise<ModelAnswer>;
}

/** The model as a handler gets it: its caller pays. */
export type CallModel = (request: ModelRequest, onText?: TextListener) => Promise<ModelAnswer>;
