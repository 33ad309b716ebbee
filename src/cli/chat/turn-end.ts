import type { ActorEnvelope } from "../../actor/envelope.ts";
import { quoteShellWord } from "../../core/display-text.ts";
import { type ExitCode, exitCodes, getExitCode } from "../exit-codes.ts";

/** The exit code of a command whose last turn ended like this. */
export function getTurnExitCode({ turnState, error }: Pick<ActorEnvelope, "turnState" | "error">): ExitCode {
  switch (turnState) {
    case "complete":
      return exitCodes.done;
    case "clarifying":
      return exitCodes.needsAnswer;
    case "suspended":
      return exitCodes.needsApproval;
    case "cancelled":
      return exitCodes.interrupted;
    case "failed":
      return error === undefined ? exitCodes.failed : getExitCode(error.code, false);
  }
}

/** The command that continues a session. */
export const formatSessionCommand = (command: "chat" | "run", actor: string, session: string): string =>
  `qm ${command} --actor ${quoteShellWord(actor)} --session ${quoteShellWord(session)}`;
