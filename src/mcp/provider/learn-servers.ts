import { type Problem, QmError } from "../../core/errors.ts";
import { cliHintWords } from "../../core/hint.ts";
import { omitUndefined } from "../../core/json.ts";
import type { Hub } from "../hub/hub.ts";
import { wrapServerError } from "../hub/server-errors.ts";
import type { ManifestService } from "../manifests/manifest-service.ts";

/** A server that was asked what it offers, or why it could not be. */
export interface LearnedServer {
  readonly name: string;
  readonly tools?: number;
  /** How many of its tools a person must review before they can be used. */
  readonly withheld?: number;
  readonly protocol?: string;
  /** For a person at a terminal. */
  readonly problem?: Problem;
}

export interface LearnOptions {
  readonly signal?: AbortSignal;
  /** For all servers together. Each has its own start timeout too. Absent: only those. */
  readonly timeoutMs?: number;
  /** Ask again at once after a failure, for a person's request. */
  readonly insist?: boolean;
  readonly onLearned?: (server: LearnedServer) => void;
}

/**
 * Starts servers, as many at once as the hub allows, reads what they offer and stops those that no caller uses meanwhile.
 * Never rejects: a server that fails or takes too long is in the result with its problem.
 */
export async function learnServers(
  { hub, manifests }: { readonly hub: Pick<Hub, "learn">; readonly manifests: ManifestService },
  names: readonly string[],
  { signal, timeoutMs, insist = false, onLearned }: LearnOptions,
): Promise<readonly LearnedServer[]> {
  const late = new AbortController();
  const timer = timeoutMs && setTimeout(() => late.abort(timeoutError(timeoutMs)), timeoutMs);
  const either = AbortSignal.any([late.signal, ...(signal === undefined ? [] : [signal])]);
  const learn = async (name: string): Promise<LearnedServer> => {
    try {
      const { tools, protocolVersion: protocol } = await hub.learn(name, either, insist);
      const withheld = manifests.withheld(name).length || undefined;
      return omitUndefined({ name, tools: tools.length, withheld, protocol });
    } catch (thrown) {
      return { name, problem: wrapServerError(thrown).toProblem(cliHintWords) };
    }
  };
  const learning = names.map(async (name) => {
    const learned = await learn(name);
    onLearned?.(learned);
    return learned;
  });
  return Promise.all(learning).finally(() => clearTimeout(timer));
}

function timeoutError(timeoutMs: number): QmError {
  const message = `it was not asked within ${Math.round(timeoutMs / 1000)} s, which all servers share`;
  return new QmError("server_failed", message, { hint: "Its tools become known when it is first used." });
}
