import type { LoggingLevel, ServerContext } from "@modelcontextprotocol/server";
import type { Dialogue } from "../../core/dialogue.ts";

/** What one request lets its client be told until it is answered. */
export type Telling = Pick<Dialogue, "progress" | "log">;

const LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] as const;

/** Progress goes to whoever gave a token for it; log lines to whoever asked for lines of that level. */
export function tellingOf({ mcpReq }: ServerContext): Telling {
  const progressToken = mcpReq._meta?.progressToken;
  return {
    progress(update) {
      if (progressToken === undefined) return;
      sent(mcpReq.notify({ method: "notifications/progress", params: { ...update, progressToken } }));
    },
    log({ level, data, logger }) {
      sent(mcpReq.log(levelOf(level), data, logger));
    },
  };
}

function levelOf(level: string): LoggingLevel {
  return LEVELS.find((known) => known === level) ?? "info";
}

/** Nobody waits for it, and a client that has gone does not miss it. */
function sent(sending: Promise<void>): void {
  sending.catch(() => {});
}
