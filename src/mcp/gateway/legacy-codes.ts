import { isJSONRPCErrorResponse, type JSONRPCMessage } from "@modelcontextprotocol/server";
import { isRecord } from "../../core/json.ts";

const RESOURCE_NOT_FOUND = -32002;
const INVALID_PARAMS = -32602;

/** A resource that is not there has a code of its own in the legacy era; the library knows only the later one. */
export function withLegacyCode(message: JSONRPCMessage): JSONRPCMessage {
  if (!isJSONRPCErrorResponse(message) || message.error.code !== INVALID_PARAMS) return message;
  const { data } = message.error;
  const names = isRecord(data) ? Object.keys(data) : [];
  if (names.length !== 1 || names[0] !== "uri") return message;
  return { ...message, error: { ...message.error, code: RESOURCE_NOT_FOUND } };
}
