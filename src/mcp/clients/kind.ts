import { getOwn } from "../../core/json.ts";
import { quoted } from "../../core/names.ts";
import type { Raw, Words } from "./client.ts";
import type { Filling } from "./variables.ts";

export interface Kind {
  readonly kind: "stdio" | "http";
  /** Which key holds the command or the address. */
  readonly key: string;
}

type Transport = "stdio" | "http" | "sse" | "ws";

/** What `type` says, in every client's words. */
const transports: Readonly<Record<string, Transport>> = {
  stdio: "stdio",
  local: "stdio",
  http: "http",
  remote: "http",
  streamablehttp: "http",
  sse: "sse",
  ws: "ws",
  websocket: "ws",
};

/** How a server is reached, or, told to `unfit`, why we cannot. */
export function kindOf(raw: Raw, words: Words, { unfit }: Filling): Kind | undefined {
  const said = getOwn(raw, "type") ?? getOwn(raw, "transportType");
  const transport =
    typeof said === "string" ? getOwn(transports, said.toLowerCase().replaceAll(/[-_]/g, "")) : undefined;
  if (said !== undefined && transport === undefined) {
    unfit(`its type ${quoted(String(said))} is not known here`);
    return undefined;
  }
  const command = hasText(raw, "command") ? "command" : undefined;
  const http = words.http.find((key) => hasText(raw, key));
  const older = (words.sse ?? []).find((key) => hasText(raw, key));
  switch (transport ?? inferred(command, http, older)) {
    case "stdio":
      if (command !== undefined) return { kind: "stdio", key: command };
      break;
    case "http": {
      const key = http ?? older;
      if (key !== undefined) return { kind: "http", key };
      break;
    }
    case "sse":
      unfit("it speaks the SSE transport, which MCP has given up; ask its makers for a Streamable HTTP address");
      return undefined;
    case "ws":
      unfit("it speaks over a WebSocket, which is no transport of MCP");
      return undefined;
    default:
  }
  unfit("it has neither a command nor an address");
  return undefined;
}

function inferred(command?: string, http?: string, older?: string): Transport | undefined {
  if (command !== undefined) return "stdio";
  if (http !== undefined) return "http";
  return older === undefined ? undefined : "sse";
}

function hasText(raw: Raw, key: string): boolean {
  const value = getOwn(raw, key);
  return typeof value === "string" && value !== "";
}
