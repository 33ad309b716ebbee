import type { LiveResources } from "../catalog/snapshot.ts";
import type { View } from "../catalog/view.ts";
import type { Abortable } from "../core/abortable.ts";
import type { Action, Effect, JsonSchema } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { type Problem, toQmError } from "../core/errors.ts";
import type { Content } from "../core/handler-result.ts";
import type { HintWords } from "../core/hint.ts";
import type { JsonObject } from "../core/json.ts";
import { formatProblemJson, formatResultValue, getModelData, type Outcome, toWaitingFacts } from "../core/outcome.ts";
import type { SurfaceKind } from "../core/surface-choice.ts";
import { copyArguments, prepareArguments } from "../invoke/arguments.ts";
import type { ActionCall } from "../invoke/invoke.ts";
import type { CatalogSearchRequest, CatalogSearchResult } from "../search/search.ts";

export interface SurfaceBackend {
  getView(caller: Caller, live?: readonly Action[]): View;
  readonly live: LiveResources;
  /** Without an id, the call gets a new one. */
  invoke(request: Omit<ActionCall, "id"> & { readonly id?: string | undefined }, signal?: Abortable): Promise<Outcome>;
  readonly canSearch: boolean;
  searchHint(): Promise<string | undefined>;
  /** How hints name their steps to a caller. */
  getHintWords(surface: string, caller: Caller): HintWords;
  /** Rejects with `search_off` when search is switched off. */
  search(caller: Caller, request: CatalogSearchRequest, signal?: Abortable): Promise<CatalogSearchResult>;
  /** Records a tool call that invokes no action: a lookup, or one with invalid arguments. */
  recordToolCall(
    caller: Caller,
    call: {
      readonly surface: string;
      readonly tool: string;
      readonly args: unknown;
      readonly ok: boolean;
      readonly code?: string;
    },
  ): void;
  /** Records the actions whose schemas a model was given. */
  recordFetchedActions(caller: Caller, names: { requested: string[]; returned: string[] }): void;
}

export interface SurfaceAnswer {
  readonly ok: boolean;
  readonly data: unknown;
  /** Bounded, for the model. */
  readonly text: string;
  /** Whether the text is a shorter form of the data, with all a model needs. */
  readonly isTextPreferred?: boolean;
  /** The call in the ledger. Absent for lookups. */
  readonly callId?: string;
  /** For an interface that can show more than text. */
  readonly content?: Content;
}

export interface SurfaceTool {
  /** Fits `^[a-zA-Z0-9_-]{1,64}$`, the narrowest grammar among the providers. */
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  /** Absent if it depends on the arguments. */
  readonly effect?: Effect;
}

/** One caller's tools, sorted and byte-stable for the same view, so that prompt caches stay valid. */
export interface Surface {
  readonly kind: Exclude<SurfaceKind, "auto">;
  readonly tools: readonly SurfaceTool[];
  /** Whether a call can change the tools. Otherwise only the catalog and the policy do. */
  readonly learnsFromCalls: boolean;
  /** On the deferred surface: the deferred actions, sorted, for providers that load tools later. */
  readonly deferred?: readonly SurfaceTool[];
  /** Answers any call, even of a tool that is not listed. Never rejects. */
  call(tool: string, args: unknown, signal?: Abortable, options?: SurfaceCallOptions): Promise<SurfaceAnswer>;
}

/** For the call of an action. `id`: chosen before the call, so that its end can be found after a crash. */
export type SurfaceCallOptions = Pick<ActionCall, "dialogue" | "trace"> & { readonly id?: string };

const ALREADY_RAN_NOTE = "[This call was made before, and this is its result. Nothing was run now.]";

export function toSurfaceAnswer(outcome: Outcome): SurfaceAnswer {
  const { content, callId } = outcome;
  const text = outcome.ranAs === undefined ? outcome.value : `${ALREADY_RAN_NOTE}\n${outcome.value}`;
  const common = { text, callId, ...(content === undefined ? {} : { content }) };
  switch (outcome.status) {
    case "done":
      return { ok: true, data: getModelData(outcome), ...common };
    case "waiting":
      return { ok: true, data: { status: "waiting", ...toWaitingFacts(outcome) }, ...common };
    default:
      return { ok: false, data: { status: outcome.status, ...outcome.error }, ...common };
  }
}

/** More than a model should read, and less than a hostile description can hold. */
const TEXT_LIMIT = 64 * 1024;

/** `text`: what the model reads instead of the data's JSON. */
type LookupResult = { readonly data: unknown; readonly text?: string };

export type LookUp = (
  tool: SurfaceTool,
  args: unknown,
  work: (prepared: JsonObject) => LookupResult | Promise<LookupResult>,
) => Promise<SurfaceAnswer>;

/** Answers tool calls that invoke no action: checks the arguments, does the work, and records the call. Never rejects. */
export const createLookUp =
  (backend: SurfaceBackend, caller: Caller, surface: Surface["kind"]): LookUp =>
  async (tool, args, work) => {
    let answer: SurfaceAnswer;
    try {
      const { data, text } = await work(prepareToolArguments(tool, args));
      answer =
        text === undefined
          ? { ok: true, data, text: formatResultValue(data, TEXT_LIMIT) }
          : { ok: true, data, text, isTextPreferred: true };
    } catch (thrown) {
      answer = toErrorAnswer(thrown, backend.getHintWords(surface, caller));
    }
    const code = answer.ok ? {} : { code: (answer.data as Problem).code };
    try {
      backend.recordToolCall(caller, { surface, tool: tool.name, args, ok: answer.ok, ...code });
      return answer;
    } catch (thrown) {
      // An answer that cannot be recorded is not given.
      return toErrorAnswer(thrown);
    }
  };

function toErrorAnswer(thrown: unknown, words?: HintWords): SurfaceAnswer {
  const problem = toQmError(thrown).toProblem(words);
  return { ok: false, data: problem, text: formatProblemJson(problem) };
}

/** Throws `invalid_arguments` if they do not fit the tool. */
export const prepareToolArguments = (tool: SurfaceTool, args: unknown): JsonObject =>
  prepareArguments({ ...tool, examples: [] }, copyArguments(args)).args;
