import type { LiveResources } from "../catalog/live.ts";
import type { View } from "../catalog/view.ts";
import type { Action, JsonSchema } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { Content } from "../core/content.ts";
import type { Dialogue } from "../core/dialogue.ts";
import type { Effect } from "../core/effect.ts";
import { messageOf, QmError } from "../core/errors.ts";
import { modelData, type Outcome, problemText, valueText, waitingFacts } from "../core/outcome.ts";
import type { SurfaceKind } from "../core/surface-choice.ts";
import type { TraceCarrier } from "../core/tracing.ts";
import type { Call } from "../invoke/invoke.ts";
import type { Found, SearchRequest } from "../search/search.ts";

/** What a surface stands in front of. */
export interface Counter {
  viewOf(caller: Caller, live?: readonly Action[]): View;
  /** What is there only when it is named. */
  readonly live: LiveResources;
  /** The one door. `via` is written to the ledger. */
  invoke(request: Omit<Call, "id">, signal?: AbortSignal): Promise<Outcome>;
  readonly canSearch: boolean;
  /** What there is to say about search where actions are listed; undefined when there is nothing. */
  searchHint(): string | undefined;
  /** Finds actions for a caller. Rejects with `search_off` where search is switched off. */
  search(caller: Caller, request: SearchRequest, signal?: AbortSignal): Promise<Found>;
  /** Writes down a tool call that does not lead to the door: looking around, or one that cannot be understood. */
  called(caller: Caller, call: SurfaceCall): void;
  /** Writes down of which actions a model was given the schemas. */
  fetched(caller: Caller, names: { readonly requested: readonly string[]; readonly returned: readonly string[] }): void;
}

export interface SurfaceCall {
  readonly surface: string;
  readonly tool: string;
  readonly args: unknown;
  readonly ok: boolean;
  readonly code?: string;
}

/** The answer to a tool call, in both forms a model interface may want. */
export interface Answer {
  readonly ok: boolean;
  /** Whole and structured. */
  readonly data: unknown;
  /** Bounded, for the model. */
  readonly text: string;
  /** Of the call behind it, as the ledger has it. Absent: nothing was called. */
  readonly callId?: string;
  /** For an interface that can show more than text. Absent: `text` is all there is to show. */
  readonly content?: Content;
}

/** One tool as a model is shown it. */
export interface SurfaceTool {
  /** Fits `^[a-zA-Z0-9_-]{1,64}$`, the narrowest of the providers' grammars. */
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  /** The most that calling it can do; absent when that depends on the arguments. */
  readonly effect?: Effect;
}

/**
 * The tools one caller's model is shown, and the way back from a tool call. The list is sorted and byte-stable for the
 * same view, so that a provider's prompt cache holds.
 */
export interface Surface {
  readonly kind: Exclude<SurfaceKind, "auto">;
  readonly tools: readonly SurfaceTool[];
  /** On the deferred surface: what can be found and was not loaded from the start, sorted, for providers that defer. */
  readonly deferred?: readonly SurfaceTool[];
  /** Answers any call, also one for a tool that is not in the list. Never rejects. */
  call(tool: string, args: unknown, signal?: AbortSignal, dialogue?: Dialogue, trace?: TraceCarrier): Promise<Answer>;
}

const RAN_BEFORE = "[This call was asked for before, and this is what became of it. Nothing was run now.]";

export function outcomeAnswer(outcome: Outcome): Answer {
  const { content, callId } = outcome;
  const text = outcome.ranAs === undefined ? outcome.value : `${RAN_BEFORE}\n${outcome.value}`;
  const shown = { text, callId, ...(content === undefined ? {} : { content }) };
  switch (outcome.status) {
    case "done":
      return { ok: true, data: modelData(outcome), ...shown };
    case "waiting":
      return { ok: true, data: { status: "waiting", ...waitingFacts(outcome.reason, outcome.approval) }, ...shown };
    default:
      return { ok: false, data: { status: outcome.status, ...outcome.error }, ...shown };
  }
}

/** Far more than a model should read, and far less than a hostile description can hold. */
const TEXT_LIMIT = 64 * 1024;

/** Runs work that answers JSON or throws, and makes an answer of either. */
export function answering(work: () => unknown): Answer {
  try {
    const data = work();
    return { ok: true, data, text: valueText(data, TEXT_LIMIT) };
  } catch (thrown) {
    const error = thrown instanceof QmError ? thrown : new QmError("internal", messageOf(thrown));
    return { ok: false, data: error.toProblem(), text: problemText(error.toProblem()) };
  }
}
