import type { LiveResources } from "../catalog/snapshot.ts";
import type { View } from "../catalog/view.ts";
import type { Action, Effect, JsonSchema } from "../core/action.ts";
import type { Caller, Dialogue } from "../core/caller.ts";
import { getErrorMessage, type Problem, QmError } from "../core/errors.ts";
import type { Content } from "../core/handler-result.ts";
import type { JsonObject } from "../core/json.ts";
import { formatProblemJson, formatResultValue, getModelData, type Outcome, toWaitingFacts } from "../core/outcome.ts";
import type { SurfaceKind } from "../core/surface-choice.ts";
import type { TraceCarrier } from "../core/tracing.ts";
import { copyArguments, prepareArguments } from "../invoke/arguments.ts";
import type { ActionCall } from "../invoke/invoke.ts";
import type { CatalogSearchRequest, CatalogSearchResult } from "../search/search.ts";

/** What a surface stands in front of. */
export interface SurfaceBackend {
  viewOf(caller: Caller, live?: readonly Action[]): View;
  /** What is there only when it is named. */
  readonly live: LiveResources;
  /** The one door. `via` is written to the ledger. */
  invoke(request: Omit<ActionCall, "id">, signal?: AbortSignal): Promise<Outcome>;
  readonly canSearch: boolean;
  /** What there is to say about search where actions are listed; undefined when there is nothing. */
  searchHint(): string | undefined;
  /** Finds actions for a caller. Rejects with `search_off` where search is switched off. */
  search(caller: Caller, request: CatalogSearchRequest, signal?: AbortSignal): Promise<CatalogSearchResult>;
  /** Writes down a tool call that does not lead to the door: looking around, or one that cannot be understood. */
  recordToolCall(caller: Caller, call: SurfaceCall): void;
  /** Writes down of which actions a model was given the schemas. */
  recordFetchedActions(
    caller: Caller,
    names: { readonly requested: readonly string[]; readonly returned: readonly string[] },
  ): void;
}

interface SurfaceCall {
  readonly surface: string;
  readonly tool: string;
  readonly args: unknown;
  readonly ok: boolean;
  readonly code?: string;
}

/** The answer to a tool call, in both forms a model interface may want. */
export interface SurfaceAnswer {
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
  call(
    tool: string,
    args: unknown,
    signal?: AbortSignal,
    dialogue?: Dialogue,
    trace?: TraceCarrier,
  ): Promise<SurfaceAnswer>;
}

const ALREADY_RAN_NOTE = "[This call was asked for before, and this is what became of it. Nothing was run now.]";

export function toSurfaceAnswer(outcome: Outcome): SurfaceAnswer {
  const { content, callId } = outcome;
  const text = outcome.ranAs === undefined ? outcome.value : `${ALREADY_RAN_NOTE}\n${outcome.value}`;
  const shown = { text, callId, ...(content === undefined ? {} : { content }) };
  switch (outcome.status) {
    case "done":
      return { ok: true, data: getModelData(outcome), ...shown };
    case "waiting":
      return { ok: true, data: { status: "waiting", ...toWaitingFacts(outcome.reason, outcome.approval) }, ...shown };
    default:
      return { ok: false, data: { status: outcome.status, ...outcome.error }, ...shown };
  }
}

/** Far more than a model should read, and far less than a hostile description can hold. */
const TEXT_LIMIT = 64 * 1024;

/** Runs work that answers JSON or throws, and makes an answer of either. */
export function captureAnswer(work: () => unknown): SurfaceAnswer {
  try {
    const data = work();
    return { ok: true, data, text: formatResultValue(data, TEXT_LIMIT) };
  } catch (thrown) {
    const error = thrown instanceof QmError ? thrown : new QmError("internal", getErrorMessage(thrown));
    return { ok: false, data: error.toProblem(), text: formatProblemJson(error.toProblem()) };
  }
}

/** What looking around found; `text` where a model reads something else than the JSON of it. */
interface LookupAnswer {
  readonly data: unknown;
  readonly text?: string;
}

/** How a surface answers tool calls that do not pass the door. */
interface ToolLookup {
  /** Checks the arguments, does the work, and writes down that it was asked for. Never rejects. */
  look(
    tool: SurfaceTool,
    args: unknown,
    work: (prepared: JsonObject) => LookupAnswer | Promise<LookupAnswer>,
  ): Promise<SurfaceAnswer>;
  /** Writes down what is answered. What cannot be written is not answered either. */
  noted(tool: SurfaceTool, args: unknown, answer: SurfaceAnswer): SurfaceAnswer;
}

export function createToolLookup(counter: SurfaceBackend, caller: Caller, surface: Surface["kind"]): ToolLookup {
  const recordAnswer = ({ name }: SurfaceTool, args: unknown, answer: SurfaceAnswer): SurfaceAnswer => {
    const code = answer.ok ? {} : { code: (answer.data as Problem).code };
    const note = { surface, tool: name, args, ok: answer.ok, ...code };
    const written = captureAnswer(() => counter.recordToolCall(caller, note));
    return written.ok ? answer : written;
  };
  return {
    noted: recordAnswer,
    async look(tool, args, work) {
      let answer: SurfaceAnswer;
      try {
        const { data, text } = await work(prepareToolArguments(tool, args));
        answer = text === undefined ? captureAnswer(() => data) : { ok: true, data, text };
      } catch (thrown) {
        answer = captureAnswer(() => {
          throw thrown;
        });
      }
      return recordAnswer(tool, args, answer);
    },
  };
}

/** Arguments that fit a tool of the surface itself. Throws `invalid_arguments`. */
export function prepareToolArguments(tool: SurfaceTool, args: unknown): JsonObject {
  return prepareArguments({ ...tool, examples: [] }, copyArguments(args)).args;
}
