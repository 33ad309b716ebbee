import type { SuspendedTurn, Turn } from "../approval/turn.ts";
import { raceAbort } from "../core/async.ts";
import { QmError } from "../core/errors.ts";
import { omitUndefined } from "../core/json.ts";
import type {
  CallModel,
  ModelAnswer,
  ModelAnswerMessage,
  ModelMessage,
  ModelRequest,
  TextListener,
} from "../core/model.ts";
import type { ActorSurface } from "./actor-services.ts";
import { answerCalls, CALL_LIMIT } from "./answer-calls.ts";
import type { ActorEvent, AnswerPart } from "./envelope.ts";
import { isRespond, readResponse, respondTool } from "./respond.ts";
import { addUse, type OpenCall, type TurnProgress } from "./turn-progress.ts";

/** Answers with mistakes of form that cost no step, in a row. */
const UNCOUNTED_LIMIT = 3;
/** More calls in one answer end the turn. Those beyond `CALL_LIMIT` are only refused. */
const ANSWER_CALLS = 1_000;

export interface TurnLoopParts extends ActorSurface {
  readonly turn: Turn;
  /** Charges the turn's caller. */
  readonly model: CallModel;
  /** The cost of an answer, if the model has a price. */
  getCost(answer: ModelAnswer): number | undefined;
  readonly system: string;
  /** The tool that a weak model is made to call first. */
  readonly firstTool?: string | undefined;
  readonly history: readonly ModelMessage[];
  readonly maxSteps: number;
  readonly signal: AbortSignal;
  readonly newId: () => string;
  emit(event: ActorEvent): void;
  /** Forwards the text of one answer while the model writes it. `end` resolves when all was forwarded. */
  openText(): { readonly onText: TextListener; end(): Promise<void> };
  /** Why the actor may not leave the work to another one. Undefined: it may. */
  findPassProblem(actor: string): string | undefined;
  /** Gives a part to the host while the turn runs. */
  deliver(part: AnswerPart): Promise<void>;
  /** Stores where the data of a delegated turn comes from. */
  holdSources(): Promise<void>;
}

export type LoopEnd =
  | { readonly state: "complete" | "clarifying" }
  | { readonly state: "passed"; readonly to: string }
  | { readonly state: "suspended"; readonly suspended: SuspendedTurn };

type ProgressChange = { readonly [K in keyof TurnProgress]?: TurnProgress[K] | undefined };

/** One turn: requests to the model and the calls it wants, until it answers. `run` rejects if the turn fails or is cancelled. */
export function createTurnLoop(parts: TurnLoopParts, start: TurnProgress) {
  const { turn, model, surface, system, history, maxSteps, signal, emit } = parts;
  let progress = start;
  let wasEmpty = false;

  function change(next: ProgressChange): void {
    progress = omitUndefined({ ...progress, ...next }) as TurnProgress;
  }

  async function save(next: ProgressChange = {}): Promise<void> {
    change(next);
    await turn.save(progress as never);
  }

  async function request(more: Partial<ModelRequest>, extra: readonly ModelMessage[] = []): Promise<ModelAnswer> {
    // Stored before it is sent, so that a process that dies in each request comes to the limit.
    await save({ steps: progress.steps + 1, requests: progress.requests + 1 });
    emit({ type: "step", step: progress.steps, of: maxSteps });
    const { onText, end } = parts.openText();
    const tools = [...surface.tools.filter((tool) => !isRespond(tool)), respondTool];
    const messages = [...history, ...progress.messages, ...extra];
    const answer = await raceAbort(model({ system, messages, tools, ...more }, onText), signal);
    await end();
    progress = addUse(progress, answer, parts.getCost(answer));
    return answer;
  }

  /** A weak model must look before it does anything else in a turn. */
  function chooseFirstTool(): Pick<ModelRequest, "toolChoice"> {
    const tool = surface.tools.find(({ name }) => name === parts.firstTool)?.name;
    const isFirst = progress.messages.every(({ role }) => role === "user");
    return tool !== undefined && isFirst ? { toolChoice: { tool } } : {};
  }

  /** Stores the result of a call while others of the same answer run. After an abort the ledger tells what became of it. */
  async function saveResult(result: OpenCall): Promise<void> {
    const open = progress.open?.map((call) => (call.callId === result.callId ? result : call));
    if (signal.aborted) return;
    change({ open });
    if (open?.some((call) => call.text === undefined && !isRespond(call))) await save();
  }

  async function deliver(given: readonly AnswerPart[]): Promise<void> {
    change({ parts: [...progress.parts, ...given] });
    for (const part of given) await parts.deliver(part);
  }

  async function readAnswer({ message, finish }: ModelAnswer): Promise<LoopEnd | undefined> {
    const text = message.text.trim();
    wasEmpty = message.toolCalls.length === 0 && text === "";
    if (wasEmpty) return retryEmpty(finish);
    if (message.toolCalls.length > ANSWER_CALLS)
      throw new QmError("model_failed", `the model made more than ${ANSWER_CALLS} calls in one answer`);
    const messages = [...progress.messages, toJsonMessage(message)];
    if (message.toolCalls.length > 0) {
      const open = message.toolCalls.map(({ id, name, args }) => {
        return { id, name, args: (args ?? null) as never, callId: parts.newId() };
      });
      const calls = open.filter((call) => !isRespond(call)).slice(0, CALL_LIMIT).length;
      await save({ messages, open, calls: progress.calls + calls });
      return undefined;
    }
    change({ messages });
    await deliver([{ partType: "response", text }]);
    return { state: "complete" };
  }

  /** An empty answer is not kept: providers refuse it in a conversation. */
  function retryEmpty(finish: ModelAnswer["finish"]): undefined {
    if (finish === "content-filter")
      throw new QmError("model_refused", "the model's provider blocked the answer", { hint: "Say it in other words." });
    if (!excuse()) throw new QmError("model_failed", "the model gave an empty answer", { hint: "Try again." });
    return undefined;
  }

  /** Whether an answer that has only mistakes of form costs no step. */
  function excuse(): boolean {
    if (progress.uncounted >= UNCOUNTED_LIMIT) return false;
    change({ steps: progress.steps - 1, uncounted: progress.uncounted + 1 });
    return true;
  }

  /** The last request: the model must answer without tools, with what it has. */
  async function wrapUp(): Promise<LoopEnd> {
    const text = `You have used all ${maxSteps} steps of this turn. Do not call tools. Answer the user now: what is done, what is not, and why.`;
    const { message } = await request({ toolChoice: "none" }, [{ role: "user", text }]);
    const answered =
      message.text.trim() === ""
        ? readLateResponse(message)
        : [{ partType: "response", text: message.text.trim() } as const];
    if (answered.length === 0) {
      const hint = "Ask for less, or raise max_steps of the actor.";
      throw new QmError("model_failed", `the model did not answer within ${maxSteps} steps`, { hint });
    }
    const said = answered.map((part) => part.text ?? JSON.stringify(part.data)).join("\n\n");
    change({ messages: [...progress.messages, { role: "assistant", text: said, toolCalls: [] }] });
    await deliver(answered);
    return { state: "complete" };
  }

  return {
    get progress(): TurnProgress {
      return progress;
    },
    async run(): Promise<LoopEnd> {
      // Calls that are made again have new ids, which must be known after the next crash.
      if (progress.open !== undefined) await save();
      for (;;) {
        signal.throwIfAborted();
        if (progress.open === undefined) {
          if (progress.steps >= maxSteps) return wrapUp();
          const ended = await readAnswer(await request(chooseFirstTool(), wasEmpty ? [REMINDER] : []));
          if (ended !== undefined) return ended;
          if (progress.open === undefined) continue;
        }
        const { open, responses, end, isMalformed } = await answerCalls(parts, progress.open, saveResult);
        await parts.holdSources();
        change({ open });
        if (open.some(({ text }) => text === undefined)) {
          signal.throwIfAborted();
          await deliver(responses);
          return { state: "suspended", suspended: await turn.suspend(progress as never) };
        }
        const results = open.map(({ id, name, text = "" }) => ({ id, name, text }));
        change({ messages: [...progress.messages, { role: "tool", results }], open: undefined });
        await deliver(responses);
        if (end !== undefined) return end;
        if (!isMalformed || !excuse()) change({ uncounted: 0 });
      }
    },
  };
}

/** A model that answers with `respond` although it may not call tools means that answer. */
function readLateResponse({ toolCalls }: ModelAnswerMessage): readonly AnswerPart[] {
  return toolCalls.filter(isRespond).flatMap(({ args }) => {
    try {
      return readResponse(args).parts;
    } catch {
      return [];
    }
  });
}

const REMINDER: ModelMessage = { role: "user", text: "Your answer was empty. Call a tool, or answer the user." };

/** Plain data, as it is stored. */
const toJsonMessage = (message: ModelAnswerMessage): ModelMessage => JSON.parse(JSON.stringify(message));
