import {
  type CallToolResult,
  isSpecType,
  ProtocolError,
  ProtocolErrorCode,
  SERVER_INFO_META_KEY,
} from "@modelcontextprotocol/server";
import type { Problem } from "../../core/errors.ts";
import { type ContentBlock, formatContent, measureMedia } from "../../core/handler-result.ts";
import { isRecord, type Json, type JsonObject } from "../../core/json.ts";
import { type Outcome, toWaitingFacts, VALUE_LIMIT } from "../../core/outcome.ts";
import type { SurfaceAnswer } from "../../surface/surface.ts";
import type { GatewayEra } from "./gateway.ts";

/** In characters. */
const MEDIA_LIMIT = 1024 * 1024;
const INVALID_BLOCK_LIMIT = 4096;

/**
 * The answer of a surface: limited text and media, and the data if it is small enough to be sent twice. Some clients show
 * a model the data instead of the text, so data with a shorter text is left out.
 */
export function toToolResult(answer: SurfaceAnswer, era: GatewayEra): CallToolResult {
  const { ok, data, text, content, callId, isTextPreferred = false } = answer;
  return toResult({
    content: [{ type: "text", text }, ...selectMedia(content?.blocks ?? [])],
    ...(isTextPreferred ? {} : toStructuredContent(data, era)),
    ...(ok ? {} : { isError: true }),
    ...(callId === undefined ? {} : { _meta: { "quartermaster/callId": callId } }),
  });
}

/**
 * The outcome of a server's tool, unchanged. Throws the server's own protocol error, and for an unknown tool. Clients
 * check structured content against the output schema, so an error of ours has none if there is a schema.
 */
export function toPassThroughResult(outcome: Outcome, outputSchema: unknown, era: GatewayEra): CallToolResult {
  const { content, value } = outcome;
  const meta = pickMeta(content?.meta);
  // `value` may be cut for models. The data of a single text is all of it.
  const text = outcome.status === "done" && typeof outcome.data === "string" ? outcome.data : value;
  const blocks = content === undefined ? [{ type: "text", text }] : content.blocks.map(toValidBlock);
  if (outcome.status === "done") {
    const structured = content?.structured ? toPassedContent(outcome.data, blocks, outputSchema, era) : {};
    return toResult({ content: blocks, ...structured, ...meta });
  }
  if (outcome.status === "waiting") return toResult({ content: blocks, isError: true });
  if (content !== undefined) {
    const own = content.errorData === undefined ? {} : toPassedContent(content.errorData, blocks, outputSchema, era);
    return toResult({ content: blocks, ...own, isError: true, ...meta });
  }
  throwProtocolError(outcome.error);
  if (outcome.error.code === "unknown_action") throw createInvalidParamsError(outcome.error);
  const problem = outputSchema === undefined ? { structuredContent: toProblemJson(outcome) } : {};
  return toResult({ content: blocks, ...problem, isError: true });
}

/**
 * Structured content that is no object needs a text beside it. In the legacy era it must be an object, and clients see its
 * schema inside that of an object.
 */
function toPassedContent(data: unknown, blocks: readonly ContentBlock[], outputSchema: unknown, era: GatewayEra) {
  const needsText = !isRecord(data) && !blocks.some(({ type }) => type === "text");
  const content = needsText ? { content: [...blocks, { type: "text", text: JSON.stringify(data) }] } : {};
  const isWrapped = !isRecord(data) || (isRecord(outputSchema) && outputSchema.type !== "object");
  return { ...content, structuredContent: era === "legacy" && isWrapped ? { result: data } : data };
}

/** The result of a resource, prompt or completion method, unchanged. Throws a protocol error where there is none. */
export function toRawResult(outcome: Outcome): JsonObject {
  if (outcome.status === "done") {
    if (!isRecord(outcome.data))
      throw new ProtocolError(ProtocolErrorCode.InternalError, `${outcome.action} did not answer with a result`);
    // These describe the connection to the server. The SDK adds them anew for ours.
    const { resultType: _type, cacheScope: _scope, _meta, ...rest } = outcome.data as JsonObject;
    return { ...rest, ...pickMeta(_meta) };
  }
  if (outcome.status === "waiting") {
    const facts = toWaitingFacts(outcome);
    throw new ProtocolError(ProtocolErrorCode.InternalError, outcome.reason, { status: outcome.status, ...facts });
  }
  throwProtocolError(outcome.error);
  if (INVALID_PARAMS_CODES.includes(outcome.error.code)) throw createInvalidParamsError(outcome.error);
  throw new ProtocolError(ProtocolErrorCode.InternalError, outcome.error.error, toProblemJson(outcome));
}

/** The server's `_meta` without its name: the client is connected to us. */
function pickMeta(meta: Json | undefined): { readonly _meta?: JsonObject } {
  if (!isRecord(meta)) return {};
  const { [SERVER_INFO_META_KEY]: _info, ...rest } = meta as JsonObject;
  return Object.keys(rest).length === 0 ? {} : { _meta: rest };
}

const INVALID_PARAMS_CODES: readonly string[] = ["unknown_action", "not_found", "invalid_arguments", "invalid_name"];

export function createInvalidParamsError({ error, hint, ...rest }: Problem): ProtocolError {
  const message = hint === undefined ? error : `${error}. ${hint}`;
  return new ProtocolError(ProtocolErrorCode.InvalidParams, message, { error, hint, ...rest });
}

/** Passes a JSON-RPC error of the server on, with its code and data. */
function throwProtocolError({ error, mcp_code: code, mcp_data: data }: Problem): void {
  if (typeof code === "number" && Number.isSafeInteger(code)) throw new ProtocolError(code, error, data);
}

function toProblemJson(outcome: Extract<Outcome, { readonly error: Problem }>): JsonObject {
  return { status: outcome.status, ...outcome.error };
}

/** In the legacy era it must be an object. Data that is too long for the text is not sent here either. */
function toStructuredContent(data: unknown, era: GatewayEra): { readonly structuredContent?: unknown } {
  const fits = era === "modern" ? data !== undefined && typeof data !== "string" : isRecord(data);
  if (!fits) return {};
  return (JSON.stringify(data)?.length ?? 0) <= VALUE_LIMIT ? { structuredContent: data } : {};
}

/** The blocks that text cannot carry. The text names all of them, so those that are too large are left out. */
function selectMedia(blocks: readonly ContentBlock[]): readonly ContentBlock[] {
  const media = blocks.filter((block) => block.type !== "text" && isSpecType.ContentBlock(block));
  const size = measureMedia(media);
  if (size <= MEDIA_LIMIT) return media;
  const light = media.filter((block) => measureMedia([block]) === 0);
  return [...light, { type: "text", text: `[left out: ${size} characters of pictures, sound or files]` }];
}

function toValidBlock(block: ContentBlock): ContentBlock {
  // Most are plain texts, which need no schema.
  if (block.type === "text" && typeof block.text === "string" && Object.keys(block).length === 2) return block;
  return isSpecType.ContentBlock(block) ? block : { type: "text", text: formatContent([block], INVALID_BLOCK_LIMIT) };
}

const toResult = (fields: object): CallToolResult => fields as CallToolResult;
